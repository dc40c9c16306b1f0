"""`Cluster`: several nodes in this process, which die, stand still and take over from each other as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.broker.storage.postgres import database as port
from ottla.protocol.records import TopicPartition
from ottla.testing.clock import Clock
from ottla.testing.cluster_node import ClusterNode, Common
from ottla.testing.fault import Fault
from ottla.testing.group import Group
from ottla.testing.simulated.database import Paces, SimDatabase
from ottla.testing.simulated.server import Transaction
from ottla.workbench.bench import Workbench
from ottla.workbench.clock import VirtualClock
from ottla.workbench.rule import Rule
from ottla.workbench.time import OneBroker, Time

if TYPE_CHECKING:
    from ottla.clients import ConsumerRecord, RecordMetadata

T = TypeVar("T")

PATIENCE_S = 30.0
LOOK_S = 0.002
TOLD_OF = (port.Claim, port.HandOver, port.CallHome, port.StoreCatalog, port.Describe)
"""Statements of which all nodes are notified."""
BEATEN_MS = 10_000
"""Nodes beat so long while time jumps: long enough to notice which of them stand still."""


class LoopKernel:
    """Time and chance of an event loop, for the simulated database."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def rng(self, name: str) -> Random:
        return Random(name)

    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        if delay_ms > 0:
            self._loop.call_later(delay_ms / 1000, call, *args)
        else:
            self._loop.call_soon(call, *args)


class Nodes:
    """The nodes of a cluster as far as they go by the clock; see `ottla.workbench.time.Timed`.

    Nodes beat on the way of a jump, so that those that stand still are noticed. After `BEATEN_MS` of it that is known,
    and the rest of the jump takes no time between nodes.
    """

    def __init__(self, nodes: Mapping[int, ClusterNode], clock: VirtualClock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._beaten_ms: int | None = None
        self._target_ms = 0

    def _live(self) -> list[ClusterNode]:
        return [node for node in self._nodes.values() if node.is_live]

    def _timed(self) -> Iterator[OneBroker]:
        return (node.timed for node in self._live())

    @property
    def due_ms(self) -> int | None:
        dues = [node.timed.due_ms for node in self._live()]
        if self._beaten_ms is not None:
            beats = [node.member.due_ms for node in self._live()]
            dues += [due_ms for due_ms in beats if due_ms is not None and due_ms <= self._beaten_ms]
            if (first_ms := min((due_ms for due_ms in dues if due_ms is not None), default=None)) is None or (
                first_ms > self._beaten_ms
            ):
                for node in self._live():
                    node.member.stand_still()
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    def ring(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for node in self._live():
            if (due_ms := node.member.due_ms) is not None and due_ms <= now_ms:
                node.member.ring()
            node.timed.ring()

    @property
    def is_at_rest(self) -> bool:
        return all(one.timed.is_at_rest and one.member.is_at_rest and one.has_loaded for one in self._live())

    def jumps(self, target_ms: int) -> None:
        self._beaten_ms = min(target_ms, self._clock.monotonic_ms() + BEATEN_MS)

    def jumped(self) -> None:
        self._beaten_ms = None
        for node in self._live():
            node.member.go_on()

    def put_off_sweeps(self, until_ms: int) -> None:
        for one in self._timed():
            one.put_off_sweeps(until_ms)

    async def rest(self) -> None:
        for one in list(self._timed()):
            await one.rest()

    @property
    def groups(self) -> Collection[str]:
        return {group_id: None for one in self._timed() for group_id in one.groups}

    @property
    def holds(self) -> Collection[str]:
        return {group_id: None for one in self._timed() for group_id in one.holds}

    def hold(self, group_id: str) -> None:
        for one in self._timed():
            one.hold(group_id)

    def let_go(self, group_id: str) -> None:
        for one in self._timed():
            if group_id in one.holds:
                one.let_go(group_id)


class Cluster:
    """Nodes that share a simulated database, all in one event loop in a daemon thread. Use with ``async with``.

    ```python
    async with Cluster(nodes=3, topics={"orders": 6}) as cluster:
        client(bootstrap_servers=cluster.bootstrap_servers)
        await cluster.kill(cluster.coordinator("billing"))
    ```

    Every partition has one leader, which others take over from when it dies, stands still for about four seconds, or is
    told to hand over. Nothing that was acknowledged is lost, and no group rebalances for it.

    Args:
        nodes: how many; their ids are 1, 2 and so on.
        settings, topics, options: of each node, as `ottla.testing.Broker` takes them. There is no ``data_dir``.

    Raises:
        ValueError: there is no such number of nodes.
    """

    def __init__(
        self, settings: Mapping[str, Any] | None = None, *, nodes: int = 3, topics: Any = None, **options: Any
    ) -> None:
        if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
            raise ValueError(f"nodes={nodes!r}: write a number from 1")
        self._common = Common()
        self._thread = self._common.thread
        self._faults = self._common.faults
        self._nodes = self._common.nodes
        for node_id in range(1, nodes + 1):
            self._nodes[node_id] = ClusterNode(self._common, node_id, settings, topics=topics, **options)

    # what there is

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes that run, for any client's option of that name."""
        return ",".join(node.bootstrap_servers for node in self._nodes.values() if node.is_running)

    @property
    def nodes(self) -> dict[int, ClusterNode]:
        """The nodes by their ids, whether they run or not."""
        return dict(self._nodes)

    def node(self, node_id: int) -> ClusterNode:
        """A node. Raises ValueError if there is none with the id."""
        if node_id not in self._nodes:
            raise ValueError(f"there is no node {node_id!r}; there are {', '.join(map(str, self._nodes))}")
        return self._nodes[node_id]

    def leader(self, tp: tuple[str, int]) -> int:
        """The node that leads a partition, such as ``("orders", 0)``; -1 while nobody does."""
        return self._thread.run(lambda: self._leader(TopicPartition(*tp)))

    def coordinator(self, group_id: str) -> int:
        """The node that coordinates a group, be there one of the id or not; -1 while nobody does."""
        return self._thread.run(lambda: self._leader(self._guide.workbench.coordinated_by(group_id)))

    def group(self, group_id: str) -> Group:
        """A group, as the node sees it that coordinates it whenever you look.

        Raises:
            RuntimeError: no node coordinates it at the moment; so does each look at it then, but for its waits.
        """

        def coordinating() -> ClusterNode:
            node = self._nodes.get(self._leader(self._guide.workbench.coordinated_by(group_id)))
            if node is None or not node.is_running:
                raise RuntimeError(f"no node coordinates group {group_id!r} at the moment")
            return node

        self._thread.run(coordinating)
        return Group(self, group_id, coordinating)

    @property
    def clock(self) -> Clock:
        """The time of all nodes, which a test can freeze and move ahead."""
        return Clock(self._thread, lambda: self._common.time)

    # what a test does

    def produce(self, *arguments: Any, **options: Any) -> list[RecordMetadata]:
        """Write records, and wait until they are acknowledged, as `ottla.testing.Broker.produce` does."""
        return self._guide.produce(*arguments, **options)

    def records(self, topic: str) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """All records of a topic that count, by partition, as `ottla.testing.Broker.records` gives them."""
        return self._guide.records(topic)

    def fault(self, api: str | Iterable[str], **rule: Any) -> Fault:
        """Let something go wrong, as `ottla.testing.Broker.fault` does, at all nodes, or at one: ``node=2``.

        What came of it at all of them counts together: with ``times=1`` it fires once. A node that is started later has
        it as well, before others hear of it.

        Raises:
            RuntimeError: no node runs.
            ottla.workbench.rule.BadRule: the rule cannot be; the message says what was meant.
            FaultNeverFired: when its ``with`` block, or the cluster's, ends and it never fired.
        """
        if not self.is_running:
            raise RuntimeError("no node of the cluster runs: start one first, so that the fault is in force somewhere")
        fault = Fault(self, Rule.of(api if isinstance(api, str) else list(api), **rule))
        self._faults.append(fault)
        return fault

    async def kill(self, node_id: int) -> None:
        """End a node as SIGKILL does: connections drop and nothing more is answered. Others begin to take over.

        Raises:
            ValueError, RuntimeError: there is no such node, or it does not run.
        """
        node = self._running(node_id)
        await asyncio.to_thread(node.crash)
        await self._thread.call_async(self._tell_ended(node))

    async def start(self, node_id: int) -> None:
        """Start a node that was killed, where it was. It leads again what is at home with it, in time.

        Raises:
            ValueError, RuntimeError: there is no such node, or it runs.
        """
        node = self.node(node_id)
        if node.is_running:
            raise RuntimeError(f"node {node_id} runs already")
        await self._thread.call_async(node.join())
        await asyncio.to_thread(node.start)

    def pause(self, node_id: int) -> None:
        """Let a node do nothing, as SIGSTOP does: its connections stay open and are silent, and others take over.

        Raises:
            ValueError, RuntimeError: there is no such node, or it does not run.
        """
        self._thread.run(self._running(node_id).close_gate)

    def resume(self, node_id: int) -> None:
        """Let a node go on that was paused. What others have taken over it says it does not lead.

        Raises:
            ValueError, RuntimeError: there is no such node, or it does not run.
        """
        self._thread.run(self._running(node_id).open_gate)

    async def move(self, what: tuple[str, int] | str, node_id: int) -> None:
        """Let a node lead a partition from now on, such as ``("orders", 0)``, or coordinate a group, given by its id.

        All groups of the same partition of ``__consumer_offsets`` move along. Returns once the node serves it.

        Raises:
            ValueError, RuntimeError: there is no such partition or node, or the node does not run.
            TimeoutError: the node has not come to serve it in 30 s.
        """
        self._running(node_id)
        await self._thread.call_async(self._move(what, node_id))

    # life

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop)
        if error is None:
            for fault in self._faults:
                fault.check()
            for node in self._nodes.values():
                node.check_faults()

    def _start(self) -> None:
        self._thread.start()
        try:
            self._thread.call(self._open())
            for node in self._nodes.values():
                node.start()
            self._thread.call(self._until(lambda: self._nodes_serve()))
        except BaseException:
            self._stop()
            raise

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._common.clock = VirtualClock(loop)
        self._common.time = Time(self._common.clock, Nodes(self._nodes, self._common.clock))
        self._common.database = SimDatabase(LoopKernel(loop), Paces(0, 0, 0))
        self._common.database.on_publish = self._published
        self._common.database.create([])
        await asyncio.gather(*(node.join() for node in self._nodes.values()))
        # Partitions are dealt to the nodes that are known, so all are known before the first partition is.
        members = [node.member for node in self._nodes.values()]
        await self._until(lambda: all(len(member.placement.view.nodes) == len(members) for member in members))

    def _published(self, transaction: Transaction) -> None:
        if isinstance(transaction.name, TOLD_OF) and transaction.writes:
            loop = asyncio.get_running_loop()
            for node in self._nodes.values():
                if node.is_running:
                    loop.call_soon(node.heard)

    def _stop(self) -> None:
        for node in self._nodes.values():
            if node.is_running:
                self._thread.run(node.open_gate)
                self._thread.run(node.member.leave)
        for node in self._nodes.values():
            node.stop()
        self._thread.end()

    # what faults want

    @property
    def is_running(self) -> bool:
        """Whether any node runs."""
        return any(node.is_running for node in self._nodes.values())

    @property
    def benches(self) -> list[Workbench]:
        """The workbenches of the nodes that run."""
        return [node.workbench for node in self._nodes.values() if node.is_running]

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the event loop of the nodes, where their state may be looked at, and give its result."""
        return self._thread.run(function)

    def wait(self, work: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Wait for something that happens on the event loop of the nodes."""
        self._thread.call(work, timeout_s + 30)

    async def wait_async(self, work: Coroutine[Any, Any, None]) -> None:
        """The same for who has an event loop of its own."""
        await self._thread.call_async(work)

    # on the loop

    @property
    def _guide(self) -> ClusterNode:
        """A node that knows who leads what."""
        live = [node for node in self._nodes.values() if node.is_live]
        sure = [node for node in live if node.member.may_answer()]
        if not live:
            raise RuntimeError("no node of the cluster runs")
        return (sure or live)[0]

    def _leader(self, tp: TopicPartition) -> int:
        guide = self._guide.workbench
        if guide.topics.partition(tp) is None:
            raise ValueError(f"there is no partition {tp.topic}-{tp.partition}")
        return guide.leader(tp)

    def _running(self, node_id: int) -> ClusterNode:
        node = self.node(node_id)
        if not node.is_running:
            raise RuntimeError(f"node {node_id} does not run")
        return node

    def _nodes_serve(self) -> bool:
        """Whether somebody leads every partition, and serves it."""
        nodes = [node for node in self._nodes.values() if node.is_live]
        topics = nodes[0].workbench.topics
        led = all(topics.leader(partition).node_id > 0 for partition in topics.all_partitions())
        return led and all(node.has_loaded for node in nodes)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - many things make it so
                await asyncio.sleep(LOOK_S)

    async def _tell_ended(self, node: ClusterNode) -> None:
        """Tell the database of the end of a node, as its supervisor does."""
        session = self._common.database.connect(0, "M")
        assert session is not None
        told = asyncio.get_running_loop().create_future()
        session.send(port.Describe(node.node_id, ended=node.member.incarnation), told.set_result)
        await told
        session.abort()

    async def _move(self, what: tuple[str, int] | str, node_id: int) -> None:
        guide = self._guide.workbench
        tp = guide.coordinated_by(what) if isinstance(what, str) else TopicPartition(*what)
        self._leader(tp)
        factor = guide.topics.catalog.topics[tp.topic].replication_factor
        others = [one for one in self._nodes if one != node_id]
        homes = await guide.topics.rehome({tp: (node_id, *others[: factor - 1])})
        heir = self._nodes[node_id]

        async with asyncio.timeout(PATIENCE_S):
            while not self._is_served(tp, heir):
                leader = self._nodes.get(self._leader(tp))
                if leader is not None and leader is not heir and leader.is_live:
                    await leader.give(homes, node_id)
                await asyncio.sleep(LOOK_S)

    def _is_served(self, tp: TopicPartition, node: ClusterNode) -> bool:
        partition = node.workbench.topics.partition(tp)
        return partition is not None and not partition.refusal and self._leader(tp) == node.node_id
