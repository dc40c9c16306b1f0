"""Requests to call every API with: valid ones that ask for little, built for whatever version is to be tried.

An API that is not named here is called with a request of nothing but defaults, which many can answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import ArrayOf
from tests.support.client import Client, batch, who
from tests.support.requests import (
    Values,
    add_partitions_fields,
    commit_fields,
    consumer_heartbeat_fields,
    create_fields,
    fetch_fields,
    join_fields,
    leave_fields,
    list_offsets_fields,
    offset_fetch_fields,
    produce_fields,
    request,
    subscribed,
    sync_fields,
)

TOPIC = "wire"
SUBSCRIBED = subscribed(TOPIC)


def one_of_everything(cls: type[Any], version: int) -> Any:
    """The defaults, but with one item in every array that the version has."""
    made = cls()
    for field in cls.__wire__:
        if not field.present(version):
            continue
        if isinstance(field.type, ArrayOf):
            item = field.type.item
            setattr(made, field.name, [one_of_everything(item, version) if isinstance(item, type) else item.default])
        elif isinstance(field.type, type):
            setattr(made, field.name, one_of_everything(field.type, version))
    return made


class World:
    """A broker with something to ask for, and what a request needs to be valid there."""

    _numbers = itertools.count(1)

    def __init__(self, peer: Client) -> None:
        self.peer = peer
        peer.call(ApiKey.CREATE_TOPICS, 7, **create_fields({TOPIC: 2}))
        self.topic_id = peer.topic_id(TOPIC)

    def fresh(self, kind: str) -> str:
        """A name that was not used before."""
        return f"wire-{kind}-{next(self._numbers)}"

    def minimal(self, key: ApiKey, version: int) -> Any:
        """A valid request. It can be sent once, since it may use up what it names."""
        values = VALID[key](self) if key in VALID else {}
        return request(key, values)

    def topic(self) -> str:
        """A topic of its own."""
        return self.peer.create(self.fresh("topic"))

    def named(self, topic: str) -> dict[str, Any]:
        """The fields that name its topic, whichever of them a version has."""
        return {"name": topic, "topic_id": self.topic_id}

    def joined(self) -> dict[str, Any]:
        """A group whose only member has joined and not yet synced, and that member."""
        group = self.fresh("group")
        answer = self.peer.join(group, 5, instance=self.fresh("instance"))
        assert answer.error_code == 0
        return {"group_id": group, "member_id": answer.member_id, "generation_id": answer.generation_id}

    def stable(self) -> dict[str, Any]:
        """The same with an assignment."""
        member = self.joined()
        assignments = [{"member_id": member["member_id"], "assignment": b"a"}]
        assert self.peer.call(ApiKey.SYNC_GROUP, 3, **member, assignments=assignments).error_code == 0
        return member

    def modern(self) -> str:
        """A group of the consumer protocol with a member."""
        group = self.fresh("group")
        fields = consumer_heartbeat_fields(group, "m", names=[TOPIC])
        assert self.peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).member_epoch == 2
        return group

    def group_with_offsets(self) -> str:
        """A group without members."""
        group = self.fresh("group")
        assert self.peer.commit(group, TOPIC) == 0
        return group

    def producer(self) -> dict[str, Any]:
        """A transactional id with a producer."""
        name = self.fresh("transaction")
        told = self.peer.producer(name)
        assert told.error_code == 0
        return who(told) | {"transactional_id": name}

    def transaction(self) -> dict[str, Any]:
        """The same in a transaction."""
        producer = self.producer()
        place = TopicPartition(TOPIC, 0)
        assert self.peer.add_partitions(producer["transactional_id"], SimpleNamespace(**producer), place) == [0]
        return producer

    def producer_with_group(self) -> dict[str, Any]:
        """In a transaction that has a group's offsets, too."""
        producer = self.transaction()
        group = self.fresh("group")
        producer |= {"group_id": group}
        assert self.peer.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, **producer).error_code == 0
        return producer


def _produce(world: World) -> Values:
    fields = produce_fields(TOPIC, batch())
    fields["topic_data"][0]["topic_id"] = world.topic_id
    return fields


def _fetch(world: World) -> Values:
    fields = fetch_fields(TOPIC)
    fields["topics"][0]["topic_id"] = world.topic_id
    return fields


def _leave(world: World) -> Values:
    member = world.stable()
    return leave_fields(member["group_id"], (member["member_id"], None))


def _sync(world: World) -> Values:
    member = world.joined()
    member_id = member["member_id"]
    return sync_fields(member["group_id"], member["generation_id"], member_id, {member_id: b"a"})


def _delete_topics(world: World) -> Values:
    name = world.topic()
    return {"topic_names": [name], "topics": [{"name": name}], "timeout_ms": 10_000}


def _txn_commit(world: World) -> Values:
    place = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    topics = [{"name": TOPIC, "partitions": [place]}]
    return world.producer_with_group() | {"generation_id": -1, "topics": topics}


def _offset_delete(world: World) -> Values:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    return {"group_id": world.group_with_offsets(), "topics": topics}


def _config(operation: Values) -> Values:
    config = {"name": "retention.ms", "value": "86400000", **operation}
    return {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configs": [config]}]}


def _topic_partitions(name: str, partitions: str) -> list[Values]:
    return [{name: TOPIC, partitions: [0]}]


ANY_RULE = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
RULE = {
    "resource_type": 2,
    "resource_name": TOPIC,
    "resource_pattern_type": 3,
    "principal": "User:wire",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
CREDENTIAL = {"name": "wire", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
QUOTA = {
    "entity": [{"entity_type": "client-id", "entity_name": "somebody-else"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e9}],
}

VALID: dict[ApiKey, Callable[[World], Values]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: lambda world: list_offsets_fields(TOPIC, -1),
    ApiKey.METADATA: lambda world: {"topics": [{"name": TOPIC}]},
    ApiKey.OFFSET_COMMIT: lambda world: commit_fields(world.fresh("group"), [(TOPIC, 0, 1)], name=world.named),
    ApiKey.OFFSET_FETCH: lambda world: offset_fetch_fields(
        world.group_with_offsets(), {TOPIC: [0, 1]}, name=world.named
    ),
    ApiKey.FIND_COORDINATOR: lambda world: {"key": "g", "coordinator_keys": ["g"]},
    ApiKey.JOIN_GROUP: lambda world: join_fields(world.fresh("group")),
    ApiKey.HEARTBEAT: lambda world: world.stable(),
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda world: consumer_heartbeat_fields(world.fresh("group"), "m", names=[TOPIC]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda world: {"group_ids": [world.modern()]},
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.DESCRIBE_GROUPS: lambda world: {"groups": [world.stable()["group_id"]]},
    ApiKey.API_VERSIONS: lambda world: {"client_software_name": "wire", "client_software_version": "1"},
    ApiKey.CREATE_TOPICS: lambda world: create_fields({world.fresh("topic"): 1}),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: lambda world: {
        "topics": [{"name": TOPIC, "partitions": [{"partition_index": 1}]}],
        "timeout_ms": 10_000,
    },
    ApiKey.INIT_PRODUCER_ID: lambda world: {
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda world: {
        "replica_id": -1,
        "topics": [{"topic": TOPIC, "partitions": [{"current_leader_epoch": -1}]}],
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda world: add_partitions_fields(world.producer(), [(TOPIC, 0)]),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda world: world.producer() | {"group_id": world.fresh("group")},
    ApiKey.END_TXN: lambda world: world.transaction() | {"committed": True},
    ApiKey.TXN_OFFSET_COMMIT: _txn_commit,
    ApiKey.DESCRIBE_ACLS: lambda world: ANY_RULE,
    ApiKey.CREATE_ACLS: lambda world: {"creations": [RULE]},
    ApiKey.DELETE_ACLS: lambda world: {"filters": [ANY_RULE]},
    ApiKey.DESCRIBE_CONFIGS: lambda world: {"resources": [{"resource_type": 2, "resource_name": TOPIC}]},
    ApiKey.ALTER_CONFIGS: lambda world: _config({}),
    ApiKey.DESCRIBE_LOG_DIRS: lambda world: {"topics": _topic_partitions("topic", "partitions")},
    ApiKey.CREATE_PARTITIONS: lambda world: {
        "topics": [{"name": world.topic(), "count": 2, "assignments": None}],
        "timeout_ms": 10_000,
    },
    ApiKey.DELETE_GROUPS: lambda world: {"groups_names": [world.group_with_offsets()]},
    ApiKey.ELECT_LEADERS: lambda world: {"topic_partitions": None, "timeout_ms": 10_000},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda world: _config({"config_operation": 0}),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda world: {"timeout_ms": 10_000},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda world: {"topics": None, "timeout_ms": 10_000},
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.ALTER_CLIENT_QUOTAS: lambda world: {"entries": [QUOTA]},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda world: {"upsertions": [CREDENTIAL]},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda world: {"users": None},
    ApiKey.UPDATE_FEATURES: lambda world: {
        "feature_updates": [{"feature": "transaction.version", "max_version_level": 2}],
    },
    ApiKey.DESCRIBE_CLUSTER: lambda world: {"endpoint_type": 1},
    ApiKey.DESCRIBE_PRODUCERS: lambda world: {"topics": _topic_partitions("name", "partition_indexes")},
    ApiKey.DESCRIBE_TRANSACTIONS: lambda world: {"transactional_ids": [world.producer()["transactional_id"]]},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda world: {
        "topics": [{"name": TOPIC}],
        "response_partition_limit": 100,
        "cursor": None,
    },
}


def error_codes(value: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(value, list):
        for item in value:
            yield from error_codes(item)
    elif hasattr(value, "__wire__"):
        for field in value.__wire__:
            held = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield held
            else:
                yield from error_codes(held)
