"""Rules, and what is asked by those whom they are about. Every request of the table of permissions can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.broker.core.security.acls import AclOperation, Pattern, Permission, Resource
from ottla.protocol.apis import ApiKey
from ottla.protocol.records import Record
from tests.differential.log_calls import BASE_TIME, WHO
from tests.differential.tracing import Trace
from tests.handlers.permission_rows import ROWS, Row
from tests.support.batches import build_batch
from tests.support.requests import Values

CLUSTER = "kafka-cluster"
OTTLAS_OWN = (ApiKey.DESCRIBE_GROUP_HISTORY, ApiKey.WORKBENCH)
CREATES_BY_ITSELF = "METADATA that creates"
"""Kafka's first answer is that there is no such topic: a row of docs/differences.md."""


def rule(
    principal: str,
    operation: AclOperation,
    kind: Resource,
    name: str,
    *,
    is_prefix: bool = False,
    host: str = "*",
    denies: bool = False,
) -> dict[str, Any]:
    """A rule as CreateAcls takes it."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": Pattern.PREFIXED if is_prefix else Pattern.LITERAL,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": Permission.DENY if denies else Permission.ALLOW,
    }


def filter_of(found: Values) -> dict[str, Any]:
    """What finds a rule and no other."""
    return {
        "resource_type_filter": found["resource_type"],
        "resource_name_filter": found["resource_name"],
        "pattern_type_filter": found["resource_pattern_type"],
        "principal_filter": found["principal"],
        "host_filter": found["host"],
        "operation": found["operation"],
        "permission_type": found["permission_type"],
    }


def allow(t: Any, rules: Sequence[Values]) -> None:
    t.rules += rules
    t.call(WHO, ApiKey.CREATE_ACLS, 3, creations=rules)


def take_back(t: Any, found: Values) -> None:
    t.rules.append(found)
    t.call(WHO, ApiKey.DELETE_ACLS, 3, filters=[filter_of(found)])


# What is not for a broker that others ask at the same time: in its place, the same about things of the trace.
_OF_X = rule("User:~x", AclOperation.READ, Resource.TOPIC, "@a")
INSTEAD: dict[ApiKey, dict[str, Any]] = {
    ApiKey.DESCRIBE_ACLS: filter_of(_OF_X),
    ApiKey.CREATE_ACLS: {"creations": [_OF_X, _OF_X | {"resource_name": "@b"}]},
    ApiKey.DELETE_ACLS: {"filters": [filter_of(_OF_X), filter_of(_OF_X | {"principal": "User:~y"})]},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components": [{"entity_type": "user", "match_type": 0, "match": "~x"}]},
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": name}],
                "ops": [{"key": "producer_byte_rate", "value": 1e9}],
            }
            for name in ("~x",)  # of several, a hash map has the order
        ],
        "validate_only": True,
    },
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": [{"name": "~x"}, {"name": "~y"}]},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"deletions": [{"name": name, "mechanism": 1} for name in ("~x", "~y")]},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": [4]},
}
TIMED = (ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS, ApiKey.UPDATE_FEATURES)
OPERATIONS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.METADATA: {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True},
    ApiKey.DESCRIBE_GROUPS: {"include_authorized_operations": True},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"include_authorized_operations": True},
    ApiKey.DESCRIBE_CLUSTER: {"include_cluster_authorized_operations": True},
}
"""What asks for authorized operations."""
NAMES = {"team": "@", "modern": "@m", "txn": "@t", "new": "@n"}
"""What the table calls the trace's own things."""


def title(row: Row) -> str:
    return f"{row.key.name} {row.called}".strip()


TABLE = {title(row): row for row in [*ROWS, Row(ApiKey.DESCRIBE_CLUSTER, lambda world, name: {}, [])]
         if row.key not in OTTLAS_OWN and title(row) != CREATES_BY_ITSELF}  # fmt: skip


def _joined(one: Any, other: Any) -> Any:
    """Two requests as one: what either of them names, once."""
    if isinstance(one, dict):
        return {name: _joined(value, other[name]) for name, value in one.items()}
    if not isinstance(one, list):
        return one
    found = list(one)
    for item in other:
        at = next((at for at, each in enumerate(found) if _is_same(each, item)), None)
        if at is None:
            found.append(item)
        else:
            found[at] = _joined(found[at], item)
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two items name the same, whatever lists they have of it."""
    if isinstance(one, dict):
        return all(value == other[name] or isinstance(value, list) for name, value in one.items())
    return bool(one == other)


def _named(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            return names.get(value, value)
        case dict():
            return {key: _named(item, names) for key, item in value.items()}
        case list():
            return [_named(item, names) for item in value]
    return value


def fields_of(t: Trace, row: Row, topics: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """A request of the table that names so many topics, as the trace calls them."""
    batch = lambda value, **of: build_batch([Record(value=value, timestamp_ms=BASE_TIME)], **of)  # noqa: E731
    world = SimpleNamespace(id_of=t.id_of, batch=batch)
    fields: Any = row.fields(world, topics[0])
    for topic in topics[1:]:
        fields = _joined(fields, row.fields(world, topic))
    found: dict[str, Any] = _named(fields, names)
    return found | ({"timeout_ms": 10_000} if row.key in TIMED else {})


def asked(
    t: Trace,
    who: str,
    host: str,
    row: str,
    version: int,
    topics: Sequence[str],
    names: Mapping[str, str],
    more: dict[str, Any],
) -> None:
    found = TABLE[row]
    fields = more if found.key in INSTEAD else fields_of(t, found, topics, names) | more
    for resource in fields.get("resources", []):
        if resource["resource_type"] in (4, 8) and "configuration_keys" in resource:
            resource["configuration_keys"] = ["num.partitions"]
    t.call(f"as {who}@{host}", found.key, version, **fields)
