"""`ottla.testing.Cluster`: nodes die, stand still and hand over under running clients, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from ottla.testing import Cluster
from tests.support.kit import KINDS, Row, kit_of
from tests.support.members import Member, Role, member
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.e2e

TOPIC, PARTITIONS, GROUP = "orders", 6, "billing"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(nodes=3, topics={TOPIC: PARTITIONS}) as running:
        yield running


class Service:
    """Two members of a group, and what was produced for them."""

    def __init__(self, cluster: Cluster, kind: str, **options: Any) -> None:
        self.cluster = cluster
        options = {**kit_of(kind, "").quick, **options}
        self.members: list[Member] = [
            member(Role(kind, cluster.bootstrap_servers, GROUP, (TOPIC,), f"{kind}-{number}", options=options))
            for number in range(2)
        ]
        self.produced = 0
        self._kit = kit_of("confluent", cluster.bootstrap_servers)

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
        await self.cluster.group(GROUP).wait_async(members=2)
        return self.generation

    @property
    def generation(self) -> int:
        return self.cluster.group(GROUP).generation

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
async def serving(cluster: Cluster, kind: str, **options: Any) -> AsyncIterator[Service]:
    service = Service(cluster, kind, **options)
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
    async with serving(cluster, kind) as service:
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
