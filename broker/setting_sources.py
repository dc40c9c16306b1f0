"""Where settings come from: properties files, the environment, ``--set``; and Kafka's older spellings of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.settings import FIELDS, BadSetting, Settings, parse_value

NOT_SETTINGS = frozenset(
    {
        "OTTLA_AIOKAFKA_TREE",
        "OTTLA_BOOTSTRAP_SERVERS",
        "OTTLA_CAFILE",
        "OTTLA_CERTFILE",
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

# Kafka's older or finer-grained spellings of settings that we hold in one unit.
ALIASES: dict[str, tuple[str, int]] = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}

CLOSE = 0.85
"""Spellings that have this much in common are one slip of a finger apart; other settings of Kafka's have less."""

CONTROLLER_LISTENERS = "controller.listener.names"
"""Says which listeners are for the controllers of Kafka's KRaft mode; there are none here."""

_SECURITY = ("authorizer.class.name", "super.users", "principal.builder.class", "security.inter.broker.protocol")


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
            key = name.removeprefix(prefix).lower().replace("_", ".")
            if key not in FIELDS and f"ottla.{key}" in FIELDS:
                key = f"ottla.{key}"
            known = key in FIELDS or key in ALIASES or key == CONTROLLER_LISTENERS
            if prefix == "OTTLA_" or known or protects(key, value):
                pairs[key] = value
    return pairs


_KAFKAS = parse_properties("""
principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
sasl.enabled.mechanisms=GSSAPI
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
sasl.oauthbearer.clock.skew.seconds=30
sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100
sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope.claim.name=scope
sasl.oauthbearer.sub.claim.name=sub
sasl.server.max.receive.size=524288
security.inter.broker.protocol=PLAINTEXT
ssl.allow.dn.changes=false
ssl.allow.san.changes=false
ssl.client.auth=none
ssl.enabled.protocols=TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm=https
ssl.keymanager.algorithm=SunX509
ssl.keystore.type=JKS
ssl.principal.mapping.rules=DEFAULT
ssl.protocol=TLSv1.3
ssl.trustmanager.algorithm=PKIX
ssl.truststore.type=JKS
""")
"""Defaults of Kafka 4.3: who repeats them, as printed configurations do, protects nothing."""


class Loaded(NamedTuple):
    """Checked settings, the keys that were not known, and those whose values would change something and do not yet.

    ``unprotected`` are the keys that would protect a broker of Kafka's and protect nothing here; ``left_out`` are pairs
    of a key and a listener for controllers that was taken out of its value.
    """

    settings: Settings
    unknown: list[str]
    without_effect: list[str]
    unprotected: list[str]
    left_out: list[tuple[str, str]]


def load(*sources: Mapping[str, str] | Iterable[tuple[str, str]]) -> Loaded:
    """Merge sources (later ones win) and check every value.

    Raises:
        BadSetting: one line that names the key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    strangers: dict[str, str] = {}
    controllers = "CONTROLLER"  # as every example of Kafka's calls them
    for source in sources:
        for key, text in dict(source).items():
            target, factor = ALIASES.get(key, (key, 1))
            if key == CONTROLLER_LISTENERS:
                controllers = text
            elif target not in FIELDS:
                strangers[key] = text
            elif factor == 1:
                values[target] = parse_value(target, text)
            else:
                try:
                    number = int(text)
                except ValueError:
                    raise BadSetting(f"{key}={text!r}: not a whole number") from None
                values[target] = parse_value(target, str(number * factor if number >= 0 else number))
    if "," in values.get("log.dirs", ""):
        raise BadSetting(f"log.dirs={values['log.dirs']!r}: allowed is one directory; name one, or say --data-dir DIR")
    left_out = _leave_out_controllers(values, controllers)
    settings = Settings(given=frozenset(values), **{FIELDS[key].name: value for key, value in values.items()})
    _check_order(settings)
    _check_consumer_groups(settings)
    without_effect = [
        key for key, value in values.items() if not FIELDS[key].metadata["effective"] and value != FIELDS[key].default
    ]
    unprotected = [key for key, text in strangers.items() if protects(key, text)]
    unknown = [key for key in strangers if key not in unprotected]
    return Loaded(settings, unknown, without_effect, unprotected, left_out)


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
LESS = ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms")
"""The first must be less than the second."""


def _check_order(settings: Settings) -> None:
    """Raises `BadSetting` with all pairs at once: who shortens a timeout has to change several settings."""
    problems: list[str] = []
    for lower, upper in (*ORDERED, LESS):
        low, high = getattr(settings, FIELDS[lower].name), getattr(settings, FIELDS[upper].name)
        strictly = (lower, upper) == LESS
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
    """The setting whose name is so close that an unknown key must be a slip for it; or nothing."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, [*FIELDS, *ALIASES], 1, CLOSE)), "")


def did_you_mean(key: str) -> str:
    """``; did you mean …?``, or nothing, to end a sentence about a key that does not exist."""
    meant = meant_by(key)
    return f"; did you mean {meant}?" if meant else ""


_OF_CLUSTERS = (
    "background.threads", "broker.heartbeat.", "broker.rack", "broker.session.", "controller.", "initial.broker.",
    "inter.broker.", "leader.", "listener.security.protocol.map", "metadata.", "num.io.threads", "num.network.threads",
    "num.recovery.threads.", "num.replica.", "process.roles", "replica.", "share.", "socket.",
)  # fmt: skip
"""Prefixes of Kafka's settings for its threads, replicas and controllers, and for share groups."""


def is_of_clusters(key: str) -> bool:
    """Whether a broker that is alone, and does all on one thread, is as it should be without this setting."""
    return key.startswith(_OF_CLUSTERS)


def protects(key: str, text: str) -> bool:
    """Whether who sets this in Kafka relies on encryption, authentication or access control."""
    text = text.replace(" ", "").upper()
    if key == "listener.security.protocol.map":
        # Kafka's default, which its example files repeat, maps each protocol's own name to it: that protects nothing.
        pairs = [pair.partition(":") for pair in text.split(",")]
        return any(protocol not in ("PLAINTEXT", "", name) for name, _, protocol in pairs)
    if key.startswith("listener.name."):  # listener.name.<listener>.[<mechanism>.]sasl.…
        key = key[max(key.find(".ssl."), key.find(".sasl.")) + 1 :]
    relevant = key in _SECURITY or key.startswith(("ssl.", "sasl."))
    return relevant and text not in ("", _KAFKAS.get(key, "").upper())


def _leave_out_controllers(values: dict[str, Any], controllers: str) -> list[tuple[str, str]]:
    """Take the listeners of controllers out of the values, which a KRaft broker in combined mode names (KIP-500).

    A value that names no others stays as it is, to be refused.
    """
    names = {name.strip().upper() for name in controllers.split(",")} - {"PLAINTEXT", ""}
    left_out: list[tuple[str, str]] = []
    for key in ("listeners", "advertised.listeners"):
        listeners = [listener.strip() for listener in values.get(key, "").split(",")]
        kept = [listener for listener in listeners if listener.partition("://")[0].upper() not in names]
        if kept and len(kept) < len(listeners):
            values[key] = ",".join(kept)
            left_out += [(key, listener) for listener in listeners if listener not in kept]
    return left_out
