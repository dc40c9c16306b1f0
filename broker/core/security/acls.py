"""Access control rules: who may or may not do what, with which resources, from where (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.core.refusal import Refusal, bad_request

if TYPE_CHECKING:
    from ottla.protocol.messages.delete_acls import DeleteAclsFilter
    from ottla.protocol.messages.describe_acls import DescribeAclsRequest

    AclFilter = DescribeAclsRequest | DeleteAclsFilter
    """A selection of rules; None and ANY fit everything. Numbers are as they came and may be unknown."""

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"
UNKNOWN, ANY = 0, 1
"""These two mean the same in every field that is a number: nothing that we know, and whatever there is."""


class Resource(IntEnum):
    """The kind of resource that a rule is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """The ways to compare the name of a rule. MATCH is for filters: all rules that apply to a name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_A = AclOperation
OPERATIONS: Final[Mapping[Resource, tuple[AclOperation, ...]]] = {
    Resource.TOPIC: (
        _A.READ, _A.WRITE, _A.CREATE, _A.DELETE, _A.ALTER, _A.DESCRIBE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS,
    ),
    Resource.GROUP: (_A.READ, _A.DELETE, _A.DESCRIBE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS),
    Resource.CLUSTER: (
        _A.CREATE, _A.ALTER, _A.DESCRIBE, _A.CLUSTER_ACTION, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS, _A.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (_A.WRITE, _A.DESCRIBE, _A.TWO_PHASE_COMMIT),
}  # fmt: skip
"""What may be done with a kind of resource; rules about anything else permit and deny nothing."""


def operations_of(resource: Resource, may: Callable[[AclOperation], bool]) -> int:
    """Those operations on a kind of resource that ``may`` grants, as answers tell them: a bit for each (KIP-430)."""
    return sum(1 << operation for operation in OPERATIONS[resource] if may(operation))


@cache
def all_operations(resource: Resource) -> int:
    """All operations on a kind of resource, which everybody may carry out where there is no authorizer."""
    return operations_of(resource, lambda operation: True)


class Permission(IntEnum):
    """The effect of a rule."""

    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. The numbers are as requests name them."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """The rule in the words that its numbers stand for."""
        pattern = f"{Resource(self.resource_type).name}:{Pattern(self.pattern_type).name}:{self.resource_name}"
        what = f"{Permission(self.permission_type).name} {AclOperation(self.operation).name}"
        return f"{what} on {pattern} for {self.principal} from {self.host}"


def fits(wanted: AclFilter, acl: Acl) -> bool:
    """True if a filter selects a rule."""
    return (
        wanted.resource_type_filter in (ANY, acl.resource_type)
        and wanted.pattern_type_filter in (ANY, Pattern.MATCH, acl.pattern_type)
        and _fits_name(wanted, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )


def _fits_name(wanted: AclFilter, acl: Acl) -> bool:
    name = wanted.resource_name_filter
    if name is None:
        return True
    if wanted.pattern_type_filter != Pattern.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == Pattern.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


Acls = Sequence[Acl]
"""In the order in which they came, each once. Not to be changed."""

MOST_RULES = 100_000
"""Rules that there may be: each change writes all of them."""


def add(acls: Acls, wanted: Iterable[Acl]) -> tuple[Acls, list[Refusal | None]]:
    """Add every rule that may be; and for each why it may not, or None. One that is there already is none the more."""
    present = dict.fromkeys(acls)
    refusals = []
    for acl in wanted:
        problem = _invalid(acl)
        if problem is None and acl not in present and len(present) >= MOST_RULES:
            problem = f"There are {MOST_RULES} rules already; delete some that nobody needs"
        refusals.append(bad_request(problem) if problem else None)
        if not problem:
            present[acl] = None
    return tuple(present), refusals


def address(text: str) -> str:
    """An address as Java writes it, and rules have it: ``0:0:0:0:0:0:0:1`` for ``::1``. What is none stays as it is."""
    if ":" not in text:
        return text
    from ipaddress import IPv6Address  # only where somebody has one

    plain, percent, zone = text.partition("%")
    try:
        found = IPv6Address(plain)
    except ValueError:
        return text
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return ":".join(format(int(part, 16), "x") for part in found.exploded.split(":")) + percent + zone


def remove(acls: Acls, filters: Iterable[AclFilter]) -> tuple[Acls, list[list[Acl] | Refusal]]:
    """The rules that no filter fits; and for each what it removed, or why nothing. What two fit, both have removed."""
    outcomes: list[list[Acl] | Refusal] = []
    gone: set[Acl] = set()
    for wanted in filters:
        if any(number != ANY and not _known(kind, number) for kind, number in _numbers(wanted)):
            outcomes.append(bad_request("The filter names something that there is not"))
            continue
        fitting = [acl for acl in acls if fits(wanted, acl)]
        gone.update(fitting)
        outcomes.append(fitting)
    return tuple(acl for acl in acls if acl not in gone), outcomes


def names_unknown(rule: Acl | AclFilter) -> bool:
    """True if one of its numbers is UNKNOWN."""
    return any(number == UNKNOWN for _, number in _numbers(rule))


def is_filter(acl: Acl) -> bool:
    """True if one of its values is for filters only."""
    return acl.pattern_type == Pattern.MATCH or any(number == ANY for _, number in _numbers(acl))


def _numbers(rule: Acl | AclFilter) -> list[tuple[type[IntEnum], int]]:
    """The fields that are numbers, each with its kind."""
    if isinstance(rule, Acl):
        resource, pattern = rule.resource_type, rule.pattern_type
    else:
        resource, pattern = rule.resource_type_filter, rule.pattern_type_filter
    kinds = Resource, Pattern, AclOperation, Permission
    return list(zip(kinds, (resource, pattern, rule.operation, rule.permission_type), strict=True))


def _known(kind: type[IntEnum], value: int) -> bool:
    return value in kind.__members__.values()


def _invalid(acl: Acl) -> str | None:
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The name of the cluster is '{CLUSTER_NAME}' in rules"
    if not acl.resource_name:
        return "The name of a resource may not be empty"
    if ":" not in acl.principal:
        return f"'{acl.principal}' is no principal: it has a type and a name, with a colon between"
    if not _known(Resource, acl.resource_type):
        return f"There are no rules for resources of type {acl.resource_type}"
    if acl.pattern_type not in (Pattern.LITERAL, Pattern.PREFIXED):
        return f"The pattern of a rule cannot be of type {acl.pattern_type}"
    if not _known(AclOperation, acl.operation):
        return f"There are no rules for operation {acl.operation}"
    if not _known(Permission, acl.permission_type):
        return f"There is no permission {acl.permission_type}"
    return None


# ------------------------------------------------------------------------------------------------------------- stored


def acls_state(acls: Acls) -> list[dict[str, Any]]:
    """The rules as JSON has them."""
    return [
        {
            "resource": Resource(acl.resource_type).name,
            "name": acl.resource_name,
            "pattern": Pattern(acl.pattern_type).name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": AclOperation(acl.operation).name,
            "permission": Permission(acl.permission_type).name,
        }
        for acl in acls
    ]


def acls_from_state(state: Iterable[Mapping[str, Any]]) -> Acls:
    """Read what `acls_state` gave."""
    return tuple(
        Acl(
            Resource[row["resource"]],
            row["name"],
            Pattern[row["pattern"]],
            row["principal"],
            row["host"],
            AclOperation[row["operation"]],
            Permission[row["permission"]],
        )
        for row in state
    )
