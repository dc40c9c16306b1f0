"""`ottla acls`: access control rules, with the option names of Kafka's tool; and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.common import Answer, bootstrap_option, formatted, with_admin
from ottla.cli.kafka_habits import CommandFirst
from ottla.cli.output import Refused, count_of, print_fields, say

if TYPE_CHECKING:
    from ottla.clients.security_admin import AclRule

F = TypeVar("F", bound=Callable[..., Any])

CLUSTER = "kafka-cluster"
_KINDS = ("topic", "group", "transactional_id", "cluster")
OPERATIONS = (
    "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs",
    "IdempotentWrite", "TwoPhaseCommit",
)  # fmt: skip
"""As Kafka's tool writes them."""
_PRODUCER = ("Write", "Describe", "Create")
_CONSUMER = ("Read", "Describe")
"""What Kafka's tool makes of --producer and --consumer."""
_FIELDS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


def _resources(function: F) -> F:
    """The resources that rules are about."""
    flags = {
        "--cluster": {"is_flag": True, "help": "The cluster."},
        "--transactional-id": {"metavar": "ID", "multiple": True, "help": "Transactional ids; * for all."},
        "--group": {"metavar": "GROUP", "multiple": True, "help": "Groups; * for all."},
        "--topic": {"metavar": "TOPIC", "multiple": True, "help": "Topics; * for all."},
    }
    for flag, more in flags.items():
        function = click.option(flag, **more)(function)  # type: ignore[arg-type]
    return function


def _pattern(*choices: str) -> Callable[[F], F]:
    return click.option(
        "--resource-pattern-type",
        "pattern",
        type=click.Choice(choices, case_sensitive=False),
        default=choices[0],
        show_default=True,
        help="Whether the names are whole names, or beginnings.",
    )


def _principals(function: F) -> F:
    flags = {
        "--deny-host": ("HOST", "The addresses from which. [all]"),
        "--deny-principal": ("PRINCIPAL", "Who may not: User:alice; User:* for all."),
        "--allow-host": ("HOST", "The addresses from which. [all]"),
        "--allow-principal": ("PRINCIPAL", "Who may: User:alice; User:* for all."),
    }
    for flag, (metavar, text) in flags.items():
        function = click.option(flag, metavar=metavar, multiple=True, help=text)(function)
    return function


operation_option = click.option(
    "--operation",
    "operations",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    multiple=True,
    help="What they may do, or not. [All]",
)


class _Acls(CommandFirst):
    subject = "--principal"


@click.group("acls", cls=_Acls)
def command() -> None:
    """List, add and remove access control rules; say who may do what."""


@command.command("list")
@_resources
@_pattern("any", "match", "literal", "prefixed")
@click.option("--principal", metavar="PRINCIPAL", help="Only rules for this one: User:alice.")
@formatted
@bootstrap_option
def list_(bootstrap: str, pattern: str, principal: str | None, **named: Any) -> Answer:
    """Show rules; with --resource-pattern-type match all that are about what is named."""
    from ottla.clients.security_admin import AclRule

    number = _pattern_number(pattern)
    filters = [AclRule(_number("Resource", kind), name, number, principal) for kind, name in _named(named)]
    filters = filters or [AclRule(pattern_type=number, principal=principal)]

    async def work(admin: Any) -> list[AclRule]:
        found: list[AclRule] = []
        for one in filters:
            found += [rule for rule in await admin.list_acls(one) if rule not in found]
        return found

    rows = [_row(rule) for rule in sorted(_ask(bootstrap, work), key=_order)]
    return Answer(rows, partial(print_fields, _FIELDS, rows, *_FIELDS, nothing="There are no such rules."))


def _convenience(function: F) -> F:
    flags = {
        "--idempotent": "With --producer: it may be idempotent without WRITE on a topic.",
        "--consumer": "All that a consumer needs of topics and groups.",
        "--producer": "All that a producer needs of topics.",
    }
    for flag, text in flags.items():
        function = click.option(flag, is_flag=True, help=text)(function)
    return function


@command.command(short_help="Add rules.")
@_resources
@_pattern("literal", "prefixed")
@_principals
@operation_option
@_convenience
@bootstrap_option
def add(bootstrap: str, **options: Any) -> None:
    """Allow or deny something: each operation, to each principal, from each host, with each thing that is named."""
    rules = _rules(**options)
    for rule in rules:
        _check(rule.resource_type, rule.operation)
        _check_fits(rule)
    _ask(bootstrap, lambda admin: admin.add_acls(rules))
    say(f"{count_of(len(rules), 'rule')} added.")


@command.command(short_help="Remove rules.")
@_resources
@_pattern("literal", "prefixed")
@_principals
@operation_option
@_convenience
@click.option("--force", is_flag=True, help="Do not ask before all rules of a resource are removed.")
@bootstrap_option
def remove(bootstrap: str, force: bool, **options: Any) -> None:
    """Remove rules, named as `ottla acls add` takes them; without a principal all that are about what is named."""
    from ottla.clients.security_admin import AclRule

    if any(options[name] for name in ("allow_principal", "deny_principal")):
        filters = _rules(**options)
    else:
        named = list(_named(options))
        if not named:
            raise click.UsageError("Name what the rules are about: --topic, --group, --transactional-id or --cluster.")
        if not force:
            click.confirm(f"Remove all rules about {', '.join(name for _, name in named)}?", abort=True, err=True)
        pattern = _pattern_number(options["pattern"])
        filters = [AclRule(_number("Resource", kind), name, pattern) for kind, name in named]
    removed = _ask(bootstrap, lambda admin: admin.remove_acls(filters))
    gone = dict.fromkeys(rule for rules in removed.values() for rule in rules)
    if not gone:
        other = "" if options["operations"] else ", which may be about other operations: without --operation it is All"
        raise Refused("There are no such rules.", f"`ottla acls list` shows those that exist{other}.")
    say(f"{count_of(len(gone), 'rule')} removed.")


@command.command(short_help="Say whether somebody may do something, and why.")
@click.option("--principal", metavar="PRINCIPAL", required=True, help="Who: User:alice.")
@click.option(
    "--operation", type=click.Choice(OPERATIONS[1:], case_sensitive=False), required=True, help="What would be done."
)
@_resources
@click.option("--host", metavar="HOST", default="127.0.0.1", show_default=True, help="The address from which.")
@formatted
@bootstrap_option
def test(bootstrap: str, principal: str, operation: str, host: str, **named: Any) -> Answer:
    """Say what the rules of the broker and its super.users come to, and on which rule that rests. Exit code 1: denied.

    What allow.everyone.if.no.acl.found leaves open is told as the broker has it.
    """
    from ottla.broker.core.security.acls import Acl, AclOperation, Resource
    from ottla.broker.core.security.authorizer import Authorizer, super_users

    subjects = list(_named(named))
    if len(subjects) != 1:
        raise click.UsageError("Name one thing: --topic, --group, --transactional-id or --cluster.")
    [(kind, name)] = subjects
    asked = _number("AclOperation", operation)
    _check_principal(principal)
    _check(_number("Resource", kind), asked)

    async def work(admin: Any) -> tuple[list[Any], dict[str, str]]:
        rules = await admin.list_acls()
        node_id = (await admin.describe_cluster()).controller_id
        keys = ["super.users", "allow.everyone.if.no.acl.found"]
        configs = (await admin.describe_configs(brokers=[node_id], keys=keys))[node_id]
        return rules, {key: configs[key].value or "" for key in keys if key in configs}

    rules, settings = _ask(bootstrap, work)
    authorizer = Authorizer(
        tuple(Acl(*rule) for rule in rules),
        super_users(settings.get("super.users", "")),
        open_without_rules=settings.get("allow.everyone.if.no.acl.found") == "true",
    )
    allowed, basis = authorizer.verdict(principal, host, AclOperation(asked), Resource(_number("Resource", kind)), name)
    if isinstance(basis, Acl):
        row: dict[str, str] | None = _row(basis)
        because = " ".join(_row(basis).values())
    else:
        row, because = None, basis.value
    document = {"allowed": allowed, "rule": row, "because": because}

    def print_text() -> None:
        say(f"{principal} {'may' if allowed else 'may not'} {operation} {kind.replace('_', ' ')} {name!r}: {because}.")

    return Answer(document, print_text, None if allowed else click.exceptions.Exit(1))


def _ask(bootstrap: str, work: Callable[[Any], Any]) -> Any:
    from ottla.clients.security_admin import SecurityAdmin

    return with_admin(bootstrap, work, SecurityAdmin)


def _named(options: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """What a command line names: kind and name."""
    for kind in _KINDS[:3]:
        for name in options.get(kind, ()):
            yield kind, name
    if options.get("cluster"):
        yield "cluster", CLUSTER


def _rules(
    *,
    pattern: str,
    operations: tuple[str, ...],
    producer: bool,
    consumer: bool,
    idempotent: bool,
    **options: Any,
) -> list[AclRule]:
    """The rules that a command line describes.

    Raises:
        click.UsageError: something is missing.
    """
    from ottla.clients.security_admin import AclRule

    wanted = list(_wanted(options, operations, producer, consumer, idempotent))
    if not wanted:
        raise click.UsageError("Name what the rules are about: --topic, --group, --transactional-id or --cluster.")
    whose = [
        (who, host, permission)
        for permission in ("allow", "deny")
        for who in options[f"{permission}_principal"]
        for host in options[f"{permission}_host"] or ("*",)
    ]
    if not whose:
        raise click.UsageError("Say whom: --allow-principal User:NAME, or --deny-principal User:NAME.")
    return [
        AclRule(
            _number("Resource", kind),
            name,
            _pattern_number("literal" if kind == "cluster" else pattern),
            who,
            host,
            _number("AclOperation", operation),
            _number("Permission", permission),
        )
        for kind, name, operation in dict.fromkeys(wanted)
        for who, host, permission in whose
    ]


def _wanted(
    options: dict[str, Any], operations: tuple[str, ...], producer: bool, consumer: bool, idempotent: bool
) -> Iterable[tuple[str, str, str]]:
    """Kind, name and operation of each rule. What --producer and --consumer stand for is as in Kafka's tool."""
    if (producer and not options["topic"]) or (consumer and not (options["topic"] and options["group"])):
        raise click.UsageError("--producer needs --topic; --consumer needs --topic and --group.")
    if idempotent and not producer:
        raise click.UsageError("--idempotent goes with --producer.")
    for kind, name in _named(options):
        if producer and kind == "topic":
            yield from ((kind, name, one) for one in _PRODUCER)
        if producer and kind == "transactional_id":
            yield from ((kind, name, one) for one in ("Write", "Describe"))
        if consumer and kind == "topic":
            yield from ((kind, name, one) for one in _CONSUMER)
        if consumer and kind == "group":
            yield kind, name, "Read"
        if not (producer or consumer):
            yield from ((kind, name, one) for one in operations or ("All",))
    if idempotent:
        yield "cluster", CLUSTER, "IdempotentWrite"


def _check(kind: int, operation: int) -> None:
    """Refuse an operation that a kind of resource does not have. Raises click.UsageError."""
    from ottla.broker.core.security.acls import OPERATIONS as POSSIBLE
    from ottla.broker.core.security.acls import AclOperation, Resource

    possible = (AclOperation.ALL, *POSSIBLE[Resource(kind)])
    if operation not in possible:
        spelled = ", ".join(_spelled(one) for one in possible)
        what = Resource(kind).name.lower().replace("_", " ")
        raise click.UsageError(f"Nobody can {_spelled(operation)} a {what}: choose from {spelled}.")


def _check_fits(rule: AclRule) -> None:
    """Refuse a rule that fits nobody and nothing, and so protects nothing. Raises click.UsageError."""
    from ottla.broker.core.security.acls import Resource
    from ottla.observe.http.address import ip_of

    principal, host, name = rule.principal or "", rule.host or "", rule.resource_name or ""
    _check_principal(principal)
    if host != "*" and ip_of(host) is None:
        raise click.UsageError(f"Hosts are whole addresses, or * for all: {host!r} fits nobody.")
    if rule.resource_type == Resource.TOPIC and name != "*" and "*" in name:
        begins = f"--topic {name.partition('*')[0]} --resource-pattern-type prefixed"
        raise click.UsageError(
            f"No topic has * in its name: say {begins} for all that begin so, or --topic '*' for all."
        )


def _check_principal(principal: str) -> None:
    kind, colon, name = principal.partition(":")
    if kind != "User" or not colon or not name or ",User:" in name or (name != "*" and name.endswith("*")):
        raise click.UsageError(
            f"{principal!r} is nobody: write User:NAME, one for each --allow-principal or --deny-principal, or User:* "
            "for all."
        )


def _spelled(operation: int) -> str:
    """An operation as Kafka's tool writes it."""
    from ottla.broker.core.security.acls import AclOperation

    spelled = {word.replace("_", "").upper(): word for word in OPERATIONS}
    name = AclOperation(operation).name
    return spelled.get(name.replace("_", ""), name)


def _number(kind: str, word: str) -> int:
    """Kafka's number for a word, of one of the enumerations of rules."""
    from ottla.broker.core.security.acls import AclOperation, Permission, Resource

    found = {"Resource": Resource, "AclOperation": AclOperation, "Permission": Permission}[kind]
    return next(one for one in found if one.name.replace("_", "") == word.replace("_", "").upper())


def _pattern_number(word: str) -> int:
    from ottla.broker.core.security.acls import Pattern

    return 1 if word == "any" else Pattern[word.upper()]


def _row(rule: Iterable[Any]) -> dict[str, str]:
    from ottla.broker.core.security.acls import Pattern, Permission, Resource

    kind, name, pattern, principal, host, operation, permission = rule
    values = (
        Resource(kind).name.lower(),
        name,
        Pattern(pattern).name.lower(),
        principal,
        host,
        _spelled(operation),
        Permission(permission).name,
    )
    return dict(zip(_FIELDS, values, strict=True))


def _order(rule: AclRule) -> tuple[Any, ...]:
    return rule.resource_type, rule.resource_name, rule.pattern_type, rule.principal, rule.operation
