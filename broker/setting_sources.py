"""Where settings come from: properties files, the environment, ``--set``.

A value may refer to another place: ``${file:PATH}`` is the text of a file, ``${file:PATH:KEY}`` a line of a properties
file, ``${env:NAME}`` an environment variable. So secrets need not stand in the settings themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.setting_keys import ALIASES, OF_LISTENER, bare_key, of_listener
from ottla.broker.settings import FIELDS, BadSetting, Settings, parse_value

NOT_SETTINGS = frozenset(
    {
        "OTTLA_AIOKAFKA_TREE",
        "OTTLA_BOOTSTRAP_SERVERS",
        "OTTLA_CAFILE",
        "OTTLA_CERTFILE",
        "OTTLA_CLUSTER_SEEDS",
        "OTTLA_COMMAND_CONFIG",
        "OTTLA_DIFFERENTIAL_CACHE",
        "OTTLA_INTEROP_CACHE",
        "OTTLA_KEYFILE",
        "OTTLA_LIBRDKAFKA_TREE",
        "OTTLA_PASSWORD",
        "OTTLA_PASSWORD_FILE",
        "OTTLA_PIPELINE_TASKS",
        "OTTLA_PROFILE",
        "OTTLA_RECORD_ANSWERS",
        "OTTLA_SASL_MECHANISM",
        "OTTLA_SECURITY_PROTOCOL",
        "OTTLA_SEED",
        "OTTLA_SIM_SEEDS",
        "OTTLA_TESTS",
        "OTTLA_TOKEN_FILE",
        "OTTLA_USERNAME",
    }
)
"""Environment variables that the command-line tools and the tests read."""

CLOSE = 0.85
"""Spellings that have this much in common are one slip of a finger apart; other settings of Kafka's have less."""

CONTROLLER_LISTENERS = "controller.listener.names"
"""Says which listeners are for the controllers of Kafka's KRaft mode; there are none here."""

_REFERENCE = re.compile(r"\$\{(file|env):([^:}]+)(?::([^}]+))?\}")


def parse_properties(text: str) -> dict[str, str]:
    """Read the lines of a properties file: ``key=value``, ``#`` and ``!`` begin comments, ``\\`` continues a line."""
    pairs: dict[str, str] = {}
    logical = ""
    for raw in text.splitlines():
        line = logical + raw.strip()
        logical = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            logical = line[:-1]
            continue
        cut = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=len(line))
        pairs[line[:cut].strip()] = line[cut + 1 :].strip()
    return pairs


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among environment variables.

    Names that are no setting are left out if they begin with KAFKA_ (other tools share that prefix) and kept, to be
    warned about, if they begin with OTTLA_; but for those that other commands of ours read.
    """
    pairs: dict[str, str] = {}
    for prefix in ("KAFKA_", "OTTLA_"):
        for name, value in environment.items():
            if not name.startswith(prefix) or name in NOT_SETTINGS:
                continue
            # As Kafka's images have it: two underscores stand for one, three for a dash.
            parts = name.removeprefix(prefix).lower().replace("___", "-").split("__")
            key = "_".join(part.replace("_", ".") for part in parts)
            if key not in FIELDS and f"ottla.{key}" in FIELDS:
                key = f"ottla.{key}"
            if prefix == "OTTLA_" or is_known(key, value):
                pairs[key] = value
    return pairs


def is_known(key: str, text: str) -> bool:
    """Whether a key is a setting, or means something to a broker of Kafka's that must not go unnoticed."""
    known = key in FIELDS or key in ALIASES or key == CONTROLLER_LISTENERS or of_listener(key) is not None
    return known or has_no_effect(key) or protects(key, text)


def resolved(key: str, text: str, environment: Mapping[str, str]) -> str:
    """A value with that to which it refers.

    Raises:
        BadSetting: there is no such file, line of it, or variable.
    """

    def value(found: re.Match[str]) -> str:
        kind, name, line = found.groups()
        try:
            if kind == "env":
                return environment[name]
            with open(name, encoding="utf-8") as file:
                content = file.read()
            return content.removesuffix("\n").removesuffix("\r") if line is None else parse_properties(content)[line]
        except KeyError:
            missing = f"the environment has no {name}" if kind == "env" else f"{name} has no line {line}="
            raise BadSetting(f"{key}={text}: {missing}") from None
        except (OSError, UnicodeDecodeError) as error:
            why = "it is not in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise BadSetting(f"{key}={text}: {name} cannot be read: {why}") from None

    return _REFERENCE.sub(value, text)


def referred_files(text: str) -> list[str]:
    """The files to which a value refers."""
    return [name for kind, name, _ in _REFERENCE.findall(text) if kind == "file"]


_KAFKAS = parse_properties("""
principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
sasl.kerberos.kinit.cmd=/usr/bin/kinit
sasl.kerberos.min.time.before.relogin=60000
sasl.kerberos.principal.to.local.rules=DEFAULT
sasl.kerberos.ticket.renew.jitter=0.05
sasl.kerberos.ticket.renew.window.factor=0.8
sasl.login.refresh.buffer.seconds=300
sasl.login.refresh.min.period.seconds=60
sasl.login.refresh.window.factor=0.8
sasl.login.refresh.window.jitter=0.05
sasl.login.retry.backoff.max.ms=10000
sasl.login.retry.backoff.ms=100
sasl.mechanism.controller.protocol=GSSAPI
sasl.mechanism.inter.broker.protocol=GSSAPI
sasl.oauthbearer.assertion.algorithm=RS256
sasl.oauthbearer.assertion.claim.exp.seconds=300
sasl.oauthbearer.assertion.claim.jti.include=false
sasl.oauthbearer.assertion.claim.nbf.seconds=60
sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
security.inter.broker.protocol=PLAINTEXT
ssl.endpoint.identification.algorithm=https
ssl.keymanager.algorithm=SunX509
ssl.protocol=TLSv1.3
ssl.trustmanager.algorithm=PKIX
""")
"""Kafka 4.3's defaults of what is no setting here: who repeats them, as printed configurations do, protects nothing."""


_OF_DISKS = (
    "log.dirs",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "ottla.durability",
    "ottla.durability.interval.ms",
)
"""Settings that mean nothing where a database has the logs: every record is durable once it is acknowledged."""


class Loaded(NamedTuple):
    """Checked settings, the keys that were not known, and those whose values would change something and do not.

    ``unprotected`` are the keys that would protect a broker of Kafka's and protect nothing here, and slips for keys of
    security; ``left_out`` are pairs of a key and a listener for controllers that was taken out of its value.
    """

    settings: Settings
    unknown: list[str]
    without_effect: list[str]
    unprotected: list[str]
    left_out: list[tuple[str, str]]


def load(
    *sources: Mapping[str, str] | Iterable[tuple[str, str]], environment: Mapping[str, str] = os.environ
) -> Loaded:
    """Merge sources (later ones win) and check every value.

    Args:
        environment: the variables to which values may refer.

    Raises:
        BadSetting: one line that names the key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    by_listener: dict[str, Any] = {}
    strangers: dict[str, str] = {}
    controllers = "CONTROLLER"  # as every example of Kafka's calls them
    for source in sources:
        for key, text in dict(source).items():
            target, factor = ALIASES.get(key, (key, 1))
            if key == CONTROLLER_LISTENERS:
                controllers = text
            elif (own := of_listener(key)) is not None:
                by_listener[key.removeprefix(OF_LISTENER).lower()] = _value(key, own, text, environment)
            elif target not in FIELDS:
                strangers[key] = text
            elif factor == 1:
                values[target] = _value(key, target, text, environment)
            else:
                try:
                    number = int(text)
                except ValueError:
                    raise BadSetting(f"{key}={text!r}: not a whole number") from None
                values[target] = parse_value(target, str(number * factor if number >= 0 else number))
    if "," in values.get("log.dirs", ""):
        raise BadSetting(f"log.dirs={values['log.dirs']!r}: allowed is one directory; name one, or say --data-dir DIR")
    left_out = _leave_out_controllers(values, by_listener, controllers)
    fields = {FIELDS[key].name: value for key, value in values.items()}
    settings = Settings(given=frozenset(values), by_listener=by_listener, **fields)
    _check_order(settings)
    _check_consumer_groups(settings)
    without_effect = [
        key for key, value in values.items() if not FIELDS[key].metadata["effective"] and value != FIELDS[key].default
    ]
    if settings.ottla_cluster_url:
        without_effect += filter(settings.is_given, _OF_DISKS)
    unprotected = [key for key, text in strangers.items() if protects(key, text) or is_slip_for_security(key, text)]
    idle = [key for key in strangers if has_no_effect(key)]
    without_effect += [key for key in idle if not _is_kafkas_default(key, strangers[key])]
    unknown = [key for key in strangers if key not in unprotected and key not in idle]
    return Loaded(settings, unknown, without_effect, unprotected, left_out)


def _value(key: str, setting: str, text: str, environment: Mapping[str, str]) -> Any:
    """Read the value of a setting, which is given by a key that may be longer."""
    whole = resolved(key, text, environment)
    try:
        return parse_value(setting, whole)
    except BadSetting as error:
        if whole != text:
            raise BadSetting(f"{key}={text}: what this refers to is no value of {setting}") from None
        raise (error if key == setting else BadSetting(f"{key}: {error}")) from None


ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    *(
        pair
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        for pair in (
            (f"group.consumer.min.{name}", f"group.consumer.{name}"),
            (f"group.consumer.{name}", f"group.consumer.max.{name}"),
        )
    ),
)
"""Pairs of settings of which the first must not exceed the second."""
LESS = (
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("connection.failed.authentication.delay.ms", "connections.max.idle.ms"),
)
"""The first must be less than the second."""


def _check_order(settings: Settings) -> None:
    """Raises `BadSetting` with all pairs at once: who shortens a timeout has to change several settings."""
    problems: list[str] = []
    for lower, upper in (*ORDERED, *LESS):
        low, high = getattr(settings, FIELDS[lower].name), getattr(settings, FIELDS[upper].name)
        strictly = (lower, upper) in LESS
        if low < high or (low == high and not strictly):
            continue
        if lower in settings.given:
            more = "" if upper in settings.given else ": raise that as well"
            problems.append(f"{lower}={low}: must {'be less than' if strictly else 'not exceed'} {upper}={high}{more}")
        else:  # nobody knows a setting that he did not name: the one that was named is to blame
            must = "exceed" if strictly else "not be below"
            problems.append(f"{upper}={high}: must {must} {lower}={low}: lower that as well")
    if problems:
        raise BadSetting("; ".join(problems))


def _check_consumer_groups(settings: Settings) -> None:
    for key in ("group.consumer.assignors", "group.coordinator.rebalance.protocols"):
        items = [item.strip() for item in getattr(settings, FIELDS[key].name).split(",")]
        if len(set(items)) != len(items):
            raise BadSetting(f"{key}={','.join(items)!r}: names one twice")
    if not settings.group_consumer_assignors.strip():
        raise BadSetting("group.consumer.assignors='': allowed are uniform and range, or one of them")
    if "classic" not in settings.group_coordinator_rebalance_protocols.split(","):
        raise BadSetting("group.coordinator.rebalance.protocols: classic has to be among them")


def meant_by(key: str) -> str:
    """The key that is so close that an unknown one must be a slip for it; or nothing."""
    from difflib import get_close_matches

    bare = bare_key(key)
    known = (
        [*FIELDS, *ALIASES] if bare == key else [name for name, one in FIELDS.items() if one.metadata["by_listener"]]
    )
    return next((key.removesuffix(bare) + meant for meant in get_close_matches(bare, known, 1, CLOSE)), "")


def did_you_mean(key: str) -> str:
    """``; did you mean …?``, or nothing, to end a sentence about a key that does not exist."""
    meant = meant_by(key)
    return f"; did you mean {meant}?" if meant else ""


_OF_SECURITY = (
    "allow.everyone.", "authorizer.", "listener", "ottla.audit.", "ottla.authentication.", "ottla.http.ssl.",
    "ottla.http.tls", "ottla.http.token.", "ottla.sasl.", "ottla.tls.", "sasl.", "security.", "ssl.", "super.users",
)  # fmt: skip
"""Prefixes of the settings that say who gets in, what he may do, and who hears of it."""


def is_slip_for_security(key: str, text: str) -> bool:
    """Whether an unknown key must be a slip for one that protects, and has a value."""
    if not text.strip() or is_known(key, text) or is_of_clusters(key):
        return False
    return bare_key(meant_by(key)).startswith(_OF_SECURITY)


_OF_CLUSTERS = (
    "background.threads", "broker.heartbeat.", "broker.rack", "broker.session.", "controller.", "initial.broker.",
    "inter.broker.", "leader.", "metadata.", "num.io.threads", "num.network.threads",
    "num.recovery.threads.", "num.replica.", "process.roles", "replica.", "share.", "socket.",
)  # fmt: skip
"""Prefixes of Kafka's settings for its threads, replicas and controllers, and for share groups."""


def is_of_clusters(key: str) -> bool:
    """Whether a broker that is alone, and does all on one thread, is as it should be without this setting."""
    return key.startswith(_OF_CLUSTERS)


_WITHOUT_EFFECT = (
    "early.start.listeners", "sasl.client.", "sasl.kerberos.", "sasl.login.", "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol", "sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.",
    "sasl.oauthbearer.header.", "sasl.oauthbearer.token.endpoint.", "security.inter.broker.protocol",
    "security.providers", "ssl.endpoint.identification.algorithm", "ssl.keymanager.algorithm", "ssl.protocol",
    "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
)  # fmt: skip
"""Prefixes of what is about Java, Kerberos, or the part of a client: nothing is less safe without them."""

_ONLY = {
    "principal.builder.class": ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
    "sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    ),
    "ssl.engine.factory.class": ("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",),
}
"""Classes that may be named, as what they do is what is done here."""


def _is_kafkas_default(key: str, text: str) -> bool:
    return text.replace(" ", "").upper() in ("", _KAFKAS.get(bare_key(key), "").upper())


def has_no_effect(key: str) -> bool:
    """Whether a key of Kafka's for security is accepted, and does nothing here."""
    return bare_key(key).startswith(_WITHOUT_EFFECT)


def protects(key: str, text: str) -> bool:
    """Whether who sets this in Kafka relies on protection that there is not here."""
    bare = bare_key(key)
    if bare in FIELDS or has_no_effect(key) or _is_kafkas_default(key, text):
        return False
    if bare in _ONLY:
        return text.strip() not in _ONLY[bare]
    return bare.startswith(("ssl.", "sasl.", "security."))


def _leave_out_controllers(
    values: dict[str, Any], by_listener: dict[str, Any], controllers: str
) -> list[tuple[str, str]]:
    """Take the listeners of controllers out of the values, which a KRaft broker in combined mode names (KIP-500).

    A value that names no others stays as it is, to be refused.
    """
    names = {name.strip().upper() for name in controllers.split(",")} - {"PLAINTEXT", ""}
    for key in [key for key in by_listener if key.partition(".")[0].upper() in names]:
        del by_listener[key]
    left_out: list[tuple[str, str]] = []
    for key in ("listeners", "advertised.listeners"):
        listeners = [listener.strip() for listener in values.get(key, "").split(",")]
        kept = [listener for listener in listeners if listener.partition("://")[0].upper() not in names]
        if kept and len(kept) < len(listeners):
            values[key] = ",".join(kept)
            left_out += [(key, listener) for listener in listeners if listener not in kept]
    return left_out
