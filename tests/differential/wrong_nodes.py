"""Requests to a node that is not the right one: three Apache Kafka brokers, and Ottla that is one of three nodes.

``python -m tests.differential.wrong_nodes`` asks one node of three for what it leads, for what another leads, and for
what nobody leads as its node was killed; and prints every answer of Ottla that differs. ``--all`` prints Kafka's.

Nodes are compared by their parts: ``here`` is who is asked, ``there`` another one, ``down`` the one that was killed.
Epochs are not compared, nor what `_LEFT_OUT` names: sizes, texts, configs, what is cordoned, and the controller, which
Kafka draws at random, among others.
"""

from __future__ import annotations

import argparse
import pprint
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import Record
from tests.differential.compare import leaves
from tests.differential.real_kafka import NoJava, version
from tests.differential.three_kafkas import ThreeKafkas
from tests.differential.three_nodes import ThreeNodes
from tests.differential.wire import Wire, plain
from tests.support.batches import build_batch
from tests.support.requests import (
    add_partitions_fields,
    commit_fields,
    consumer_heartbeat_fields,
    delete_offsets_fields,
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
from tests.support.waiting import wait_for

TOPIC = "t"
PARTS = ("here", "there", "down")
"""Partition 0 of the topic is led here, 1 there, and 2 by the node that is down."""
SHARDS = 3
SETTINGS = {"offsets.topic.num.partitions": SHARDS, "transaction.state.log.num.partitions": SHARDS}
K = ApiKey


# -- who is asked


class Asked:
    """A node of three, and what to ask it for.

    Args:
        ids: the node of each part.
        ports: by node.
        kill: ends a node.

    Attributes:
        topic_id: of the topic.
    """

    def __init__(self, ids: Sequence[int], ports: Mapping[int, int], kill: Callable[[int], None]) -> None:
        self.ids = dict(zip(PARTS, ids, strict=True))
        self.ports = ports
        self._wire = Wire(ports[self.ids["here"]], "wrong-nodes")
        self._create()
        self._leaders: dict[str, dict[int, int]] = {}
        for topic in self._ask(ApiKey.METADATA, 12, topics=None).topics:
            self._leaders[topic.name] = {row.partition_index: row.leader_id for row in topic.partitions}
            if topic.name == TOPIC:
                self.topic_id: UUID = topic.topic_id
        asked = {"group_id": self.key_of("here", OFFSETS_TOPIC), "topics": []}
        wait_for(lambda: not self._ask(ApiKey.OFFSET_FETCH, 5, **asked).error_code, "a coordinator", timeout_s=60)
        kill(self.ids["down"])
        wait_for(self._has_noticed, "a dead node to be noticed", timeout_s=60)

    def _create(self) -> None:
        """Create the topic, and those of both coordinators."""
        wait_for(lambda: len(self._ask(ApiKey.METADATA, 12, topics=[]).brokers) == 3, "all nodes", timeout_s=60)
        rows = [{"partition_index": index, "broker_ids": [node_id]} for index, node_id in enumerate(self.ids.values())]
        wanted = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        created = self._ask(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout_ms=30_000).topics[0]
        assert not created.error_code, created
        for kind in (0, 1):
            wait_for(partial(self._has_coordinators, kind), "coordinators", timeout_s=60)

    def _has_coordinators(self, kind: int) -> bool:
        keys = [f"g{number}" for number in range(20)]
        found = self._ask(ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=keys).coordinators
        return not any(row.error_code for row in found)

    def _has_noticed(self) -> bool:
        names = [{"name": name} for name in self._leaders]
        topics = self._ask(ApiKey.METADATA, 12, topics=names, allow_auto_topic_creation=False).topics
        return all(row.leader_id != self.ids["down"] for topic in topics for row in topic.partitions)

    def shard(self, topic: str, part: str) -> int:
        """A partition of a coordinator's topic that a part leads."""
        return next(index for index, node_id in self._leaders[topic].items() if node_id == self.ids[part])

    def key_of(self, part: str, topic: str) -> str:
        """A group, or a transactional id, that a part coordinates."""
        shard = self.shard(topic, part)
        return next(name for n in range(100) if coordinator_partition(name := f"{part}-{n}", SHARDS) == shard)

    def ask(self, key: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        return self._ask(key, version, **fields)

    def _ask(self, api_key: ApiKey, of_version: int, /, **fields: Any) -> Any:
        answer = self._wire.ask(api_key, of_version, 30.0, **fields)
        assert not isinstance(answer, str), f"{api_key.name} v{of_version}: {answer}"
        return answer


def group(of: Asked, part: str) -> str:
    return of.key_of(part, OFFSETS_TOPIC)


def transactional_id(of: Asked, part: str) -> str:
    return of.key_of(part, TRANSACTIONS_TOPIC)


# -- the requests


class Case(NamedTuple):
    key: ApiKey
    fields: Callable[[Asked], Mapping[str, Any]]
    what: str
    since: int = 0


def named(of: Asked, key: str = "name") -> dict[str, Any]:
    """The fields that name the topic; versions take what they have."""
    return {key: TOPIC, "topic_id": of.topic_id}


def produced(of: Asked, partition: int, *, acks: int = -1, data: bytes | None = None, **in_transaction: Any) -> Any:
    batch = build_batch([Record(0, 1_750_000_000_000, b"k", b"v")], **in_transaction)
    whose = transactional_id(of, "here") if in_transaction else None
    fields = produce_fields(TOPIC, batch if data is None else data, partition, acks, whose)
    fields["topic_data"][0] |= named(of)
    return fields


def fetched(of: Asked, partition: int, **options: Any) -> Any:
    fields = fetch_fields(TOPIC, 0, partition, **options)
    fields["topics"][0] |= named(of, "topic")
    return fields


def offsets_asked(of: Asked, partition: int, timestamp: int, epoch: int) -> Any:
    return list_offsets_fields(TOPIC, timestamp, partition, leader_epoch=epoch)


def ends_asked(of: Asked, partition: int, epoch: int) -> Any:
    wanted = [{"partition": partition, "current_leader_epoch": epoch, "leader_epoch": 0}]
    return {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": wanted}]}


def of_partitions() -> Iterator[Case]:
    whose = {"is_transactional": True, "producer_id": 7, "producer_epoch": 0}
    follower = {"replica_id": 3, "replica_state": {"replica_id": 3}}
    for at, part in enumerate(PARTS[1:], 1):
        for acks in (-1, 1, 5):
            yield Case(K.PRODUCE, partial(produced, partition=at, acks=acks), f"{part}, acks {acks}", 3)
        yield Case(K.PRODUCE, partial(produced, partition=at, data=b""), f"{part}, no batch", 3)
        yield Case(K.PRODUCE, partial(produced, partition=at, **whose), f"{part}, in a transaction", 3)
        for epoch in (-1, 0, 99):
            what = f"{part}, epoch {epoch}"
            yield Case(K.FETCH, partial(fetched, partition=at, current_leader_epoch=epoch), what)
            yield Case(K.LIST_OFFSETS, partial(offsets_asked, partition=at, timestamp=-1, epoch=epoch), what)
            yield Case(K.OFFSET_FOR_LEADER_EPOCH, partial(ends_asked, partition=at, epoch=epoch), what)
        yield Case(K.FETCH, partial(fetched, partition=at, isolation_level=1), f"{part}, committed")
        yield Case(K.FETCH, partial(fetched, partition=at, **follower), f"{part}, by a follower")
        yield Case(K.LIST_OFFSETS, partial(offsets_asked, partition=at, timestamp=-2, epoch=-1), f"{part}, earliest")
    every = [0, 1, 2, 9]
    trims = [{"partition_index": index, "offset": 0} for index in every]
    trimmed = {"topics": [{"name": name, "partitions": trims} for name in (TOPIC, OFFSETS_TOPIC)], "timeout_ms": 5_000}
    yield Case(K.DELETE_RECORDS, lambda of: trimmed, "all")
    wholly = [{"name": TOPIC, "partition_indexes": every}]
    yield Case(K.DESCRIBE_PRODUCERS, lambda of: {"topics": wholly}, "all")
    marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
    for part in PARTS:

        def of_group(of: Asked, part: str = part) -> dict[str, Any]:
            topics = [{"name": OFFSETS_TOPIC, "partition_indexes": [of.shard(OFFSETS_TOPIC, part)]}]
            return {"markers": [{**marker, "topics": topics}]}

        yield Case(K.WRITE_TXN_MARKERS, of_group, f"group of {part}")
    yield Case(K.WRITE_TXN_MARKERS, lambda of: {"markers": [{**marker, "topics": wholly}]}, "all")


def of_the_cluster() -> Iterator[Case]:
    yield Case(K.METADATA, lambda of: {"topics": [{"name": TOPIC}]}, "topic")
    asked = {"topics": [{"name": TOPIC}], "response_partition_limit": 9}
    yield Case(K.DESCRIBE_TOPIC_PARTITIONS, lambda of: asked, "topic")
    for fenced in (False, True):
        yield Case(
            K.DESCRIBE_CLUSTER, lambda of, f=fenced: {"endpoint_type": 1, "include_fenced_brokers": f}, f"{fenced}"
        )
    yield Case(K.LIST_CONFIG_RESOURCES, lambda of: {"resource_types": [4, 8]}, "brokers", 1)
    for part in PARTS[1:]:
        for kind, name in ((4, "num.io.threads"), (8, "root")):
            value = "INFO" if kind == 8 else "9"

            def resource(of: Asked, kind: int = kind, part: str = part) -> dict[str, Any]:
                return {"resource_type": kind, "resource_name": str(of.ids[part])}

            yield Case(K.DESCRIBE_CONFIGS, lambda of, r=resource: {"resources": [r(of)]}, f"{kind} of {part}")
            change = [{"name": name, "value": value, "config_operation": 0}]
            yield Case(K.INCREMENTAL_ALTER_CONFIGS, lambda of, r=resource, change=change: {
                "resources": [r(of) | {"configs": change}]}, f"{kind} of {part}")  # fmt: skip
    elections = [{"topic": TOPIC, "partitions": [0, 1, 2]}]
    for kind in (0, 1):
        yield Case(K.ELECT_LEADERS, lambda of, kind=kind: {"election_type": kind, "topic_partitions": elections,
                   "timeout_ms": 5_000}, f"type {kind}", int(kind > 0))  # fmt: skip

    def homes(of: Asked) -> dict[str, Any]:
        rows = [{"partition_index": index, "replicas": [of.ids[part]]} for index, part in enumerate(PARTS)]
        return {"topics": [{"name": TOPIC, "partitions": rows}], "timeout_ms": 5_000}

    yield Case(K.ALTER_PARTITION_REASSIGNMENTS, homes, "to where they are")
    strange = [{"partition_index": 1, "replicas": [77]}, {"partition_index": 2, "replicas": None}]
    moved = {"topics": [{"name": TOPIC, "partitions": strange}], "timeout_ms": 5_000}
    yield Case(K.ALTER_PARTITION_REASSIGNMENTS, lambda of: moved, "to nowhere")
    yield Case(K.LIST_PARTITION_REASSIGNMENTS, lambda of: {"topics": None, "timeout_ms": 5_000}, "all")
    yield Case(K.DESCRIBE_LOG_DIRS, lambda of: {"topics": [{"topic": TOPIC, "partitions": [0, 1, 2]}]}, "topic")


def of_coordinators() -> Iterator[Case]:
    for kind, topic in ((0, OFFSETS_TOPIC), (1, TRANSACTIONS_TOPIC)):
        for part in PARTS:

            def found(of: Asked, kind: int = kind, topic: str = topic, part: str = part) -> dict[str, Any]:
                key = of.key_of(part, topic)
                return {"key": key, "key_type": kind, "coordinator_keys": [key, of.key_of("here", topic)]}

            yield Case(K.FIND_COORDINATOR, found, f"type {kind}, {part}", int(kind > 0))
    for part in PARTS[1:]:
        for key, fields in GROUPS.items():
            yield Case(key, lambda of, fields=fields, part=part: fields(of, group(of, part)), part)
        for key, fields in TRANSACTIONS.items():
            yield Case(key, lambda of, fields=fields, part=part: fields(of, transactional_id(of, part)), part)
    # What is coordinated here is asked last, as it is what lists are of.
    yield Case(K.OFFSET_COMMIT, lambda of: committed(of, group(of, "here")), "here")
    yield Case(K.OFFSET_FETCH, lambda of: offsets_of(of, [group(of, part) for part in PARTS]), "mixed", 8)
    yield Case(K.DESCRIBE_GROUPS, lambda of: {"groups": [group(of, part) for part in PARTS]}, "mixed")
    yield Case(K.LIST_GROUPS, lambda of: {}, "all")
    yield Case(K.LIST_TRANSACTIONS, lambda of: {}, "all")
    yield Case(K.DELETE_GROUPS, lambda of: {"groups_names": [group(of, part) for part in PARTS]}, "mixed", 2)


def offsets_of(of: Asked, groups: str | list[str]) -> dict[str, Any]:
    return offset_fetch_fields(groups, {TOPIC: [0, 1]}, name=lambda topic: named(of))


def committed(of: Asked, name: str) -> dict[str, Any]:
    return commit_fields(name, [(TOPIC, 0, 1)], name=lambda topic: named(of))


WHO = (7, 0)
Fields = Callable[[Asked, str], Mapping[str, Any]]
GROUPS: dict[ApiKey, Fields] = {
    K.JOIN_GROUP: lambda of, name: join_fields(name),
    K.SYNC_GROUP: lambda of, name: sync_fields(name, 1, "m"),
    K.HEARTBEAT: lambda of, name: heartbeat_fields(name, 1, "m"),
    K.LEAVE_GROUP: lambda of, name: leave_fields(name, ("m", None)),
    K.CONSUMER_GROUP_HEARTBEAT: lambda of, name: consumer_heartbeat_fields(name, "m" * 22, names=[TOPIC]),
    K.OFFSET_COMMIT: committed,
    K.OFFSET_FETCH: offsets_of,
    K.OFFSET_DELETE: lambda of, name: delete_offsets_fields(name, [(TOPIC, 0)]),
    K.TXN_OFFSET_COMMIT: lambda of, name: txn_commit_fields(transactional_id(of, "here"), WHO, name, [(TOPIC, 0, 1)]),
    K.DESCRIBE_GROUPS: lambda of, name: {"groups": [name]},
    K.CONSUMER_GROUP_DESCRIBE: lambda of, name: {"group_ids": [name]},
    K.DELETE_GROUPS: lambda of, name: {"groups_names": [name]},
}
TRANSACTIONS: dict[ApiKey, Fields] = {
    K.INIT_PRODUCER_ID: lambda of, name: init_producer_fields(name),
    K.ADD_PARTITIONS_TO_TXN: lambda of, name: add_partitions_fields(of_transaction(name, WHO), [(TOPIC, 0)]),
    K.ADD_OFFSETS_TO_TXN: lambda of, name: of_transaction(name, WHO) | {"group_id": "g"},
    K.END_TXN: lambda of, name: of_transaction(name, WHO) | {"committed": True},
    K.DESCRIBE_TRANSACTIONS: lambda of, name: {"transactional_ids": [name]},
}


# -- what is compared

_NODES = ("node_id", "leader_id", "broker_id")
_LISTS_OF_NODES = ("replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
_LEFT_OUT = {
    "cluster_id",
    "configs",
    "controller_id",
    "error_message",
    "is_cordoned",
    "log_dir",
    "partition_size",
    "throttle_time_ms",
    "topic_authorized_operations",
    "total_bytes",
    "usable_bytes",
}
_NUMBERED = re.compile(f"^({'|'.join(PARTS)})-\\d+$")
"""Ids of groups and of transactions, of which each cluster has others."""


def normal(value: Any, of: Asked) -> Any:
    """An answer with parts in the place of nodes, and without what may differ."""
    names = {node_id: part for part, node_id in of.ids.items()}
    ports = {of.ports[node_id]: part for node_id, part in names.items()}

    within: list[Any] = []

    def seen(field: str, value: Any) -> Any:
        if field in _NODES or field == "resource_name":
            return names.get(int(value), value)
        if field in _LISTS_OF_NODES:
            return [names.get(one, one) for one in value]
        if field == "port":
            return ports.get(value, value)
        if field.endswith("leader_epoch") or field == "epoch":
            return min(value, 0)
        return walk(value)

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            # Which partition of its topic a part coordinates is another one in each cluster.
            hidden = {"partition_index"} if OFFSETS_TOPIC in within else set()
            within.append(value.get("name"))
            found = {name: seen(name, each) for name, each in value.items() if name not in hidden | _LEFT_OUT}
            within.pop()
            return found
        if isinstance(value, list):
            return sorted((walk(each) for each in value), key=repr)
        if value == of.topic_id:
            return "its id"
        return _NUMBERED.sub(r"\1", value) if isinstance(value, str) else value

    return walk(plain(value))


def versions(case: Case) -> list[int]:
    served, known = HANDLERS[case.key], api(case.key).request.versions
    return [number for number in served if number in known and number >= case.since]


def compare(kafka: Asked, ottla: Asked, *, show: bool) -> tuple[int, int]:
    """Ask both for everything; how many answers were compared, and how many differ."""
    count = differences = 0
    for case in (*of_the_cluster(), *of_partitions(), *of_coordinators()):
        for number in versions(case):
            theirs, ours = (normal(who.ask(case.key, number, case.fields(who)), who) for who in (kafka, ottla))
            count += 1
            label = f"{case.key.name} v{number} ({case.what})"
            if show:
                print(label)
                pprint.pp(theirs, width=150)
            if found := leaves(theirs, ours):
                differences += 1
                print(f"=== {label}")
                for path, one, two in found:
                    print(f"      {path}: Kafka {one!r}; Ottla {two!r}")
    return count, differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="print what Kafka answers")
    options = parser.parse_args()
    try:
        with ThreeKafkas(SETTINGS) as three, ThreeNodes(SETTINGS) as nodes:
            kafka, ottla = Asked((2, 1, 3), three.ports, three.kill), Asked((2, 1, 3), nodes.ports, nodes.kill)
            count, differences = compare(kafka, ottla, show=options.all)
    except NoJava as missing:
        print(f"SKIPPED: {missing}")
        return 0
    print(f"Apache Kafka {version()}: {count} answers compared, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
