"""The same world around a whole broker: frames, connections, dispatcher, handlers, driver and memory engine are real.

Only sockets, time and chance are not: a connection's transport is the network model, the clock is the simulation's,
and when and whether an append of the memory engine succeeds is decided here.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import NAMESPACE_OID, UUID, uuid5

from ottla.broker.clock import TimerHandle
from ottla.broker.cluster.placement import Alone
from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Topic
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.dispatch import Dispatcher, Route
from ottla.broker.engine import EngineError, LogConfig, StorageFull, Unavailable
from ottla.broker.handlers.services import Cluster, Services
from ottla.broker.net.connection import Connection
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.runtime.prepared_commits import PreparedCommits
from ottla.broker.settings import Settings
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.apis import api
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition
from tests.protocol.header_messages import RequestHeader
from tests.shell.host import Transport, UnboundedHost
from tests.sim.calls import Call
from tests.sim.kernel import Violation, run_now
from tests.sim.network import Link
from tests.sim.node import Node
from tests.sim.plan import Plan
from tests.sim.watched import WatchedCoordinator
from tests.sim.world import World

_LENGTH = struct.Struct(">i")
MAX_FRAME = 1 << 20
MAX_BATCH = 4_000
"""Small enough that a group of several members with long names can be too large to log."""

ROUTES: dict[int, Route] = {}
"""They know no services, and take long to build: all dispatchers share them."""


class DrivenWorld(World):
    """See the module. There is one node, and it owns every partition whenever it is up."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.logs = []

    def make_nodes(self) -> list[Node]:
        return [DrivenNode(self, "n0")]

    def logs_are_idle(self) -> bool:
        return not any(node.appends_wait for node in self.nodes if isinstance(node, DrivenNode))

    def lose(self, partition: int) -> None:
        """The engine has what was acknowledged, and nothing else."""

    def give(self, partition: int, node: Node) -> None:
        self.owners[partition] = node


class NamedTopics:
    """The world's topics as the handlers of the group APIs look them up."""

    by_id: ClassVar[dict[UUID, Any]] = {}
    revision = 0

    def __init__(self, world: World) -> None:
        self.partition_count = world.partition_count
        self.topics = self

    def get(self, name: str) -> Any:
        """A topic by its name."""
        if name not in self:
            return None
        count = self.partition_count(name)
        topic_id = uuid5(NAMESPACE_OID, name)
        return SimpleNamespace(name=name, topic_id=topic_id, partitions=range(count))

    def __contains__(self, name: str) -> bool:
        return bool(self.partition_count(name))


class DrivenNode(UnboundedHost, Node):
    """One broker without sockets. It is its own clock, log of troubles and listener."""

    max_request_bytes = MAX_FRAME

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._engine = MemoryEngine(new_uuid=lambda: UUID(int=1), call_soon=self._soon, fault=self._fault)
        self._host: Host
        self._dispatcher: Dispatcher
        self._life = 0

    # Life

    def start(self) -> None:
        world = self.world
        run_now(self._engine.open())
        config = TopicConfig.of({"cleanup.policy": "compact"}, Settings())
        topic = Topic(OFFSETS_TOPIC, UUID(int=2), is_internal=True, overrides={}, config=config)
        for partition in range(world.plan.partitions):
            topic.add_partition(run_now(self._engine.open_log(OFFSETS_TOPIC, topic.topic_id, partition, LogConfig())))
        self.offsets_topic = topic
        self.coordinator = coordinator = WatchedCoordinator(world, self.name)
        coordinator.start()
        self._host = Host(
            self,
            FetchPurgatory(),
            partition=lambda tp: topic.partition(tp.partition),
            max_batch_bytes=MAX_BATCH,
            report=self,
        )
        self._host.add(OFFSETS_TOPIC, coordinator)
        self._topics = NamedTopics(world)
        self._prepared = PreparedCommits(coordinator, self._host, self._topics, self)  # type: ignore[arg-type]
        services = Services(
            settings=Settings(),
            clock=self,
            cluster=Cluster(Alone(1), "cluster", self._topics),  # type: ignore[arg-type]
            host=self._host,
            groups=coordinator,
            members=MemberConnections(coordinator, self._host.now),
            topics=self._topics,  # type: ignore[arg-type]
            transactions=TransactionCoordinator(Settings(), lambda: None),
            transaction_needs=SimpleNamespace(),  # type: ignore[arg-type]
            prepared=self._prepared,
        )
        self._dispatcher = Dispatcher(services, self)
        self._dispatcher.routes = ROUTES
        self.receive: Callable[..., bytes | None] = self._dispatcher.receive
        run_now(self._host.load(OFFSETS_TOPIC))

    def crash(self) -> None:
        """Go down: killed, or stopped in an orderly way, in which case everything that waits is answered first."""
        assert self.coordinator is not None
        orderly = self._rng.random() < 0.4
        self.world.note(f"{self.name} is {'stopped' if orderly else 'killed'}")
        if orderly:
            self._host.stop()
            if self.world.watch.answers.waiting.get(self.coordinator.life):
                raise Violation("everyone is answered", "the broker stopped and somebody still waits")
            run_now(self._engine.close())
        else:
            self._host.silence()
            self._engine.abandon()
        self._life += 1
        super().crash()

    def topic_deleted(self, topic: str) -> None:
        if self.coordinator is not None:
            self._topics.revision += 1
            self.coordinator.topic_deleted(topic, *self._host.now())
            self._host.settle()

    # The engine's chances

    @property
    def appends_wait(self) -> bool:
        return bool(self._engine._queue)

    def _soon(self, call: Callable[[], None]) -> None:
        delay = self._rng.choice((0, 1, 2, 5))
        if self.world.fault("slow appends") and self._rng.random() < 0.3:
            delay = self._rng.choice((50, 500, 3_000, 12_000))
        self.world.after(delay, call)

    def _fault(self, tp: TopicPartition, base_offset: int) -> EngineError | None:
        if self.world.fault("failed appends") and self._rng.random() < 0.15:
            return self._rng.choice((Unavailable("failed"), StorageFull("full")))
        return None

    # The clock

    @property
    def real(self) -> DrivenNode:
        return self

    def monotonic_ms(self) -> int:
        return self.world.now_ms

    def wall_ms(self) -> int:
        return self.world.wall_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self.world.timer(when_ms + self._lateness(), callback)

    # What is logged instead of raised

    def error(self, event: str, **fields: Any) -> None:
        self.world.trouble = sys.exc_info()[1] or Violation("no trouble", f"{event} {fields}")

    # Connections

    def accept(self, link: Link) -> DrivenEndpoint:  # type: ignore[override]
        self.links.append(link)
        return DrivenEndpoint(self, link)

    def rejected(self, connection: Connection, reason: str) -> None:
        raise Violation("connections stay", reason)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Of the loop, as connections use it."""
        life = self._life
        self.world.after(0, lambda: callback() if life == self._life else None)


class DrivenEndpoint(Transport):
    """A real connection, and a transport that carries whole frames to and from the network model."""

    def __init__(self, node: DrivenNode, link: Link) -> None:
        super().__init__("10.0.0.1")
        self._node = node
        self._link = link
        self._calls: deque[Call] = deque()
        self._written = b""
        self._rng = node.world.rng(f"endpoint {link.name}")
        self._connection = Connection(node, node)  # type: ignore[arg-type]
        self._connection.connection_made(self)  # type: ignore[arg-type]

    def arrive(self, call: Call) -> None:
        if not self._node.is_up:
            return
        self._calls.append(call)
        row = api(call.api)
        header_version = row.request_header_version(call.version)
        header = RequestHeader(
            request_api_key=call.api,
            request_api_version=call.version,
            correlation_id=call.number,
            client_id=self._link.name.partition("/")[0],
        )
        frame = RequestHeader.layout(header_version).encode(header) + row.request.layout(call.version).encode(
            call.request
        )
        data = _LENGTH.pack(len(frame)) + frame
        cut = self._rng.randint(0, len(data)) if self._rng.random() < 0.1 else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                self._connection.data_received(piece)

    def hang_up(self) -> None:
        self._connection.connection_lost(None)

    # Of the transport

    def write(self, data: bytes) -> None:
        self._written += data
        while len(self._written) >= 4:
            size = _LENGTH.unpack_from(self._written)[0]
            if len(self._written) < 4 + size:
                return
            frame, self._written = self._written[4 : 4 + size], self._written[4 + size :]
            self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        if not self._calls:
            raise Violation("answered once", f"{self._link.name} is sent an answer that it did not ask for")
        call = self._calls.popleft()
        correlation_id = _LENGTH.unpack_from(frame)[0]
        if correlation_id != call.number:
            raise Violation("answers in order", f"#{correlation_id} is answered before #{call.number}")
        row = api(call.api)
        start = 4 + row.response_header_version(call.version)
        self._link.deliver(call, row.response.layout(call.version).decode(frame, start))

    def close(self) -> None:
        raise Violation("connections stay", self._link.name)
