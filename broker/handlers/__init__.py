"""One file per API key, named as the modules of protocol/messages.

A handler module has ``handle(request, ctx, services)``, which returns the response, or None when it will be given later
through ``ctx.reply``. It may return steps (`ottla.protocol.steps`) that give the one or the other, where much is asked
for: they are taken with turns for others in between. An ``async def handle`` does slow work and is run in a task.

A module may have ``failed(request, code)``, the answer when we have a bug; it is needed where the response has no error
code of its own at the top. It may have ``repeat(request, ctx, services)``, where clients send the same request again
and again: the answer if it can be given at once, the same object for the same answer, or None if the request is to be
served like any other. The decoded request and the encoded answer are kept for the next one.

A module may have ``names(request, ctx)``, the names or ids of the topics of a request: a node of several looks at what
the others have changed before it says that there is no such topic.

A module is imported when its API is first asked for: what must be known before stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, NamedTuple
from uuid import UUID

from ottla.protocol.apis import ApiKey

HANDLERS: dict[ApiKey, range] = {
    ApiKey.PRODUCE: range(14),  # requests of versions 0 to 2 close the connection
    ApiKey.FETCH: range(4, 19),
    ApiKey.LIST_OFFSETS: range(1, 12),
    ApiKey.METADATA: range(14),
    ApiKey.OFFSET_COMMIT: range(2, 11),
    ApiKey.OFFSET_FETCH: range(1, 11),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(7),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.SASL_HANDSHAKE: range(2),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.CREATE_TOPICS: range(2, 8),
    ApiKey.DELETE_TOPICS: range(1, 7),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.INIT_PRODUCER_ID: range(6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(2, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(6),
    ApiKey.ADD_OFFSETS_TO_TXN: range(5),
    ApiKey.END_TXN: range(6),
    ApiKey.WRITE_TXN_MARKERS: range(1, 3),
    ApiKey.TXN_OFFSET_COMMIT: range(6),
    ApiKey.DESCRIBE_ACLS: range(1, 4),
    ApiKey.CREATE_ACLS: range(1, 4),
    ApiKey.DELETE_ACLS: range(1, 4),
    ApiKey.DESCRIBE_CONFIGS: range(1, 5),
    ApiKey.ALTER_CONFIGS: range(3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: range(1, 3),
    ApiKey.DESCRIBE_LOG_DIRS: range(1, 6),
    ApiKey.SASL_AUTHENTICATE: range(3),
    ApiKey.CREATE_PARTITIONS: range(4),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.ELECT_LEADERS: range(3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: range(2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: range(2),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: range(1),
    ApiKey.OFFSET_DELETE: range(1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: range(2),
    ApiKey.ALTER_CLIENT_QUOTAS: range(2),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: range(1),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: range(1),
    ApiKey.UPDATE_FEATURES: range(3),
    ApiKey.DESCRIBE_CLUSTER: range(3),
    ApiKey.DESCRIBE_PRODUCERS: range(1),
    ApiKey.DESCRIBE_TRANSACTIONS: range(1),
    ApiKey.LIST_TRANSACTIONS: range(3),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: range(2),
    ApiKey.CONSUMER_GROUP_DESCRIBE: range(2),
    ApiKey.LIST_CONFIG_RESOURCES: range(2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: range(1),
    ApiKey.DESCRIBE_GROUP_HISTORY: range(1),
    ApiKey.WORKBENCH: range(1),  # where there is one
}
"""The APIs that are served, every one whose messages are declared, and the versions that ApiVersions advertises."""


OF_THE_CATALOG = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.LIST_CONFIG_RESOURCES,
    }
)
"""Those that show what clients may change at any node."""

OF_WHAT_IS_LED = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUP_HISTORY,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    }
)
"""Those that show what their node leads, and write nothing: nothing refuses them where another node leads it by now."""


class Handler(NamedTuple):
    """The parts that a handler module offers."""

    versions: range
    handle: Callable[[Any, Any, Any], Any]
    is_async: bool
    failed: Callable[[Any, int], Any] | None
    repeat: Callable[[Any, Any, Any], Any] | None
    names: Callable[[Any, Any], Iterable[str | UUID]] | None
    looks_first: bool
    """Whether a node that is not alone looks first where others may know more; see `ottla.broker.handlers.missing`."""


@cache
def handler(key: ApiKey) -> Handler:
    """The handler of an API; its module is imported when first asked for."""
    module = import_module(f"ottla.broker.handlers.{key.module}")
    handle, names = module.handle, getattr(module, "names", None)
    return Handler(
        versions=HANDLERS[key],
        handle=handle,
        is_async=iscoroutinefunction(handle),
        failed=getattr(module, "failed", None),
        repeat=getattr(module, "repeat", None),
        names=names,
        looks_first=names is not None or key in OF_THE_CATALOG or key in OF_WHAT_IS_LED,
    )
