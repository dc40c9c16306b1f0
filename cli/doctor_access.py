"""The checks of `ottla doctor` about who gets in, and what he may do: certificates, users, rules and secrets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.doctor_checks import FAIL, OK, WARN, Finding, check_certificate
from ottla.cli.output import count_of
from ottla.observe.http.address import parse_address

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials
    from ottla.broker.endpoints import Endpoint
    from ottla.broker.settings import Settings
    from ottla.protocol.sasl.scram import Mechanism

GOOD_ITERATIONS = 8192
"""What `ottla users` takes; Kafka's tools take 4096 unless told otherwise."""
SEARCHABLE_BY_OTHERS = 0o011
_MOST_NAMED = 5


def of_configuration(
    settings: Settings,
    listeners: Sequence[Endpoint],
    directory: Path | None,
    config_file: str | None,
    pairs: Sequence[str],
    *,
    users: Credentials = MappingProxyType({}),
    bootstrap: str | None = None,
) -> list[Finding]:
    """What can be said of settings and of the files that they name: for `ottla serve --check`, too.

    Args:
        directory: of the data; None where everything is in memory.
        pairs: of ``--set``.
        users: of SCRAM, that a start would add.
        bootstrap: a broker to ask of users and rules, in the place of the directory.
    """
    findings = [*_of_listeners(settings, listeners), *_check_openness(settings)]
    findings += _of_access(settings, listeners, directory, users, bootstrap)
    findings += check_audit(settings.ottla_audit_file)
    return findings + check_secrets(secret_files(directory, settings, listeners, config_file, pairs))


def _check_openness(settings: Settings) -> list[Finding]:
    """What lets in more than somebody may have meant."""
    findings = []
    if settings.ottla_insecure:
        words = "ottla.insecure=true permits listeners that are open to other machines, also those that are added later"
        findings.append(Finding("insecure", WARN, words, "Leave it out, unless you trust the network."))
    if settings.authorizer_class_name and settings.allow_everyone_if_no_acl_found:
        words = "allow.everyone.if.no.acl.found=true: what no rule is about is open to everybody"
        findings.append(Finding("access rules", WARN, words, "Leave it out, and give rules: `ottla acls add`."))
    return findings


def _of_access(
    settings: Settings,
    listeners: Sequence[Endpoint],
    directory: Path | None,
    users: Credentials,
    bootstrap: str | None,
) -> list[Finding]:
    """Users, super users and rules, as a broker tells of them, or else a data directory."""
    from ottla.broker.settings import BadSetting
    from ottla.cli.output import Refused

    try:
        known = known_to_directory(directory, users) if bootstrap is None else known_to_broker(bootstrap)
        return check_access(settings, listeners, known)
    except Refused as error:
        return [Finding("users and rules", WARN, error.lines[0], "Ask as a user who may see them.")]
    except BadSetting as error:
        return [Finding("users", FAIL, str(error), "A broker would not start with this.")]


def _of_listeners(settings: Settings, listeners: Sequence[Endpoint]) -> list[Finding]:
    """Certificates, and passwords that go over the network as they are."""
    from ottla.cli.listening import is_this_machine

    findings = []
    for one in listeners:
        if "OAUTHBEARER" in one.mechanisms(settings) and (finding := _check_issuer(settings, one)) is not None:
            findings.append(finding)
        if one.has_tls:
            from ottla.broker.net.tls import contexts_of

            findings.append(check_certificate(one.name, partial(contexts_of, settings, one)))
        elif "PLAIN" in one.mechanisms(settings):
            advice = "Give it TLS (SASL_SSL), or let it have SCRAM-SHA-512 alone in sasl.enabled.mechanisms."
            words = "with PLAIN passwords go over the network as they are"
            findings.append(Finding(f"SASL of {one.name}", WARN, words, advice))
    if settings.ottla_http_tls:
        from ottla.broker.net.tls import contexts_of_http

        findings.append(check_certificate("HTTP", partial(contexts_of_http, settings)))
    elif settings.ottla_http_listen:
        host, _ = parse_address(settings.ottla_http_listen, "ottla.http.listen")
        if not is_this_machine(host):
            advice = "Say --http-tls (ottla.http.tls=true), or let a proxy with TLS be the only one that reaches it."
            findings.append(Finding("HTTP", WARN, "other machines reach it, and nothing is encrypted", advice))
    return _joined(findings)


def _joined(findings: Sequence[Finding]) -> list[Finding]:
    """Those of listeners, as ``TLS of NAME``, of which the same fault of several is told once."""
    found: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        what, _, whose = one.check.partition(" of ")
        key = (what, one.found, one.advice) if one.verdict != OK else (one.check,)
        first = found.setdefault(key, one)
        if first is not one:
            first.check += f", {whose}"
    return list(found.values())


def _check_issuer(settings: Settings, one: Endpoint) -> Finding | None:
    """Whether a file with the keys of an issuer of tokens has some; nobody is asked over the network."""
    from ottla.broker.runtime.jwks import URL, fault_of_file

    url = settings.of_listener(one.name, URL, "OAUTHBEARER")
    if not (fault := fault_of_file(url)):
        return None
    is_only = one.mechanisms(settings) == ["OAUTHBEARER"]
    advice = "Put the keys of the issuer there (a JSON Web Key Set): without them no token can be checked."
    words = f"{URL}={url}: {fault}; nobody can log in by OAUTHBEARER"
    return Finding(f"SASL of {one.name}", FAIL if is_only else WARN, words, advice)


class Known(NamedTuple):
    """What there is, as a data directory or a broker tells.

    Attributes:
        users: of SCRAM, with their mechanisms and iterations.
        rules: of each what it is about: the kind of resource, its name, and the kind of pattern, by Kafka's numbers.
        groups: None: nobody has been asked who knows.
        principals: whom rules are for.
    """

    users: Mapping[str, Sequence[tuple[Mechanism, int]]]
    rules: Sequence[tuple[int, str, int]]
    topics: Collection[str]
    groups: Collection[str] | None = None
    principals: Collection[str] = ()


def known_to_directory(directory: Path | None, more: Credentials) -> Known:
    """What the catalog of a data directory has. One that is not there, or cannot be read, has nothing.

    Args:
        more: users that a start would add.
    """
    from ottla.broker.core.security.scram import described
    from ottla.broker.core.topics.catalog import BadCatalog, Catalog
    from ottla.broker.engine import Corrupt
    from ottla.broker.storage.local.layout import decode_catalog
    from ottla.protocol.stored.names import CATALOG_NAME

    catalog = Catalog()
    with suppress(OSError, Corrupt, BadCatalog):  # which the check of its content tells
        if directory is not None:
            path = directory / CATALOG_NAME
            catalog = Catalog.from_state(decode_catalog(path.read_bytes(), str(path)))
    users = described({**more, **catalog.credentials}, ())
    return Known(
        {name: one for name, one in users.items() if isinstance(one, list)},
        [(rule.resource_type, rule.resource_name, rule.pattern_type) for rule in catalog.acls],
        catalog.topics,
        principals={rule.principal for rule in catalog.acls},
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
            {rule.principal or "" for rule in rules},
        )

    return with_admin(bootstrap, ask, SecurityAdmin)


def check_access(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> list[Finding]:
    """All about users, super users and rules that there is something to say of.

    Raises:
        BadSetting: users or tokens cannot be read, which the settings name.
    """
    findings = [
        _check_logins(settings, listeners, known) or _check_iterations(settings, listeners, known),
        _check_super_users(settings, listeners, known),
        _check_closed(settings, known),
        _check_principals(settings, listeners, known),
        _check_rules(known),
    ]
    return [one for one in findings if one is not None]


def _check_logins(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> Finding | None:
    """Whether there is a listener at which nobody can log in."""
    closed = [one for one in listeners if one.has_sasl and _names(one, settings, known) == []]
    if not closed:
        return None
    mechanisms = {mechanism for one in closed for mechanism in one.mechanisms(settings)}
    words = f"nobody can log in at {_some(one.name for one in closed)}: there is no user of {_some(sorted(mechanisms))}"
    advice = "Make one before the start: `ottla users set NAME --data-dir DIR`."
    if mechanisms == {"PLAIN"}:
        advice = "Name users in ottla.sasl.plain.users.file; `ottla users hash NAME` writes their lines."
    return Finding("users", WARN, words, advice)


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
    missing, named, words = _missing(wanted, _present(settings, listeners, known))
    if not missing:
        return Finding("super users", OK, _some(wanted) + words, details={"missing": []})
    advice = (
        "Give them a password, before the start by `ottla users set NAME --data-dir DIR`; or take them out of "
        "super.users."
    )
    return Finding("super users", WARN, f"nobody can log in as {_some(named)}", advice, {"missing": missing})


def _check_principals(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> Finding | None:
    """Whether somebody can come as each principal that rules are for."""
    from ottla.observe.http.tokens import CONSOLE

    wanted = sorted({*known.principals} - {"User:*"})
    if not wanted:
        return None
    present = _present(settings, listeners, known)
    advice = "Mend the names: `ottla acls list`, `ottla acls remove`; or give them a password: `ottla users set NAME`."
    if "listeners" not in settings.given and not any(one.asks(settings) for one in listeners):
        if not known.users:
            return None
        present = {f"User:{name}" for name in ("ANONYMOUS", CONSOLE, *known.users)}
        advice += " If they log in otherwise than by SCRAM, say --config FILE with the settings of the broker."
    missing, named, words = _missing(wanted, present)
    if not missing:
        return Finding("principals", OK, f"rules are for {_some(wanted)}{words}", details={"missing": []})
    words = f"nobody can log in as {_some(named)}, whom rules are for"
    return Finding("principals", WARN, words, advice, {"missing": missing})


def _present(settings: Settings, listeners: Sequence[Endpoint], known: Known) -> set[str | None]:
    """The principals who can come; None: there are others, whom only an issuer of certificates or tokens knows."""
    names = [*(_names(one, settings, known) for one in listeners), _names_of_http(settings)]
    return {name and f"User:{name}" for some in names for name in some}


def _missing(wanted: Sequence[str], present: Set[str | None]) -> tuple[list[str], list[str], str]:
    """Those as whom nobody can come; the same with what may have been meant; and words about those who may come."""
    missing = [name for name in wanted if name not in present]
    in_other_case = {name.casefold(): name for name in present if name}
    # Nobody is ever of another type than this, and case counts.
    slips = {name: in_other_case.get(name.casefold(), "") for name in missing}
    words = ""
    if None in present:
        missing = [name for name in missing if slips[name] or not name.startswith("User:")]
        words = "; whoever has a token or a certificate with such a name is one"
    return missing, [f"{name} (did you mean {slips[name]}?)" if slips[name] else name for name in missing], words


def _check_closed(settings: Settings, known: Known) -> Finding | None:
    """Whether a broker would deny everything to everybody, as its start says."""
    is_open = not settings.authorizer_class_name or settings.allow_everyone_if_no_acl_found
    if is_open or settings.super_users.strip() or known.rules:
        return None
    words = "nobody may do anything: there is no rule, and nobody in super.users"
    return Finding("access rules", WARN, words, "Name in super.users who may make rules, as User:admin.")


def _names(listener: Endpoint, settings: Settings, known: Known) -> Sequence[str | None]:
    """Who may log in at a listener; None: others with a certificate or a token, whom only its issuer knows."""
    mechanisms = listener.mechanisms(settings)
    if not listener.has_sasl:
        by_certificate = listener.has_tls and settings.of_listener(listener.name, "ssl.client.auth") != "none"
        return (None,) if by_certificate else ("ANONYMOUS",)
    found: list[str | None] = [None] if "OAUTHBEARER" in mechanisms else []
    found += [name for name, rows in known.users.items() if any(kind.words in mechanisms for kind, _ in rows)]
    if "PLAIN" in mechanisms:
        from ottla.broker.runtime.mechanisms import read_plain_users

        passwords, hashed = read_plain_users(listener.name, settings)
        found += [*passwords, *(name for name, _ in hashed)]
    return found


def _names_of_http(settings: Settings) -> Sequence[str]:
    """Who may come to the HTTP port."""
    if not settings.ottla_http_listen:
        return ()
    from ottla.observe.http.tokens import CONSOLE, read_tokens

    path = settings.ottla_http_token_file
    if not path:
        return (CONSOLE,)
    with suppress(OSError, UnicodeDecodeError):  # which the check of the settings tells
        return [*read_tokens(Path(path)).values()]
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


def check_audit(path: str) -> list[Finding]:
    """Whether a broker could write the audit file; nothing to say if it could."""
    from ottla.broker.runtime.audit import unwritable

    if not path or not (reason := unwritable(Path(path))):
        return []
    advice = "Name a file in ottla.audit.file that the user of the broker may write."
    return [Finding("audit", FAIL, f"ottla.audit.file={path}: it cannot be written: {reason}", advice)]


def secret_files(
    directory: Path | None,
    settings: Settings,
    listeners: Sequence[Endpoint],
    config_file: str | None,
    pairs: Sequence[str],
) -> list[Path]:
    """The files that hold secrets, as far as they are there. Keys of listeners are looked at with their certificates.

    Args:
        pairs: of ``--set``.
    """
    from ottla.broker.runtime.mechanisms import SECRET_NAME
    from ottla.broker.setting_sources import from_environment, parse_properties, referred_files
    from ottla.protocol.stored.names import CATALOG_NAME

    configured = parse_properties(Path(config_file).read_text(encoding="utf-8")) if config_file else {}
    found = [] if directory is None else [directory / CATALOG_NAME, directory / SECRET_NAME]
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
    words = f"{count_of(len(files), 'file')} besides keys that nobody reads but the owner"
    return [Finding("secrets", OK, words, details={"open": []})]


def _some(names: Iterable[Any]) -> str:
    """The first of them, and how many more there are."""
    rows = [str(one) for one in names]
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return ", ".join(rows[:_MOST_NAMED]) + more
