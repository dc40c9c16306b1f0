"""A node of a cluster in a test: a broker whose logs are in a database that the other nodes have, too."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ottla.broker import app
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.broker.engine import EngineError
from ottla.broker.logger import Silent
from ottla.broker.runtime.node import Node
from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.postgres.database import Session
from ottla.protocol.records import TopicPartition
from ottla.testing.broker import Broker
from ottla.testing.embedded import LOOPBACK
from ottla.testing.gate import Gate, GatedClock, GatedSession
from ottla.testing.loop_thread import LoopThread
from ottla.testing.simulated.database import SimDatabase
from ottla.workbench.bench import Workbench
from ottla.workbench.clock import VirtualClock
from ottla.workbench.rule import Rule
from ottla.workbench.time import OneBroker, Time

if TYPE_CHECKING:
    from ottla.observe.view import View
    from ottla.testing import fault
    from ottla.workbench.faults import Fault


class Common:
    """What the nodes of a cluster have in common.

    Attributes:
        nodes: all of them, by their ids.
        faults: those of all nodes, which one that starts has as well.
        database, clock, time: there once the cluster is started.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, ClusterNode] = {}
        self.faults: list[fault.Fault] = []
        self.thread = LoopThread()
        self.cluster_id = new_cluster_id(uuid4)
        self.node_password = secrets.token_hex()
        self.database: SimDatabase
        self.clock: VirtualClock
        self.time: Time


class ClusterNode(Broker):
    """A node of `ottla.testing.Cluster`, with the verbs of `ottla.testing.Broker` for what it does itself.

    Attributes:
        node_id: by which clients and nodes know it.
        is_paused: whether it stands still; see `ottla.testing.Cluster.pause`.
    """

    def __init__(self, common: Common, node_id: int, settings: Mapping[str, Any] | None, **options: Any) -> None:
        super().__init__({**(settings or {}), "node.id": node_id}, **options)
        self.node_id = node_id
        self._common = common
        self._thread = common.thread
        self._gate = Gate()
        self._member: Node
        self._timed: OneBroker
        self._held: Fault | None = None

    # life

    async def join(self) -> None:
        """Become a node among others: known to them, and leading nothing yet."""
        self._gate = Gate()
        self._clock = GatedClock(self._common.clock, self._gate)
        self._member = Node(self.node_id, self._common.cluster_id, self._connect, self._clock, self._log or Silent())
        await self._member.join()

    def _connect(self, role: str, connected: Callable[[Session | None], None]) -> None:
        session = self._common.database.connect(self.node_id, role)
        connected(None if session is None else GatedSession(session, self._gate))

    def _begin_loop(self) -> None:
        """All nodes run on that of the cluster."""

    def _end_loop(self) -> None:
        """The others go on."""

    def _new_workbench(self) -> Workbench:
        return Workbench(self.settings, self._log, new_time=self._new_time)

    def _new_time(self, broker: OneBroker) -> Time:
        self._timed = broker
        return self._common.time

    def _new_broker(self, **parts: Any) -> app.Broker:
        return super()._new_broker(
            clock=lambda loop: self._clock,
            engine=self._member.engine,
            placement=self._member.placement,
            node_password=self._common.node_password,
            **parts,
        )

    async def _serve(self, broker: app.Broker) -> None:
        await broker.start()
        for one in self._common.faults:
            if one.is_set:
                one.put(self._observatory)
        self._port = broker.port  # it keeps it when it is started again
        endpoints = {one.name: (LOOPBACK, one.port) for one in broker.endpoints}
        if broker.between_nodes is not None:
            endpoints[BETWEEN_NODES] = (LOOPBACK, broker.between_nodes.port)
        await self._member.announce(endpoints)

    async def _die(self, broker: app.Broker) -> None:
        self._member.die()
        await broker.abandon()

    # standing still

    @property
    def is_paused(self) -> bool:
        return self._gate.is_closed

    @property
    def is_live(self) -> bool:
        """Whether it runs, and does not stand still."""
        return self.is_running and not self.is_paused

    def close_gate(self) -> None:
        """Let nothing happen to it; on the loop."""
        if self.is_live:
            rule = Rule.of("*", hold="request", name=f"pause of node {self.node_id}", allow_unused=True)
            self._held = self.workbench.faults.add(rule)
            self._gate.close()

    def open_gate(self) -> None:
        """Let it go on, with what its clock says first; on the loop."""
        if self.is_paused:
            self._gate.open()
            self._member.ring()
        held, self._held = self._held, None
        if held is not None:
            held.remove()

    @property
    def views(self) -> list[View]:
        return [node.observatory.view for node in self._common.nodes.values() if node.is_running]

    # for the cluster, on the loop

    @property
    def member(self) -> Node:
        """The node among others."""
        return self._member

    @property
    def timed(self) -> OneBroker:
        """What goes by its clock, but for its beats."""
        return self._timed

    def heard(self) -> None:
        """A notification of the database."""
        self._gate.enter(self._member.nudge)

    async def give(self, tps: Iterable[TopicPartition], heir: int) -> None:
        """Hand partitions over, as far as this node leads them."""
        topics, placement = self.workbench.topics, self._member.placement
        rows = [placement.row_of(topics.topics[tp.topic].topic_id, tp.partition) for tp in tps]
        with suppress(EngineError):  # lost meanwhile: whoever leads them is asked next
            await self._member.hand_over([row.log_id for row in rows if row is not None], heir, "a test moved it")

    @property
    def has_loaded(self) -> bool:
        """Whether it serves all that it leads."""
        topics = self.workbench.topics
        return not any(
            partition.refusal and topics.leader(partition).node_id == self.node_id
            for partition in topics.all_partitions()
        )
