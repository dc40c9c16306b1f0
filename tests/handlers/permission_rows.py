"""The table of what each API asks: a request, what it asks for, and what is answered to those who may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from tests.support.requests import (
    Values,
    add_partitions_fields,
    commit_fields,
    consumer_heartbeat_fields,
    create_fields,
    delete_offsets_fields,
    delete_records_fields,
    fetch_fields,
    heartbeat_fields,
    init_producer_fields,
    join_fields,
    leave_fields,
    list_offsets_fields,
    of_transaction,
    offset_fetch_fields,
    produce_fields,
    sync_fields,
    txn_commit_fields,
)
from tests.wire.requests import ANY_RULE, CREDENTIAL, QUOTA, RULE

A, R, E = AclOperation, Resource, ErrorCode
CLUSTER = "kafka-cluster"
DENIED_TOPIC, DENIED_GROUP = E.TOPIC_AUTHORIZATION_FAILED, E.GROUP_AUTHORIZATION_FAILED
DENIED_CLUSTER, DENIED_ID = E.CLUSTER_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
HIDDEN = E.NONE
"""Denied without a word."""

Ask = tuple[AclOperation, Resource, str, ErrorCode]
TOPIC = "orders"


@dataclass
class Row:
    """A request, what it asks, and the answers to those who may not.

    Attributes:
        fields: of the request, as it names some topic.
        asks: in their order. ``TOPIC`` stands for the topic that the request names.
        instead: what is enough by itself in the place of them.
        of: the versions that ask so; all that are served by default.
        is_named: what may not be seen is told apart from what there is not by nothing (Q-1).
    """

    key: ApiKey
    fields: Callable[[Any, str], Values]
    asks: Sequence[Ask]
    instead: Sequence[tuple[AclOperation, Resource, str]] = ()
    of: range = field(default_factory=lambda: range(100))
    is_named: bool = False
    called: str = ""

    @property
    def versions(self) -> list[int]:
        return [version for version in HANDLERS[self.key] if version in self.of and version in served(self.key)]


def served(key: ApiKey) -> range:
    return api(key).request.versions


def topic_name(world: Any, name: str) -> dict[str, Any]:
    return {"name": name, "topic_id": world.id_of(name)}


def produced(world: Any, topic: str, **of_batch: Any) -> Values:
    batch = world.batch(b"x", **of_batch)
    fields = produce_fields(topic, batch, transactional_id="txn" if of_batch else None)
    fields["topic_data"][0]["topic_id"] = world.id_of(topic)
    return fields


def fetched(world: Any, topic: str, **options: Any) -> Values:
    fields = fetch_fields(topic, **options)
    fields["topics"][0]["topic_id"] = world.id_of(topic)
    return fields


def on(operation: AclOperation, code: ErrorCode = DENIED_CLUSTER) -> list[Ask]:
    """Asks the cluster."""
    return [(operation, R.CLUSTER, CLUSTER, code)]


def topic(operation: AclOperation, code: ErrorCode = DENIED_TOPIC) -> list[Ask]:
    return [(operation, R.TOPIC, TOPIC, code)]


def group(operation: AclOperation, code: ErrorCode = DENIED_GROUP) -> list[Ask]:
    return [(operation, R.GROUP, "team", code)]


def transaction(operation: AclOperation, code: ErrorCode = DENIED_ID) -> list[Ask]:
    return [(operation, R.TRANSACTIONAL_ID, "txn", code)]


def config_rows(key: ApiKey, operation: AclOperation, more: Values) -> Iterator[Row]:
    for kind, name, asks in (
        (2, TOPIC, topic(operation)),
        (4, "1", on(operation)),
        (8, "1", on(operation)),
        (32, "team", group(operation)),
    ):
        if key is ApiKey.ALTER_CONFIGS and kind == 8:
            continue  # levels of the log are not replaced, whoever asks
        resource = {"resource_type": kind, "resource_name": name, **more}

        def fields(world: Any, topic: str, resource: Values = resource) -> Values:
            named = resource["resource_name"]
            return {"resources": [{**resource, "resource_name": topic if named == TOPIC else named}]}

        yield Row(key, fields, asks, is_named=kind == 2, called=f"type {kind}")


WHO = of_transaction("txn", (7, 0))
ALL_TOPICS = {"topics": None}
MARKER = {"producer_id": 7, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}

ROWS = [
    Row(ApiKey.PRODUCE, produced, topic(A.WRITE), of=range(13), is_named=True),
    Row(ApiKey.PRODUCE, produced, topic(A.WRITE), of=range(13, 100), called="by id"),
    Row(
        ApiKey.PRODUCE,
        lambda world, name: produced(world, name, is_transactional=True, producer_id=7, producer_epoch=0),
        [*transaction(A.WRITE), *topic(A.WRITE)],
        called="in a transaction",
    ),
    Row(ApiKey.FETCH, fetched, topic(A.READ), of=range(13), is_named=True),
    Row(ApiKey.FETCH, fetched, topic(A.READ), of=range(13, 100), called="by id"),
    Row(
        ApiKey.FETCH,
        lambda world, name: fetched(world, name, replica_id=1, replica_state={"replica_id": 1}),
        on(A.CLUSTER_ACTION, DENIED_TOPIC),
        called="by a follower",
    ),
    Row(ApiKey.LIST_OFFSETS, lambda world, name: list_offsets_fields(name, -1), topic(A.DESCRIBE), is_named=True),
    Row(
        ApiKey.METADATA,
        lambda world, name: {"topics": [{"name": name}], "allow_auto_topic_creation": False},
        topic(A.DESCRIBE),
        is_named=True,
    ),
    Row(
        ApiKey.METADATA,
        lambda world, name: {"topics": [{"name": None, "topic_id": world.id_of(name)}]},
        topic(A.DESCRIBE),
        of=range(12, 100),
        called="by id",
    ),
    Row(ApiKey.METADATA, lambda world, name: ALL_TOPICS, topic(A.DESCRIBE, HIDDEN), of=range(1, 100), called="of all"),
    Row(
        ApiKey.METADATA,
        lambda world, name: {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        [(A.DESCRIBE, R.TOPIC, "new", DENIED_TOPIC), (A.CREATE, R.TOPIC, "new", DENIED_TOPIC)],
        of=range(4, 100),
        called="that creates",
    ),
    Row(
        ApiKey.OFFSET_COMMIT,
        lambda world, name: commit_fields("team", [(name, 0, 1)], name=lambda each: topic_name(world, each)),
        [*group(A.READ), *topic(A.READ)],
        of=range(10),
        is_named=True,
    ),
    Row(
        ApiKey.OFFSET_COMMIT,
        lambda world, name: commit_fields("team", [(name, 0, 1)], name=lambda each: topic_name(world, each)),
        [*group(A.READ), *topic(A.READ)],
        of=range(10, 100),
        called="by id",
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        lambda world, name: offset_fetch_fields("team", {name: [0]}, name=lambda each: topic_name(world, each)),
        [*group(A.DESCRIBE), *topic(A.DESCRIBE)],
        of=range(10),
        is_named=True,
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        lambda world, name: offset_fetch_fields("team", {name: [0]}, name=lambda each: topic_name(world, each)),
        [*group(A.DESCRIBE), *topic(A.DESCRIBE)],
        of=range(10, 100),
        called="by id",
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        lambda world, name: offset_fetch_fields("team"),
        [*group(A.DESCRIBE), *topic(A.DESCRIBE, HIDDEN)],
        of=range(2, 100),
        called="of all",
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        lambda world, name: {"key": "team", "coordinator_keys": ["team"]},
        group(A.DESCRIBE),
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        lambda world, name: {"key": "txn", "coordinator_keys": ["txn"], "key_type": 1},
        transaction(A.DESCRIBE),
        of=range(1, 100),
        called="of a transaction",
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        lambda world, name: {"coordinator_keys": ["team:t:0"], "key_type": 2},
        on(A.CLUSTER_ACTION),
        of=range(6, 100),
        called="of a share group",
    ),
    Row(ApiKey.JOIN_GROUP, lambda world, name: join_fields("team"), group(A.READ)),
    Row(ApiKey.SYNC_GROUP, lambda world, name: sync_fields("team", 1, "m"), group(A.READ)),
    Row(ApiKey.HEARTBEAT, lambda world, name: heartbeat_fields("team", 1, "m"), group(A.READ)),
    Row(ApiKey.LEAVE_GROUP, lambda world, name: leave_fields("team", ("m", None)), group(A.READ)),
    Row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda world, name: consumer_heartbeat_fields("modern", "m", names=[name]),
        [(A.READ, R.GROUP, "modern", DENIED_GROUP), *topic(A.DESCRIBE)],
        is_named=True,
    ),
    Row(ApiKey.CONSUMER_GROUP_DESCRIBE, lambda world, name: {"group_ids": ["team"]}, group(A.DESCRIBE)),
    Row(ApiKey.DESCRIBE_GROUPS, lambda world, name: {"groups": ["team"]}, group(A.DESCRIBE)),
    Row(
        ApiKey.LIST_GROUPS,
        lambda world, name: {},
        group(A.DESCRIBE, HIDDEN),
        instead=[(A.DESCRIBE, R.CLUSTER, CLUSTER)],
    ),
    Row(
        ApiKey.CREATE_TOPICS,
        lambda world, name: create_fields({"new": 1}),
        [(A.CREATE, R.TOPIC, "new", DENIED_TOPIC), (A.DESCRIBE_CONFIGS, R.TOPIC, "new", DENIED_TOPIC)],
        of=range(5, 100),
    ),
    Row(
        ApiKey.CREATE_TOPICS,
        lambda world, name: create_fields({"new": 1}),
        [(A.CREATE, R.TOPIC, "new", DENIED_TOPIC)],
        instead=[(A.CREATE, R.CLUSTER, CLUSTER)],
        of=range(5),
        called="of old",
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        lambda world, name: {"topic_names": [name], "topics": [{"name": name}]},
        [*topic(A.DESCRIBE), *topic(A.DELETE)],
        instead=[(A.DELETE, R.CLUSTER, CLUSTER)],
        is_named=True,
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        lambda world, name: {"topics": [{"name": None, "topic_id": world.id_of(name)}]},
        topic(A.DELETE),
        of=range(6, 100),
        called="by id",
    ),
    Row(ApiKey.DELETE_RECORDS, lambda world, name: delete_records_fields(name, 0), topic(A.DELETE), is_named=True),
    Row(ApiKey.INIT_PRODUCER_ID, lambda world, name: init_producer_fields("txn"), transaction(A.WRITE)),
    Row(
        ApiKey.INIT_PRODUCER_ID,
        lambda world, name: init_producer_fields(None),
        on(A.IDEMPOTENT_WRITE),
        instead=[(A.WRITE, R.TOPIC, "any")],
        called="without an id",
    ),
    Row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda world, name: {"topics": [{"topic": name, "partitions": [{"current_leader_epoch": -1}]}]},
        topic(A.DESCRIBE),
        instead=[(A.CLUSTER_ACTION, R.CLUSTER, CLUSTER)],
        is_named=True,
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda world, name: add_partitions_fields(WHO, [(name, 0)]),
        [*transaction(A.WRITE), *topic(A.WRITE)],
        of=range(4),
        is_named=True,
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda world, name: add_partitions_fields(WHO, [(name, 0)]),
        on(A.CLUSTER_ACTION),
        of=range(4, 100),
        called="by a broker",
    ),
    Row(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda world, name: WHO | {"group_id": "team"},
        [*transaction(A.WRITE), *group(A.READ)],
    ),
    Row(ApiKey.END_TXN, lambda world, name: WHO | {"committed": True}, transaction(A.WRITE)),
    Row(
        ApiKey.WRITE_TXN_MARKERS,
        lambda world, name: {"markers": [MARKER | {"topics": [{"name": name, "partition_indexes": [0]}]}]},
        on(A.CLUSTER_ACTION),
        instead=[(A.ALTER, R.CLUSTER, CLUSTER)],
    ),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda world, name: txn_commit_fields("txn", (7, 0), "team", [(name, 0, 1)]),
        [*transaction(A.WRITE), *group(A.READ), *topic(A.READ)],
        is_named=True,
    ),
    Row(ApiKey.DESCRIBE_ACLS, lambda world, name: ANY_RULE, on(A.DESCRIBE)),
    Row(ApiKey.CREATE_ACLS, lambda world, name: {"creations": [RULE]}, on(A.ALTER)),
    Row(ApiKey.DELETE_ACLS, lambda world, name: {"filters": [ANY_RULE | {"principal_filter": "User:x"}]}, on(A.ALTER)),
    *config_rows(ApiKey.DESCRIBE_CONFIGS, A.DESCRIBE_CONFIGS, {"configuration_keys": None}),
    *config_rows(ApiKey.ALTER_CONFIGS, A.ALTER_CONFIGS, {"configs": []}),
    *config_rows(ApiKey.INCREMENTAL_ALTER_CONFIGS, A.ALTER_CONFIGS, {"configs": []}),
    Row(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        lambda world, name: {"dirs": [{"path": "/", "topics": [{"name": name, "partitions": [0]}]}]},
        on(A.ALTER),
    ),
    Row(ApiKey.DESCRIBE_LOG_DIRS, lambda world, name: ALL_TOPICS, on(A.DESCRIBE), of=range(3, 100)),
    Row(ApiKey.DESCRIBE_LOG_DIRS, lambda world, name: ALL_TOPICS, on(A.DESCRIBE, HIDDEN), of=range(3), called="of old"),
    Row(
        ApiKey.CREATE_PARTITIONS,
        lambda world, name: {"topics": [{"name": name, "count": 9, "assignments": None}]},
        topic(A.ALTER),
        is_named=True,
    ),
    Row(ApiKey.DELETE_GROUPS, lambda world, name: {"groups_names": ["team"]}, group(A.DELETE)),
    Row(
        ApiKey.ELECT_LEADERS,
        lambda world, name: {"topic_partitions": [{"topic": name, "partitions": [0]}]},
        on(A.ALTER),
    ),
    Row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda world, name: {"topics": [{"name": name, "partitions": [{"partition_index": 0, "replicas": None}]}]},
        on(A.ALTER),
    ),
    Row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        lambda world, name: {"topics": [{"name": name, "partition_indexes": [0]}]},
        on(A.DESCRIBE),
    ),
    Row(
        ApiKey.OFFSET_DELETE,
        lambda world, name: delete_offsets_fields("team", [(name, 0)]),
        [*group(A.DELETE), *topic(A.READ)],
        is_named=True,
    ),
    Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, lambda world, name: {}, on(A.DESCRIBE_CONFIGS)),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, lambda world, name: {"entries": [QUOTA]}, on(A.ALTER_CONFIGS)),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, lambda world, name: {"users": None}, on(A.DESCRIBE)),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, lambda world, name: {"upsertions": [CREDENTIAL]}, on(A.ALTER)),
    Row(ApiKey.UPDATE_FEATURES, lambda world, name: {"feature_updates": []}, on(A.ALTER)),
    Row(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda world, name: {"topics": [{"name": name, "partition_indexes": [0]}]},
        topic(A.READ),
        is_named=True,
    ),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, lambda world, name: {"transactional_ids": ["txn"]}, transaction(A.DESCRIBE)),
    Row(ApiKey.LIST_TRANSACTIONS, lambda world, name: {}, transaction(A.DESCRIBE, HIDDEN)),
    Row(ApiKey.LIST_CONFIG_RESOURCES, lambda world, name: {}, on(A.DESCRIBE_CONFIGS)),
    Row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda world, name: {"topics": [{"name": name}], "response_partition_limit": 9, "cursor": None},
        topic(A.DESCRIBE),
        is_named=True,
    ),
    Row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda world, name: {"topics": [], "response_partition_limit": 2000, "cursor": None},
        topic(A.DESCRIBE, HIDDEN),
        called="of all",
    ),
    Row(ApiKey.DESCRIBE_GROUP_HISTORY, lambda world, name: {"group_id": "team", "view": "events"}, group(A.DESCRIBE)),
    Row(ApiKey.WORKBENCH, lambda world, name: {"verb": "any", "body": b""}, on(A.ALTER)),
]
