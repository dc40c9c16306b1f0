"""The checks of `ottla doctor` about who gets in, and what he may do: users, rules, and files that hold secrets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.doctor_checks import OK, WARN, Finding
from ottla.cli.output import count_of

if TYPE_CHECKING:
    from ottla.broker.endpoints import Endpoint
    from ottla.broker.settings import Settings
    from ottla.protocol.sasl.scram import Mechanism

GOOD_ITERATIONS = 8192
"""What `ottla users` takes; Kafka's tools take 4096 unless told otherwise."""
SEARCHABLE_BY_OTHERS = 0o011
_MOST_NAMED = 5


class Known(NamedTuple):
    """What there is, as a data directory or a broker tells.

    Attributes:
        users: of SCRAM, with their mechanisms and iterations.
        rules: of each what it is about: the kind of resource, its name, and the kind of pattern, by Kafka's numbers.
        groups: None: nobody has been asked who knows.
    """

    users: Mapping[str, Sequence[tuple[Mechanism, int]]]
    rules: Sequence[tuple[int, str, int]]
    topics: Collection[str]
    groups: Collection[str] | None = None


def known_to_directory(directory: Path) -> Known:
    """What the catalog of a data directory has. One that is not there, or cannot be read, has nothing."""
    from ottla.broker.core.security.scram import described
    from ottla.broker.core.topics.catalog import BadCatalog, Catalog
    from ottla.broker.engine import Corrupt
    from ottla.broker.storage.local.layout import decode_catalog
    from ottla.protocol.stored.names import CATALOG_NAME

    catalog, path = Catalog(), directory / CATALOG_NAME
    with suppress(OSError, Corrupt, BadCatalog):  # which the check of its content tells
        catalog = Catalog.from_state(decode_catalog(path.read_bytes(), str(path)))
    users = described(catalog.credentials, ())
    return Known(
        {name: one for name, one in users.items() if isinstance(one, list)},
        [(rule.resource_type, rule.resource_name, rule.pattern_type) for rule in catalog.acls],
        catalog.topics,
    )


def known_to_broker(bootstrap: str) -> Known:
    """What a broker tells. Raises `Refused`: it does not tell it to somebody who may not see it."""
    from ottla.cli.common import with_admin
    from ottla.clients.errors import KafkaError
    from ottla.clients.security_admin import SecurityAdmin
    from ottla.protocol.errors import ErrorCode

    async def ask(admin: SecurityAdmin) -> Known:
        rules = []
        try:
            rules = await admin.list_acls()
        except KafkaError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
        return Known(
            await admin.list_users(),
            [(rule.resource_type, rule.resource_name or "", rule.pattern_type) for rule in rules],
            await admin.list_topics(),
            [one.group_id for one in await admin.list_groups()],
        )

    return with_admin(bootstrap, ask, SecurityAdmin)


def check_access(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> list[Finding]:
    """All about users, super users and rules that there is something to say of.

    Raises:
        BadSetting: users or tokens cannot be read, which the settings name.
    """
    findings = [
        _check_iterations(settings, listeners, known),
        _check_super_users(settings, listeners, known),
        _check_rules(known),
    ]
    return [one for one in findings if one is not None]


def _check_iterations(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> Finding | None:
    """Whether passwords are hard to guess for who has got hold of what the broker keeps of them."""
    rows = [(name, *one) for name, credentials in known.users.items() for one in credentials]
    for one in listeners:
        if "PLAIN" in one.mechanisms(settings):
            from ottla.broker.runtime.mechanisms import read_plain_users

            hashed = read_plain_users(one.name, settings)[1]
            rows += [(name, mechanism, found.iterations) for (name, mechanism), found in hashed.items()]
    if not rows:
        return None
    # Several listeners may have the same file.
    weak = dict.fromkeys(f"{name} ({kind.words}: {number})" for name, kind, number in rows if number < GOOD_ITERATIONS)
    details = {"credentials": len(rows), "weak": list(weak)}
    if weak:
        words = f"fewer than {GOOD_ITERATIONS} iterations: {_some(weak)}"
        advice = (
            f"Set these passwords again: `ottla users set NAME` takes {GOOD_ITERATIONS}, and `ottla users hash NAME` "
            "does for a users file."
        )
        return Finding("users", WARN, words, advice, details)
    return Finding(
        "users", OK, f"{count_of(len(rows), 'password')} of {GOOD_ITERATIONS} iterations or more", "", details
    )


def _check_super_users(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> Finding | None:
    """Whether somebody can come as each of ``super.users``."""
    from ottla.broker.core.security.authorizer import super_users

    if not settings.authorizer_class_name or not settings.super_users.strip():
        return None
    wanted = sorted(super_users(settings.super_users))
    names = [_names(one, settings, known) for one in listeners]
    names.append(_names_of_http(settings))
    if any(one is None for one in names):
        return Finding("super users", OK, f"{_some(wanted)}; tokens and certificates say who comes as one")
    present = {f"User:{name}" for some in names for name in some or ()}
    missing = [name for name in wanted if name not in present]
    if not missing:
        return Finding("super users", OK, _some(wanted), details={"missing": []})
    advice = (
        "Give them a password, before the start by `ottla users set NAME --data-dir DIR`; or take them out of "
        "super.users."
    )
    return Finding("super users", WARN, f"nobody can log in as {_some(missing)}", advice, {"missing": missing})


def _names(listener: Endpoint, settings: Settings, known: Known) -> Iterable[str] | None:
    """Who may log in at a listener; None: who has a certificate or a token, which only its issuer can tell."""
    mechanisms = listener.mechanisms(settings)
    if "OAUTHBEARER" in mechanisms:
        return None
    if not listener.has_sasl:
        by_certificate = listener.has_tls and settings.of_listener(listener.name, "ssl.client.auth") != "none"
        return None if by_certificate else ("ANONYMOUS",)
    found = [name for name, rows in known.users.items() if any(kind.words in mechanisms for kind, _ in rows)]
    if "PLAIN" in mechanisms:
        from ottla.broker.runtime.mechanisms import read_plain_users

        passwords, hashed = read_plain_users(listener.name, settings)
        found += [*passwords, *(name for name, _ in hashed)]
    return found


def _names_of_http(settings: Settings) -> Iterable[str]:
    """Who may come to the HTTP port."""
    if not settings.ottla_http_listen:
        return ()
    from ottla.observe.http.tokens import CONSOLE, read_tokens

    path = settings.ottla_http_token_file
    if not path:
        return (CONSOLE,)
    with suppress(OSError, UnicodeDecodeError):  # which the check of the settings tells
        return read_tokens(Path(path)).values()
    return ()


def _check_rules(known: Known) -> Finding | None:
    """Whether there is something for each rule, or a slip in its name."""
    from ottla.broker.core.security.acls import WILDCARD, Pattern, Resource
    from ottla.protocol.internal_topics import INTERNAL_TOPICS

    if not known.rules:
        return None
    present = {Resource.TOPIC: [*known.topics, *INTERNAL_TOPICS]}
    if known.groups is not None:
        present[Resource.GROUP] = list(known.groups)
    idle: dict[str, int] = {}
    for kind, name, pattern in known.rules:
        if kind not in present or (name == WILDCARD and pattern == Pattern.LITERAL):
            continue
        is_prefix = pattern == Pattern.PREFIXED
        if not any(one.startswith(name) if is_prefix else one == name for one in present[Resource(kind)]):
            words = Resource(kind).name.lower() + (f"s that begin with {name!r}" if is_prefix else f" {name!r}")
            idle[words] = idle.get(words, 0) + 1
    count = count_of(len(known.rules), "rule")
    if not idle:
        return Finding("rules", OK, count, details={"without": []})
    named = [f"{what} ({count_of(number, 'rule')})" for what, number in idle.items()]
    words = f"{count}; there is no {_some(named)}"
    advice = "Mend the names, or remove what nobody needs: `ottla acls list`, `ottla acls remove`."
    return Finding("rules", WARN, words, advice, {"without": list(idle)})


# -- files


def secret_files(
    directory: Path, settings: Settings, listeners: Sequence[Endpoint], config_file: str | None, pairs: Sequence[str]
) -> list[Path]:
    """The files that hold secrets, as far as they are there. Keys of listeners are looked at with their certificates.

    Args:
        pairs: of ``--set``.
    """
    from ottla.broker.runtime.mechanisms import SECRET_NAME
    from ottla.broker.setting_sources import from_environment, parse_properties, referred_files
    from ottla.protocol.stored.names import CATALOG_NAME

    configured = parse_properties(Path(config_file).read_text(encoding="utf-8")) if config_file else {}
    found = [directory / CATALOG_NAME, directory / SECRET_NAME]
    for text in [*configured.values(), *from_environment(os.environ).values(), *pairs]:
        found += map(Path, referred_files(text))
    paths = [settings.ottla_http_token_file, settings.ottla_audit_file]
    paths += [settings.of_listener(one.name, "ottla.sasl.plain.users.file", "PLAIN") for one in listeners]
    found += map(Path, filter(None, paths))
    if config_file is not None and any(_is_secret(*pair) for pair in configured.items()):
        found.append(Path(config_file))
    return [one for one in dict.fromkeys(found) if os.path.exists(one)]


def _is_secret(key: str, text: str) -> bool:
    """Whether a secret stands in a line itself."""
    from ottla.broker.setting_keys import of_listener
    from ottla.broker.setting_sources import referred_files
    from ottla.broker.settings import FIELDS

    field = FIELDS.get(of_listener(key) or key)
    return field is not None and field.metadata["sensitive"] and bool(text) and not referred_files(text)


def check_secrets(files: Sequence[Path]) -> list[Finding]:
    """Whether others on this machine read what only the broker is to know."""
    from ottla.broker.net.keystores import others_may_read

    if not files:
        return []
    # Nobody reaches a file in a directory that is closed to him.
    reached = [one for one in files if one.absolute().parent.stat().st_mode & SEARCHABLE_BY_OTHERS]
    open_files = [str(one) for one in reached if others_may_read(str(one))]
    if open_files:
        advice = f"chmod go= {shlex.join(open_files)}"
        return [Finding("secrets", WARN, f"others may read {_some(open_files)}", advice, {"open": open_files})]
    words = f"{count_of(len(files), 'file')} that nobody reads but the owner"
    return [Finding("secrets", OK, words, details={"open": []})]


def _some(names: Iterable[Any]) -> str:
    """The first of them, and how many more there are."""
    rows = [str(one) for one in names]
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return ", ".join(rows[:_MOST_NAMED]) + more
