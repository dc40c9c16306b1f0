"""A trace: what is sent to one broker, and a transcript of what came back that can be held against another's.

Ids that a broker makes up are replaced by their order of appearance. Time is compared by order alone: after each step
the trace waits until the coordinator has done everything before it (`settle`), then notes which answers have come. A
parked request therefore shows as a step without an answer, and its answer stands behind the step that caused it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import assigned_partitions
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.primitives import ZERO_UUID
from tests.differential.real_kafka import TO_SASL
from tests.differential.several import OF_BROKERS, Nodes, Routed
from tests.differential.wire import CLOSED, SILENT, Wire, plain
from tests.support.requests import request

MADE_UP = re.compile(r"(\S*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BARRIER = "barrier"
NO_SUCH_ID = UUID(int=77)
PATIENCE_S = 0.5
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# Lists whose order Kafka takes from a hash map, and the field that names an entry.
UNORDERED = {
    (ApiKey.JOIN_GROUP, "members"): "member_id",
    (ApiKey.DESCRIBE_GROUPS, "members"): "member_id",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "members"): "member_id",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "groups"): "group_id",
    (ApiKey.LIST_GROUPS, "groups"): "group_id",
    (ApiKey.DELETE_GROUPS, "results"): "group_id",
    (ApiKey.DESCRIBE_GROUPS, "groups"): "group_id",
    (ApiKey.OFFSET_FETCH, "topics"): "name",
    (ApiKey.OFFSET_FETCH, "partitions"): "partition_index",
    (ApiKey.METADATA, "topics"): "name",
    (ApiKey.METADATA, "partitions"): "partition_index",
    (ApiKey.DESCRIBE_CONFIGS, "configs"): "name",
    (ApiKey.CREATE_TOPICS, "topics"): "name",
    (ApiKey.CREATE_TOPICS, "configs"): "name",
    (ApiKey.DELETE_TOPICS, "responses"): "name",
    (ApiKey.CREATE_PARTITIONS, "results"): "name",
    (ApiKey.DELETE_RECORDS, "topics"): "name",
    (ApiKey.DELETE_RECORDS, "partitions"): "partition_index",
    (ApiKey.LIST_OFFSETS, "topics"): "name",
    (ApiKey.LIST_OFFSETS, "partitions"): "partition_index",
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "results"): "topic_name",
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "partitions"): "partition_index",
    (ApiKey.DESCRIBE_LOG_DIRS, "topics"): "name",
    (ApiKey.DESCRIBE_LOG_DIRS, "partitions"): "partition_index",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_transaction"): "transactional_id",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "topic_results"): "name",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_topic_v3_and_below"): "name",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_partition"): "partition_index",
    (ApiKey.DESCRIBE_TRANSACTIONS, "topics"): "topic",
    (ApiKey.LIST_TRANSACTIONS, "transaction_states"): "transactional_id",
    (ApiKey.WRITE_TXN_MARKERS, "topics"): "name",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "results"): "user",
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "results"): "user",
    (ApiKey.PRODUCE, "responses"): "name",
    (ApiKey.PRODUCE, "partition_responses"): "index",
}

NODES = ("node_id", "leader_id", "broker_id", "controller_id", "replica_nodes", "isr_nodes", "replicas")
"""Fields that name nodes. Which of several it is, is not compared."""
FIRST = 1

# Lists of topics with partitions in what consumer groups answer and record, in any order.
SHARES = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")
Share = dict[UUID, list[int]]


class Trace:
    """Runs against the broker at ``port``; ``name`` begins every group id and topic name it uses."""

    def __init__(self, port: int, name: str, seed: int = 0, quiet_ms: int = 15) -> None:
        self.port = port
        self.name = name
        ports = port.ports if isinstance(port, Nodes) else (port,)
        self._ports = {*ports, *(each + TO_SASL for each in ports)}
        self.node_ids = range(FIRST, FIRST + len({*ports}))
        self.random = random.Random(f"{name}/{seed}")
        self.quiet_s = quiet_ms / 1000
        self.transcript: list[tuple[str, Any]] = []
        self.answers = 0
        self.wires: list[Wire] = []
        self.member: dict[str, str] = {}  # per client: the member id it was told last
        self.former: dict[str, str] = {}  # and the one before
        self.generation: dict[str, int] = {}  # or the epoch, of a member of a consumer group
        self.shares: dict[str, tuple[Share, Share]] = {}  # per such member: what it was told to have before, and last
        self.parts: dict[str, list[tuple[str, int]]] = {}  # per classic member: what it was told to have last
        self.issued: set[str] = set()  # member ids that the broker made up for such members
        self.topic_ids: dict[str, UUID] = {}
        self.settled: list[set[str]] = []  # per step, the requests whose answers came
        self.peer: Trace | None = None  # the same trace on the other broker
        self._open: list[tuple[str, Wire]] = []
        self._names: dict[tuple[str, Any], str] = {}
        self._counts: dict[str, int] = {}

    def note(self, label: str, value: Any) -> None:
        self.transcript.append((label, value))

    def wire(self, who: str | None) -> Wire:
        """A connection of this client without a request under way."""
        for wire in self.wires:
            if wire.client_id == who and wire.sent is None and not wire.closed:
                return wire
        self.wires.append(self.connect(who))
        return self.wires[-1]

    def connect(self, who: str | None) -> Wire:
        """A connection to the broker, or to several nodes."""
        return (
            Routed(self.port, who, self.line, self.wake) if isinstance(self.port, Nodes) else self.line(self.port, who)
        )

    def line(self, port: int, who: str | None) -> Wire:
        return Wire(port, who)

    def wake(self, seconds: float) -> None:
        """Nobody waits without looking again."""

    def port_of(self, topic: str, partition: int) -> int:
        """Where the leader of a partition is reached."""
        return self.port.port_of(topic, partition) if isinstance(self.port, Nodes) else self.port

    def id_of(self, topic: str) -> UUID:
        """The id of a topic, as far as it was learned; another one of a topic that is not there."""
        return self.topic_ids.get(topic, NO_SUCH_ID)

    def named(self, topic: str) -> dict[str, Any]:
        """The fields that name a topic, whichever of them a version has."""
        return {"name": topic, "topic_id": self.id_of(topic)}

    def _entry(self, item: dict[str, Any], by: str) -> Any:
        """The name of an entry of a list; some have an id instead."""
        return item[by] if item[by] or "topic_id" not in item else self.name_of(item["topic_id"])

    def name_of(self, topic_id: UUID | None) -> str | None:
        """The name of a topic in a message that has its id alone, if it is known."""
        return None

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    # Sending

    def call(self, who: str | None, key: ApiKey, version: int, /, _timeout_s: float = 10.0, **fields: Any) -> Any:
        """Send, and wait for the answer: a message, `CLOSED` or `SILENT`. Structs in the fields are dicts."""
        wire = self.wire(who)
        answer = wire.ask(key, version, _timeout_s, **fields)
        return self._arrived(self._label(who, key, version), wire, key, version, answer)

    def ask(self, key: ApiKey, version: int, /, _who: str | None = "maker", **fields: Any) -> Any:
        """The same without a note, of any client."""
        return self.wire(_who).ask(key, version, **fields)

    def start(self, who: str | None, key: ApiKey, version: int, /, **fields: Any) -> None:
        """Send a request that may be parked; its answer shows at the next `settle` that finds it."""
        wire = self.wire(who)
        wire.send(key, version, request(key, fields))
        label = self._label(who, key, version)
        self._open.append((label, wire))
        self.note(f"{label} >", None)

    def do(self, who: str | None, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """`start`, then `settle`; the answer to this request if it has come."""
        self.start(who, key, version, **fields)
        _, wire = self._open[-1]
        return self.settle().get(wire)

    def settle(self, wait_ms: int = 0) -> dict[Wire, Any]:
        """Wait until the coordinator is done with what was sent; note the answers that came."""
        time.sleep(wait_ms / 1000)
        arrived: dict[Wire, Any] = {}
        self.settled.append(set())
        self.barrier()
        if self._open:
            time.sleep(0.005)  # a join phase without a delay ends by a timer
            self.barrier()
        last = time.monotonic()
        while not self._done(time.monotonic() - last):
            for label, wire in list(self._open):
                sent = wire.sent
                assert sent is not None
                answer = wire.answer(0)
                if answer is SILENT:
                    continue
                self._open.remove((label, wire))
                arrived[wire] = (label, sent, answer)
                self.settled[-1].add(label)
                last = time.monotonic()
            time.sleep(0.001)
        answers = {}
        for wire, (label, sent, answer) in sorted(arrived.items(), key=lambda item: item[1][1].correlation_id):
            answers[wire] = self._arrived(label, wire, sent.key, sent.version, answer)
        return answers

    def _done(self, quiet_s: float) -> bool:
        """Nothing is open, or it has been quiet and the other broker has answered the same requests so far."""
        if not self._open:
            return True
        step = len(self.settled)
        other = self.peer.settled if self.peer else self.settled
        agreed = len(other) >= step and other[step - 1] == self.settled[step - 1]
        return quiet_s >= (self.quiet_s if agreed else PATIENCE_S)

    def barrier(self) -> Any:
        """A read that the coordinator answers once every write before it, of this trace's group, is in the log."""
        return self.ask(ApiKey.OFFSET_FETCH, 7, BARRIER, group_id=self.name, topics=[], require_stable=True)

    def raw(self, label: str, data: bytes, timeout_s: float = 0.4) -> None:
        """Send bytes on a connection of their own; note the frame that came, or whether it was closed."""
        wire = self.connect(None)
        wire.raw(data)
        frame = wire.frame(timeout_s)
        self.answers += 1
        self.note(label, (CLOSED if wire.closed else SILENT) if frame is None else frame.hex())
        wire.close()

    def _label(self, who: str | None, key: ApiKey, version: int) -> str:
        return f"{len(self.transcript)} {who} {key.name} v{version}"

    # Answers

    def _arrived(self, label: str, wire: Wire, key: ApiKey, version: int, answer: Any) -> Any:
        self.answers += 1
        if isinstance(answer, str):
            self.note(label, answer)
            return answer
        who = str(wire.client_id)
        if key in (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT) and answer.member_id:
            found = answer.member_id
            if not MADE_UP.fullmatch(found) and found != who and found not in self.member.values():
                self.issued.add(found)
        value = self.tidy(key, plain(answer))
        if key is ApiKey.JOIN_GROUP:
            if answer.member_id and answer.member_id != self.member.get(who):
                self.former[who] = self.member.get(who, "")
                self.member[who] = answer.member_id
            if answer.error_code == 0:
                self.generation[who] = answer.generation_id
        if key is ApiKey.SYNC_GROUP and answer.error_code == 0:
            try:
                self.parts[who] = assigned_partitions(answer.assignment)
            except MalformedFrame:
                self.parts[who] = []  # other traces give nonsense
        if key is ApiKey.CONSUMER_GROUP_HEARTBEAT:
            self._learn_share(who, answer)
        self.note(label, value)
        return answer

    def _learn_share(self, who: str, answer: Any) -> None:
        """Keep what a member of a consumer group keeps of an answer; one that was fenced begins anew."""
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.generation[who], self.shares[who] = 0, ({}, {})
        if answer.error_code:
            return
        if answer.member_id in self.member:
            who = answer.member_id
        else:
            self.member[who] = answer.member_id
        self.generation[who] = max(answer.member_epoch, 0)
        if answer.assignment is not None:
            share = {topic.topic_id: sorted(topic.partitions) for topic in answer.assignment.topic_partitions}
            self.shares[who] = self.shares.get(who, ({}, {}))[1], share

    def _tidy_share(self, key: ApiKey, item: dict[str, Any]) -> tuple[Any, ...]:
        """Partitions of a topic, with their epochs if there are any."""
        epochs = item.get("assignment_epochs")
        rows = item["partitions"] if epochs is None else zip(item["partitions"], epochs, strict=True)
        return self.tidy(key, item["topic_id"], "topic_id"), item.get("topic_name"), sorted(rows)

    def tidy(self, key: ApiKey, value: Any, field: str = "") -> Any:
        """Replace what a broker makes up, and bring lists without an order into one."""
        match value:
            case dict():
                if value.get("error_code") and "error_message" in value:
                    value = value | {"error_message": "<text>"}  # worded differently, or not at all
                return {name: self.tidy(key, item, name) for name, item in value.items()}
            case tuple():
                return tuple(self.tidy(key, item, field) for item in value)
            case list() if field in SHARES:
                return sorted((self._tidy_share(key, item) for item in value), key=str)
            case list():
                if field == "groups" and key is ApiKey.LIST_GROUPS:
                    value = [item for item in value if item["group_id"].startswith(self.name)]
                if field == "topics" and key in (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
                    value = [item for item in value if (item["name"] or "").startswith((self.name, "__consumer"))
                             or item["error_code"]]  # fmt: skip
                if field == "topics" and key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
                    denied = iter(
                        sorted((item for item in value if item["error_code"] == DENIED), key=itemgetter("name"))
                    )
                    value = [next(denied) if item["error_code"] == DENIED else item for item in value]
                if field == "topics" and key is ApiKey.DESCRIBE_LOG_DIRS:
                    value = [item for item in value if item["name"].startswith(self.name)]
                if field == "replica_election_results":  # where all were asked for, other traces' topics are named too
                    value = [item for item in value if item["partition_result"] or item["topic"].startswith(self.name)]
                if field == "transaction_states" and key is ApiKey.LIST_TRANSACTIONS:
                    value = [item for item in value if item["transactional_id"].startswith(self.name)]
                if field == "subscribed_topic_names" and key is ApiKey.CONSUMER_GROUP_DESCRIBE:
                    value = sorted(value)
                if field == "config_resources":
                    value = [item for item in value if not self._is_of_another_node(item)]
                if field == "unknown_state_filters" or (field == "partitions" and key is ApiKey.DESCRIBE_TRANSACTIONS):
                    value = sorted(value)
                if field == "configs" and value:
                    return {item["name"]: self.tidy(key, item | {"documentation": None}) for item in value}
                by = UNORDERED.get((key, field))
                if by:
                    self._unite([item[by] for item in value])
                    value = sorted(value, key=lambda item: (self._place(self._entry(item, by)),
                                                            str(item | {by: "", "topic_id": None})))  # fmt: skip
                found = [self.tidy(key, item, field) for item in value]
                return self._once(found) if field == "brokers" else found
            case _ if field in ("log_dir", "total_bytes", "usable_bytes"):
                return f"<{field}>"
            case str() if value in self.issued:
                return self._name("issued", value)
            case str() if field != "cluster_id":
                return MADE_UP.sub(lambda found: self._name(found[1], found[0]), value)
            case bytes() if key is ApiKey.FETCH and field == "records":
                return whole_batches(value)
            case _ if field == "cluster_id" and value is not None:
                return "<cluster id>"
            case _ if field == "transaction_start_time_ms" and value > 0:
                return "some time"
            case _ if field in ("error_code", "partition_error_code"):
                return ErrorCode(value).name if value in ErrorCode._value2member_map_ else value
            case _ if field == "producer_id" and value >= 0:
                return self._name("producer", value)
            case _ if field == "metadata_hash" and value:
                return self._name("hash", value)
            case _ if field == "session_id" and value:
                return self._name("session", value)
            case _ if field == "port" and value in self._ports:
                return "<port>"
            case int() if field in NODES and value in self.node_ids:
                return FIRST
            case _ if field == "topic_id" and value != ZERO_UUID:
                return "<topic id>"
        return value

    def _is_of_another_node(self, item: dict[str, Any]) -> bool:
        """Whether a resource belongs to one of several nodes that is not the first."""
        others = {str(node_id) for node_id in self.node_ids[1:]}
        return item.get("resource_type") in OF_BROKERS and item["resource_name"] in others

    def _once(self, brokers: list[Any]) -> list[Any]:
        """All of several nodes as one."""
        return brokers[:1] if brokers == brokers[:1] * len(self.node_ids) else brokers

    def _unite(self, values: list[Any]) -> None:
        """Give one name to ids that begin alike and are all new in one list: their order there says nothing."""
        new: dict[str, set[str]] = {}
        for value in values:
            found = MADE_UP.fullmatch(value) if isinstance(value, str) else None
            if found and (found[1], found[0]) not in self._names:
                new.setdefault(found[1], set()).add(found[0])
        for prefix, ids in new.items():
            if len(ids) > 1:
                self._names.update(dict.fromkeys(((prefix, each) for each in ids), f"<{prefix} ?>"))

    def _place(self, value: Any) -> Any:
        """Sort key of an entry: ids that were seen before by their name, the others by their prefix."""
        if value in self.issued:
            return self._names.get(("issued", value), "<issued ~")
        if isinstance(value, str | None):
            found = MADE_UP.fullmatch(value or "")
            return self._names.get((found[1], found[0]), f"<{found[1]} ~") if found else value or ""
        return value

    def _name(self, prefix: str, value: Any) -> str:
        known = self._names.get((prefix, value))
        if known is None:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            known = self._names[prefix, value] = f"<{prefix} {self._counts[prefix]}>"
        return known


def whole_batches(records: bytes) -> bytes:
    """Without the part of a batch that may stand at the end: Kafka cuts where the limit is, we do not."""
    position = 0
    while position + 12 <= len(records):
        end = position + 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        if end > len(records):
            break
        position = end
    return records[:position]


Script = Callable[[Trace], None]
