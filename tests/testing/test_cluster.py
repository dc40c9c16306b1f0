"""`ottla.testing.Cluster`: nodes die, stand still and hand over under running clients, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Cluster, embedded
from ottla.testing.evidence import WITNESSES
from ottla.testing.group import Group
from tests.support.kit import KINDS, Row, kit_of
from tests.support.members import SESSION_TIMEOUT_MS, Member, Role, member
from tests.support.peer import Peer
from tests.support.requests import commit_fields, heartbeat_fields, request
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.e2e

TOPIC, PARTITIONS, GROUP = "orders", 6, "billing"
SOON_DOUBTFUL: dict[str, dict[str, Any]] = {
    "confluent": {"socket.timeout.ms": 3_000},
    "ottla": {"request_timeout_ms": 3_000},
}
"""How clients come to doubt a node that is silent. aiokafka and kafka-python ask it until their session has ended."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(nodes=3, topics={TOPIC: PARTITIONS}) as running:
        yield running


class Service:
    """Two members of a group, and what was produced for them."""

    def __init__(self, cluster: Cluster, kind: str, session_timeout_ms: int, options: dict[str, Any]) -> None:
        self.cluster = cluster
        servers, topics = cluster.bootstrap_servers, (TOPIC,)
        self.members: list[Member] = [
            member(
                Role(
                    kind,
                    servers,
                    GROUP,
                    topics,
                    f"{kind}-{number}",
                    session_timeout_ms=session_timeout_ms,
                    options=options,
                )
            )
            for number in range(2)
        ]
        self.produced = 0
        self._kit = kit_of("confluent", cluster.bootstrap_servers)
        self._group: Group | None = None

    async def produce(self, count: int = 60) -> None:
        """Produce as many again, by a client that comes to know the nodes only now, and wait until all are read."""
        rows = [Row(b"%d" % number, b"%d" % number) for number in range(self.produced, self.produced + count)]
        acks = await asyncio.to_thread(self._kit.produce, TOPIC, rows, idempotent=True)
        assert len(set(acks)) == count
        self.produced += count
        await until(lambda: self.read >= self._all, self._show)
        for one in self.members:
            await asyncio.to_thread(one.commit)

    @property
    def _all(self) -> set[str]:
        return {str(number) for number in range(self.produced)}

    @property
    def read(self) -> set[str]:
        return {seen.value for one in self.members for seen in one.seen}

    async def settled(self) -> int:
        """Wait until both have partitions; the generation of the group."""
        await until(lambda: sum(len(one.owned) for one in self.members) == PARTITIONS, self._show)
        if self._group is None:
            self._group = self.cluster.group(GROUP)
        await self._group.wait_async(members=2)
        return self.generation

    @property
    def generation(self) -> int:
        """As the node has it that coordinates the group now, whichever did when it was asked for first."""
        assert self._group is not None
        return self._group.generation

    def forget(self) -> None:
        """What is seen and given from now on counts."""
        for one in self.members:
            one.changes.clear()

    @property
    def changes(self) -> list[Any]:
        return [change for one in self.members for change in one.changes]

    def _show(self) -> str:
        return "\n".join([*map(str, self.members), f"missing {sorted(self._all - self.read)[:9]}"])


async def until(condition: Callable[[], object], show: Callable[[], object] = str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - what clients in threads come to see
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(str(show())) from None


@contextlib.asynccontextmanager
async def serving(
    cluster: Cluster, kind: str, session_timeout_ms: int = SESSION_TIMEOUT_MS, **options: Any
) -> AsyncIterator[Service]:
    service = Service(cluster, kind, session_timeout_ms, options)
    try:
        for one in service.members:
            one.start()
        await service.settled()
        await service.produce()
        yield service
    finally:
        for one in service.members:
            one.begin_stop()
        for one in service.members:
            await asyncio.to_thread(one.stop)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


async def test_partitions_and_coordinators_are_spread(cluster: Cluster) -> None:
    assert sorted(cluster.nodes) == [1, 2, 3]
    assert [cluster.leader((TOPIC, partition)) for partition in range(PARTITIONS)] == [1, 2, 3, 1, 2, 3]
    assert {cluster.coordinator(f"group-{number}") for number in range(50)} == {1, 2, 3}


async def test_a_group_outlives_its_coordinator(cluster: Cluster, kind: str) -> None:
    async with serving(cluster, kind, **kit_of(kind, "").quick) as service:
        generation = service.generation
        service.forget()
        coordinator = cluster.coordinator(GROUP)
        await cluster.kill(coordinator)
        await service.produce()
        assert cluster.coordinator(GROUP) not in (coordinator, -1)
        assert (service.generation, service.changes) == (generation, [])
        await cluster.start(coordinator)
        await cluster.move(GROUP, coordinator)
        await service.produce()
        assert cluster.coordinator(GROUP) == coordinator
        assert (service.generation, service.changes) == (generation, [])


async def test_a_group_of_the_consumer_protocol_outlives_its_coordinator(cluster: Cluster) -> None:
    async with serving(cluster, "ottla", 45_000, group_protocol="consumer") as service:
        generation = service.generation
        service.forget()
        await cluster.kill(cluster.coordinator(GROUP))
        await service.produce()
        assert (service.generation, service.changes) == (generation, [])
        running = {node_id for node_id, node in cluster.nodes.items() if node.is_running}
        await cluster.move(GROUP, min(running - {cluster.coordinator(GROUP)}))
        await service.produce()
        assert (service.generation, service.changes) == (generation, [])


@pytest.mark.parametrize("kind", SOON_DOUBTFUL)
async def test_a_node_that_stands_still_is_taken_over_from(cluster: Cluster, kind: str) -> None:
    async with serving(cluster, kind, 20_000, **SOON_DOUBTFUL[kind]) as service:
        generation = service.generation
        service.forget()
        cluster.clock.freeze()
        paused = cluster.coordinator(GROUP)
        cluster.pause(paused)
        assert cluster.node(paused).is_paused
        await cluster.clock.advance_async(seconds=5)
        assert cluster.coordinator(GROUP) not in (paused, -1)
        await service.produce()
        cluster.resume(paused)
        await service.produce()
        assert cluster.coordinator(GROUP) != paused
        assert (service.generation, service.changes) == (generation, [])


async def test_a_node_that_stands_still_amid_an_append_is_taken_over_from(cluster: Cluster) -> None:
    """Half an append keeps its log locked as long as its connection lives: whoever takes over ends that."""
    paused = cluster.coordinator(GROUP)
    database = cluster.node(paused)._common.database
    (lane,) = (one for one in database.sessions.values() if (one.node, one.role) == (paused, "F0"))
    cluster.run(lambda: setattr(lane, "is_cut_short", True))
    with Peer(cluster.node(paused).port) as peer:
        peer.send(ApiKey.OFFSET_COMMIT, 8, request(ApiKey.OFFSET_COMMIT, commit_fields(GROUP, [(TOPIC, 0, 1)])))
        await until(lambda: cluster.run(lambda: not lane.is_cut_short))
        cluster.pause(paused)
        await until(lambda: cluster.coordinator(GROUP) not in (paused, -1))
        assert cluster.run(lambda: lane.number not in database.sessions)


async def test_a_lease_ends_by_the_clock_of_the_workbench(cluster: Cluster) -> None:
    cluster.clock.freeze()
    paused = cluster.coordinator(GROUP)
    cluster.pause(paused)
    await cluster.clock.advance_async(seconds=2)
    assert cluster.coordinator(GROUP) == paused
    await cluster.clock.advance_async(seconds=3)
    assert cluster.coordinator(GROUP) not in (paused, -1)


async def test_time_that_jumps_ends_no_lease_of_a_node_that_runs(cluster: Cluster) -> None:
    leaders = [cluster.leader((TOPIC, partition)) for partition in range(PARTITIONS)]
    await cluster.clock.advance_async(days=7)
    assert [cluster.leader((TOPIC, partition)) for partition in range(PARTITIONS)] == leaders
    epochs = {row.epoch for row in cluster.node(1).run(lambda: list(cluster.node(1).member.placement.rows.values()))}
    assert epochs == {0}


async def test_what_a_node_that_stood_still_is_asked_it_does_not_lead_any_more(cluster: Cluster) -> None:
    cluster.clock.freeze()
    paused = cluster.coordinator(GROUP)
    with Peer(cluster.node(paused).port) as peer:
        cluster.pause(paused)
        heartbeat = request(ApiKey.HEARTBEAT, heartbeat_fields(GROUP, 1, "nobody"))
        answer = asyncio.get_running_loop().run_in_executor(None, peer.ask, ApiKey.HEARTBEAT, 4, heartbeat)
        await cluster.clock.advance_async(seconds=5)
        assert not answer.done()
        cluster.resume(paused)
        assert (await answer).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("kind", ["confluent", "aiokafka"])
async def test_a_transaction_outlives_the_nodes_that_have_parts_of_it(cluster: Cluster, kind: str) -> None:
    servers = cluster.bootstrap_servers
    kit = kit_of(kind, servers)
    producer = await asyncio.to_thread(kit.transactional, "tx")
    for number in range(3):
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(producer.send, TOPIC, [b"%d" % number])
        leader = cluster.leader((TOPIC, 0))
        if number == 1:
            await cluster.kill(leader)
            await until(lambda gone=leader: cluster.leader((TOPIC, 0)) not in (gone, -1))
            await cluster.start(leader)
        else:
            await cluster.move((TOPIC, 0), leader % 3 + 1)
        await asyncio.to_thread(producer.send, TOPIC, [b"%d more" % number])
        await asyncio.to_thread(producer.commit)
    got = await asyncio.to_thread(kit_of("confluent", servers).read, {(TOPIC, 0): 0}, 6, committed=True)
    assert [record.value for record in got] == [b"0", b"0 more", b"1", b"1 more", b"2", b"2 more"]
    await asyncio.to_thread(producer.close)


async def test_a_fault_is_about_one_node(cluster: Cluster) -> None:
    with cluster.fault("Heartbeat", node=2, error="UNKNOWN_MEMBER_ID") as fault:
        codes = [await asyncio.to_thread(heartbeat_code, cluster, node_id) for node_id in cluster.nodes]
    assert (codes[1], fault.hits) == (ErrorCode.UNKNOWN_MEMBER_ID, 1)


async def test_a_fault_of_all_nodes_fires_as_often_as_it_should(cluster: Cluster) -> None:
    await cluster.kill(1)
    with cluster.fault("Heartbeat", error="INVALID_GROUP_ID", times=2) as fault:
        await cluster.start(1)
        codes = [await asyncio.to_thread(heartbeat_code, cluster, node_id) for node_id in cluster.nodes]
    assert codes[:2] == [ErrorCode.INVALID_GROUP_ID] * 2
    assert codes[2] != ErrorCode.INVALID_GROUP_ID
    assert fault.hits == 2


class Asking:
    """Asks a node as soon as it can be asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.codes: list[int] = []

    def started(self, broker: Any) -> None:
        self.codes.append(heartbeat_code(self._cluster, broker.node_id))

    def stopping(self, broker: Any) -> None:
        """Nothing is to be asked any more."""


async def test_a_node_has_the_faults_from_its_start_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await cluster.kill(1)
    asking = Asking(cluster)
    monkeypatch.setattr(embedded, "WITNESSES", [*WITNESSES, asking])
    with cluster.fault("Heartbeat", error="INVALID_GROUP_ID"):
        await cluster.start(1)
    assert asking.codes == [ErrorCode.INVALID_GROUP_ID]


async def test_a_fault_needs_a_node_that_runs(cluster: Cluster) -> None:
    for node_id in cluster.nodes:
        await cluster.kill(node_id)
    with pytest.raises(RuntimeError, match="no node of the cluster runs"):
        cluster.fault("Heartbeat", error="INVALID_GROUP_ID")


def heartbeat_code(cluster: Cluster, node_id: int) -> int:
    """What a node says to a member that is none."""
    with Peer(cluster.node(node_id).port) as peer:
        heartbeat = request(ApiKey.HEARTBEAT, heartbeat_fields(GROUP, 1, "nobody"))
        code: int = peer.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code
        return code


async def test_what_cannot_be_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node 4; there are 1, 2, 3"):
        cluster.pause(4)
    with pytest.raises(ValueError, match="there is no partition orders-6"):
        cluster.leader((TOPIC, PARTITIONS))
    await cluster.kill(2)
    with pytest.raises(RuntimeError, match="node 2 does not run"):
        await cluster.kill(2)
    with pytest.raises(RuntimeError, match="node 1 runs already"):
        await cluster.start(1)
    with pytest.raises(ValueError, match="nodes=0: write a number from 1"):
        Cluster(nodes=0)


async def test_what_was_acknowledged_is_there_once_whatever_nodes_do(cluster: Cluster) -> None:
    """Each round a node is killed and started, another stands still until it is taken over from, partitions move."""
    stopping = threading.Event()
    acknowledged: list[bytes] = []
    # Values in their order, one after the other: a batch that is sent again may neither be lost nor be there twice.
    producing = asyncio.create_task(asyncio.to_thread(write, cluster, acknowledged, stopping))
    for number in range(1, 4):
        written = len(acknowledged)
        await cluster.kill(number)
        await until(lambda before=written: len(acknowledged) > before + 6)
        await cluster.start(number)
        paused = number % 3 + 1
        cluster.pause(paused)
        await cluster.clock.advance_async(seconds=5)
        cluster.resume(paused)
        await cluster.move((TOPIC, 0), number)
        written = len(acknowledged)
        await until(lambda before=written: len(acknowledged) > before + 6)
    stopping.set()
    await producing
    records = await asyncio.to_thread(cluster.records, TOPIC)
    assert sorted(record.value for record in records) == sorted(acknowledged)


def write(cluster: Cluster, acknowledged: list[bytes], stopping: threading.Event) -> None:
    kit = kit_of("confluent", cluster.bootstrap_servers)
    while not stopping.is_set():
        values = [b"%d" % (len(acknowledged) + number) for number in range(PARTITIONS)]
        kit.produce(TOPIC, [Row(value, value) for value in values], idempotent=True, **{"socket.timeout.ms": 2_000})
        acknowledged += values
