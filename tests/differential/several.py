"""A client of several nodes, who sends each request where a client of Kafka would: to leaders, coordinators, or any.

A request about partitions of several leaders is sent in parts, and one about groups of several coordinators. Apache
Kafka is one broker here and gets the very same parts, over as many connections: budgets of bytes, and sessions of
fetches, are each node's own. What is compared is put together of the answers to all parts.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self
from uuid import UUID

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import skip_tags, split_request
from tests.differential.wire import CLOSED, SILENT, Sent, Wire

K = ApiKey
GROUP, TRANSACTION = 0, 1
KNOWN_AFTER_S = 0.2
"""Until then all nodes know what was changed at one of them."""

BEHIND_S = 2.0
"""So long Ottla may take to have what Kafka has."""

OF_PARTITIONS = {
    K.PRODUCE: ("topic_data", "partition_data", "index"),
    K.FETCH: ("topics", "partitions", "partition"),
    K.LIST_OFFSETS: ("topics", "partitions", "partition_index"),
    K.DELETE_RECORDS: ("topics", "partitions", "partition_index"),
    K.OFFSET_FOR_LEADER_EPOCH: ("topics", "partitions", "partition"),
    K.DESCRIBE_PRODUCERS: ("topics", "partition_indexes", ""),
}
"""Requests that go to leaders: the fields of topics, of their partitions, and of their numbers."""
OF_MANY = {
    K.DESCRIBE_GROUPS: (GROUP, "groups", ""),
    K.DELETE_GROUPS: (GROUP, "groups_names", ""),
    K.CONSUMER_GROUP_DESCRIBE: (GROUP, "group_ids", ""),
    K.OFFSET_FETCH: (GROUP, "groups", "group_id"),
    K.DESCRIBE_TRANSACTIONS: (TRANSACTION, "transactional_ids", ""),
    K.ADD_PARTITIONS_TO_TXN: (TRANSACTION, "transactions", "transactional_id"),
}
"""Requests to coordinators that may name several groups or transactions: the field, and that of an entry's id."""
OF_ONE = {
    K.JOIN_GROUP: (GROUP, "group_id"),
    K.SYNC_GROUP: (GROUP, "group_id"),
    K.HEARTBEAT: (GROUP, "group_id"),
    K.LEAVE_GROUP: (GROUP, "group_id"),
    K.OFFSET_COMMIT: (GROUP, "group_id"),
    K.OFFSET_FETCH: (GROUP, "group_id"),
    K.OFFSET_DELETE: (GROUP, "group_id"),
    K.TXN_OFFSET_COMMIT: (GROUP, "group_id"),
    K.CONSUMER_GROUP_HEARTBEAT: (GROUP, "group_id"),
    K.INIT_PRODUCER_ID: (TRANSACTION, "transactional_id"),
    K.ADD_PARTITIONS_TO_TXN: (TRANSACTION, "v3_and_below_transactional_id"),
    K.ADD_OFFSETS_TO_TXN: (TRANSACTION, "transactional_id"),
    K.END_TXN: (TRANSACTION, "transactional_id"),
}
"""Those that name one."""
OF_ALL = {K.LIST_GROUPS, K.LIST_TRANSACTIONS, K.DESCRIBE_LOG_DIRS}
"""Requests that every node answers for itself."""
OF_BROKERS = (4, 8)
"""Kinds of resources that belong to one broker: the first is named."""
CHANGES = {
    K.CREATE_TOPICS,
    K.DELETE_TOPICS,
    K.CREATE_PARTITIONS,
    K.ALTER_CONFIGS,
    K.INCREMENTAL_ALTER_CONFIGS,
    K.CREATE_ACLS,
    K.DELETE_ACLS,
    K.ALTER_CLIENT_QUOTAS,
    K.ALTER_USER_SCRAM_CREDENTIALS,
}
"""Requests that change what all nodes know."""

Part = tuple[int, Any]
"""A node, counted from 0, and what it is sent."""


class Ways:
    """Who leads which partition and who coordinates what, as the nodes of Ottla say it themselves."""

    def __init__(self, port: int) -> None:
        self._wire = Wire(port, "ways")
        self._lock = threading.Lock()
        self._leaders: dict[str, list[int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition; None if nobody is known to."""
        with self._lock:
            if not 0 <= partition < len(self._leaders.get(topic, ())):
                asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
                (told,) = self._wire.ask(K.METADATA, 12, **asked).topics
                rows = sorted(told.partitions, key=lambda row: int(row.partition_index))
                self._leaders[topic] = [row.leader_id - 1 for row in rows]
            leaders = self._leaders[topic]
            return leaders[partition] if 0 <= partition < len(leaders) and leaders[partition] >= 0 else None

    def coordinator(self, kind: int, key: str | None) -> int | None:
        """The node that coordinates a group or a transactional id; None if there is none."""
        if key is None:
            return None
        with self._lock:
            if (kind, key) not in self._coordinators:
                asked = {"key_type": kind, "coordinator_keys": [key]}
                (told,) = self._wire.ask(K.FIND_COORDINATOR, 4, **asked).coordinators
                if told.error_code:
                    return None
                self._coordinators[kind, key] = told.node_id - 1
            return self._coordinators[kind, key]

    def forget(self) -> None:
        """Topics come and go."""
        with self._lock:
            self._leaders.clear()


class Nodes(int):
    """The port of the first of several nodes, and what is needed to reach the others.

    Attributes:
        ports: of each node; of Apache Kafka the same one again and again.
        sessions: of fetches: by the id that the client is told, the id at each node and the epoch in which it began.
    """

    ports: Sequence[int]
    ways: Ways
    sessions: dict[int, dict[int, tuple[int, int]]]

    def __new__(cls, ports: Sequence[int], ways: Ways) -> Self:
        made = super().__new__(cls, ports[0])
        made.ports, made.ways, made.sessions, made._names = ports, ways, {}, {}
        return made

    @property
    def are_several(self) -> bool:
        return len({*self.ports}) > 1

    def port_of(self, topic: str, partition: int) -> int:
        """Where the leader of a partition is reached."""
        return self.ports[self.leader(topic, partition) or 0]

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition; None if nobody is known to. Kafka may be ahead: then Ottla is waited for."""
        deadline = 0.0
        while (node := self.ways.leader(topic, partition)) is None and not self.are_several:
            now = time.monotonic()
            deadline = deadline or (now + BEHIND_S if self._has(topic, partition) else now)
            if now >= deadline:
                break
            time.sleep(0.02)
        return node

    def _has(self, topic: str, partition: int) -> bool:
        rows = self._told({"name": topic}).partitions
        return any(row.partition_index == partition and row.leader_id >= 0 for row in rows)

    def _told(self, topic: dict[str, Any]) -> Any:
        wire = Wire(self.ports[0], "names")
        (told,) = wire.ask(K.METADATA, 12, topics=[topic], allow_auto_topic_creation=False).topics
        wire.close()
        return told

    def name_of(self, topic_id: UUID) -> str:
        """The name of a topic by its id, which each side gives it; "" if there is none."""
        if topic_id not in self._names and topic_id.int:
            told = self._told({"name": None, "topic_id": topic_id})
            if not told.name:
                return ""
            self._names[topic_id] = told.name
        return self._names.get(topic_id, "")

    _names: dict[UUID, str]


class Routed(Wire):
    """A client's connections to all nodes, which are opened when they are needed. It is used like one connection.

    Args:
        dial: opens one.
        wake: has whoever waits for an answer look again after so many seconds.
    """

    def __init__(
        self,
        nodes: Nodes,
        client_id: str | None,
        dial: Callable[[int, str | None], Wire],
        wake: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.client_id = client_id
        self.sent: Sent | None = None
        self._nodes = nodes
        self._dial = dial
        self._wake = wake
        self._wires: dict[int, Wire] = {}
        self._any = zlib.crc32(str(client_id).encode()) % len(nodes.ports)
        self._waiting: dict[int, Any] = {}  # by node: its answer, once it was taken
        self._fetched: dict[int, tuple[int, int]] | None = None  # of a fetch that begins a session, or goes on with one
        self._known_at = 0.0
        self._raw: Wire | None = None

    def _wire(self, node: int) -> Wire:
        if node not in self._wires:
            self._wires[node] = self._dial(self._nodes.ports[node], self.client_id)
        return self._wires[node]

    @property
    def closed(self) -> bool:
        return any(wire.closed for wire in self._wires.values())

    @property
    def frames(self) -> list[bytes]:
        return self._raw.frames if self._raw is not None else []

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    # Frames

    def raw(self, data: bytes) -> None:
        """Send bytes to the node that they are for, as far as that can be read in them; of several, the first part."""
        node, data = self._part_of_frame(data)
        self._raw = self._wire(node)
        self._raw.raw(data)

    def _part_of_frame(self, data: bytes) -> tuple[int, bytes]:
        try:
            key, version, _, _, at = split_request(data, 4)
            entry = api(ApiKey(key))
            at = skip_tags(data, at) if entry.request_header_version(version) == 2 else at
            layout = entry.request.layout(version)
            (node, part), *others = self._parts(ApiKey(key), version, layout.decode(data, at))
        except (ProtocolError, ValueError, KeyError, IndexError, struct.error):
            return self._any, data
        if others:
            data = data[4:at] + layout.encode(part)
            data = len(data).to_bytes(4, "big") + data
        return node, data

    def frame(self, timeout_s: float) -> bytes | None:
        assert self._raw is not None
        return self._raw.frame(timeout_s)

    # Requests

    def send(self, key: ApiKey, version: int, message: Any) -> None:
        self.sent = Sent(key, version, next(self._correlation))
        if key in CHANGES:
            self._nodes.ways.forget()
        self._waiting, self._known_at, self._fetched, self._raw = {}, 0.0, None, None
        for node, part in self._parts(key, version, message):
            self._waiting[node] = None
            self._wire(node).send(key, version, part)

    @property
    def has_answer(self) -> bool:
        if self._raw is not None:
            return self._raw.has_answer
        if not all(answer is not None or self._wires[node].has_answer for node, answer in self._waiting.items()):
            return False
        if self.sent is None or self.sent.key not in CHANGES or not self._nodes.are_several:
            return True
        now = time.monotonic()
        if not self._known_at:
            self._known_at = now + KNOWN_AFTER_S
            self._wake(KNOWN_AFTER_S + 0.005)
        return now >= self._known_at

    def answer(self, timeout_s: float) -> Any:
        assert self.sent is not None
        deadline = time.monotonic() + timeout_s
        for node, answer in self._waiting.items():
            if answer is None:
                found = self._wires[node].answer(max(deadline - time.monotonic(), 0))
                if isinstance(found, str):
                    return found
                self._waiting[node] = found
        while not self.has_answer:
            if timeout_s == 0:
                return SILENT
            time.sleep(KNOWN_AFTER_S / 10)
        if self.sent.key in CHANGES:
            self._nodes.ways.forget()
        if self._fetched is not None:
            self._keep_session(self.sent)
        key, self.sent = self.sent.key, None
        return merged(key, [answer for answer in self._waiting.values() if answer is not CLOSED])

    def _parts(self, key: ApiKey, version: int, message: Any) -> list[Part]:
        """What each node is sent."""
        ways, anybody = self._nodes.ways, [(self._any, message)]
        if key is K.FETCH and version >= 7 and (message.session_id or message.session_epoch >= 0):
            return self._parts_of_session(version, message)
        if key in OF_PARTITIONS:
            return self._by_leader(key, version, message) or anybody
        if key is K.WRITE_TXN_MARKERS:
            return self._of_markers(message) or anybody
        if key in OF_MANY and (entries := getattr(message, OF_MANY[key][1])):
            kind, field, name = OF_MANY[key]
            found: dict[int, list[Any]] = {}
            for entry in entries:
                node = ways.coordinator(kind, getattr(entry, name) if name else entry)
                found.setdefault(self._any if node is None else node, []).append(entry)
            return [(node, dataclasses.replace(message, **{field: rows})) for node, rows in found.items()]
        if key in OF_ONE:
            kind, field = OF_ONE[key]
            node = ways.coordinator(kind, getattr(message, field))
            return anybody if node is None else [(node, message)]
        if key in OF_ALL:
            first = {port: node for node, port in reversed([*enumerate(self._nodes.ports)])}
            return [(node, message) for node in sorted(first.values())]
        if key in (K.DESCRIBE_CONFIGS, K.ALTER_CONFIGS, K.INCREMENTAL_ALTER_CONFIGS) and any(
            row.resource_type in OF_BROKERS for row in message.resources
        ):
            return [(0, message)]
        return anybody

    def _leader_of(self, topic: Any, version: int, key: ApiKey, index: int) -> int:
        is_by_id = key in (K.PRODUCE, K.FETCH) and version >= 13
        name = self._nodes.name_of(topic.topic_id) if is_by_id else topic.topic if key in _BY_TOPIC else topic.name
        node = self._nodes.leader(name, index) if name else None
        return self._any if node is None else node

    def _by_leader(self, key: ApiKey, version: int, message: Any) -> list[Part]:
        topics, within, _ = OF_PARTITIONS[key]
        found = self._split(key, version, getattr(message, topics), within)
        return [(node, dataclasses.replace(message, **{topics: rows})) for node, rows in found.items()]

    def _split(self, key: ApiKey, version: int, topics: Iterable[Any], within: str) -> dict[int, list[Any]]:
        """Topics with those of their partitions that each node leads."""
        number, found = OF_PARTITIONS[key][2], dict[int, list[Any]]()
        for topic in topics:
            of_node: dict[int, list[Any]] = {}
            for row in getattr(topic, within) or ():
                index = row if isinstance(row, int) else getattr(row, number)
                of_node.setdefault(self._leader_of(topic, version, key, index), []).append(row)
            for node, rows in (of_node or {self._any: []}).items():
                found.setdefault(node, []).append(dataclasses.replace(topic, **{within: rows}))
        return found

    def _of_markers(self, message: Any) -> list[Part]:
        found: dict[int, list[Any]] = {}
        for marker in message.markers:
            parts = self._split(K.DESCRIBE_PRODUCERS, 0, marker.topics, "partition_indexes")
            for node, topics in (parts or {self._any: []}).items():
                found.setdefault(node, []).append(dataclasses.replace(marker, topics=topics))
        return [(node, dataclasses.replace(message, markers=rows)) for node, rows in found.items()]

    # Sessions of fetches: a client has one at each node

    def _parts_of_session(self, version: int, message: Any) -> list[Part]:
        """Parts in the sessions of their nodes; a node that has none yet is asked to begin one."""
        session, epoch = message.session_id, message.session_epoch
        known = self._nodes.sessions.get(session, {})
        wanted = self._split(K.FETCH, version, message.topics, "partitions")
        forgotten = self._split(K.FETCH, version, message.forgotten_topics_data, "partitions")
        nodes = [*dict.fromkeys((*(known if epoch else ()), *wanted, *(forgotten if known else ())))] or [self._any]
        self._fetched, parts = {}, []
        for node in nodes:
            there, began = known.get(node, (0 if known else session, epoch if known else 0))
            began = began if epoch > 0 else 0
            place = {"session_id": there, "session_epoch": epoch - began if epoch > 0 else epoch}
            rows = {"topics": wanted.get(node, []), "forgotten_topics_data": forgotten.get(node, [])}
            parts.append((node, dataclasses.replace(message, **place, **rows)))
            self._fetched[node] = there, began
        return parts

    def _keep_session(self, sent: Sent) -> None:
        """Take the sessions that nodes have begun for one, with the id of the first."""
        assert self._fetched is not None
        told = {node: answer.session_id for node, answer in self._waiting.items() if not answer.error_code}
        if not any(told.values()):
            return
        before = next((one for one, at in self._nodes.sessions.items() if self._goes_on(at)), 0)
        if any(told[node] not in (0, there) for node, (there, _) in self._fetched.items() if there and node in told):
            before = 0  # it was begun anew
        name = before or next(filter(None, told.values()))
        kept = self._nodes.sessions.setdefault(name, {})
        kept |= {node: (there, self._fetched[node][1]) for node, there in told.items() if there}
        for answer in self._waiting.values():
            answer.session_id = name if not answer.error_code else 0

    def _goes_on(self, at: dict[int, tuple[int, int]]) -> bool:
        """Whether a fetch was part of a session of these."""
        assert self._fetched is not None
        return any(there and at.get(node, (0, 0))[0] == there for node, (there, _) in self._fetched.items())


_BY_TOPIC = (K.FETCH, K.OFFSET_FOR_LEADER_EPOCH)


def merged(key: ApiKey, answers: Sequence[Any]) -> Any:
    """The answers of several nodes as one."""
    if key is K.DESCRIBE_LOG_DIRS:
        for row in (row for answer in answers for row in answer.results):
            row.log_dir, row.total_bytes, row.usable_bytes = "", 0, 0
    return answers[0] if len(answers) == 1 else _joined(answers)


def _joined(values: Sequence[Any]) -> Any:
    """Structs that are alike but for their lists and errors: with what all lists have, and the first error."""
    first = values[0]
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(first):
        found = [getattr(value, field.name) for value in values]
        if isinstance(found[0], list):
            changes[field.name] = list(_united(itertools.chain(*found)))
        elif field.name == "throttle_time_ms":
            changes[field.name] = max(found)
        elif field.name == "error_code":
            changes[field.name] = next(filter(None, found), 0)
        elif not changes.get("error_code"):  # with an error there is no session
            assert all(one == found[0] for one in found), f"{field.name}: nodes say {found}"
    return dataclasses.replace(first, **changes)


def _united(rows: Iterable[Any]) -> Iterator[Any]:
    """Rows of several lists; those of one topic are put together, and what is said by all stands once."""
    alike: dict[Any, list[Any]] = {}
    for row in rows:
        if not dataclasses.is_dataclass(row):
            alike.setdefault(row, [])
            continue
        parts = [(field.name, getattr(row, field.name)) for field in dataclasses.fields(row)]
        has_lists = any(isinstance(value, list) for _, value in parts)
        plain = repr([part for part in parts if not isinstance(part[1], list)])
        alike.setdefault(plain if has_lists else (plain, len(alike)), []).append(row)
    for one, found in alike.items():
        yield _joined(found) if len(found) > 1 else found[0] if found else one
