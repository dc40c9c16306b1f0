"""The operations that somebody may carry out, as answers tell them: a bit for each (KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from ottla.broker.core.security.acls import AclOperation, Resource

NO_AUTHORIZER: Final = (
    "There is no authorizer, so no rules: everybody may do everything. Set authorizer.class.name to have rules."
)
"""The answer to a request for rules; Kafka's error is SECURITY_DISABLED."""
NOT_ASKED: Final = -(1 << 31)
"""The bit field where it was not asked for."""

_A = AclOperation
_OPERATIONS: Final[Mapping[Resource, tuple[AclOperation, ...]]] = {
    Resource.TOPIC: (
        _A.READ, _A.WRITE, _A.CREATE, _A.DELETE, _A.ALTER, _A.DESCRIBE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS,
    ),
    Resource.GROUP: (_A.READ, _A.DELETE, _A.DESCRIBE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS),
    Resource.CLUSTER: (
        _A.CREATE, _A.ALTER, _A.DESCRIBE, _A.CLUSTER_ACTION, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS, _A.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


def operations_of(resource: Resource, may: Callable[[AclOperation], bool]) -> int:
    """Those operations on a kind of resource that ``may`` grants."""
    return sum(1 << operation for operation in _OPERATIONS[resource] if may(operation))


@cache
def all_operations(resource: Resource) -> int:
    """All operations on a kind of resource, which everybody may carry out where there is no authorizer."""
    return operations_of(resource, lambda operation: True)
