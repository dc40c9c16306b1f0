"""A cluster of which no node runs: logs that come from elsewhere, and whoever begins to lead meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from ottla.broker.clock import LoopClock
from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY
from ottla.broker.engine import Fenced, InUse, Unavailable
from ottla.broker.storage.postgres import at_rest
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.at_rest import ClusterAtRest
from ottla.protocol.records import BatchError
from ottla.testing.cluster import LoopKernel
from ottla.testing.simulated.database import Paces, SimDatabase, SimSession
from tests.storage.test_assembling import batch

LOG, OTHER = 1, 2
GAPS = [batch(2, 3), batch(9), batch(10, 2)]


@pytest_asyncio.fixture
async def database() -> SimDatabase:
    database = SimDatabase(LoopKernel(asyncio.get_running_loop()), Paces(0, 0, 0))
    database.create([LogRow(log_id, NOBODY, NOBODY, 0, 4) for log_id in (LOG, OTHER)])
    return database


def at_rest_of(database: SimDatabase) -> ClusterAtRest:
    def connect(role: str, connected: Callable[[SimSession | None], None]) -> None:
        connected(database.connect(NOBODY, role))

    return ClusterAtRest(connect, LoopClock(asyncio.get_running_loop()), {}, "test")


@pytest_asyncio.fixture
async def rest(database: SimDatabase) -> AsyncIterator[ClusterAtRest]:
    rest = at_rest_of(database)
    await rest.depose(1)
    yield rest
    rest.close()


def asking(session: SimSession) -> Callable[[port.Statement], Awaitable[Any]]:
    """Sends statements as a node does."""

    async def ask(statement: port.Statement) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        session.send(statement, lambda answer: answered.set_result(answer.result))
        return await answered

    return ask


async def all_of(rest: ClusterAtRest, start: int, end: int) -> bytes:
    return b"".join([one async for batches in rest.batches(LOG, start, end) for one in batches])


@pytest.mark.asyncio
async def test_a_log_keeps_its_offsets_and_epochs_and_its_gaps(rest: ClusterAtRest, monkeypatch: Any) -> None:
    monkeypatch.setattr(at_rest, "MOST_ROWS", 2)
    assert await rest.ends() == {LOG: 0, OTHER: 0}
    assert await rest.put(LOG, 0, b"".join(GAPS)) == 12
    await rest.finish(LOG, 3, 20, [(1, 0), (3, 2)])
    loaded = await rest.load(LOG)
    assert (loaded.start_offset, loaded.end_offset) == (3, 20)
    assert loaded.epochs == {1: 0, 3: 2, 5: 20}
    assert await all_of(rest, 3, 20) == b"".join(GAPS)


@pytest.mark.asyncio
async def test_whoever_goes_on_learns_where(rest: ClusterAtRest, database: SimDatabase) -> None:
    await rest.put(LOG, 0, GAPS[0])
    again = at_rest_of(database)
    await again.depose(1)
    assert await again.ends() == {LOG: 5, OTHER: 0}
    with pytest.raises(Fenced):
        await rest.put(LOG, 5, batch(5))
    await again.put(LOG, 5, b"".join(GAPS[1:]))
    assert await all_of(again, 2, 12) == b"".join(GAPS)
    with pytest.raises(Unavailable, match="ends at 12, and 5 was to come next"):
        await again.put(LOG, 5, batch(5))
    again.close()


@pytest.mark.asyncio
async def test_nothing_is_stored_of_damaged_batches(rest: ClusterAtRest) -> None:
    damaged = bytearray(GAPS[0])
    damaged[-1] ^= 1
    with pytest.raises(BatchError):
        await rest.put(LOG, 0, bytes(damaged))
    assert await rest.ends() == {LOG: 0, OTHER: 0}


@pytest.mark.asyncio
async def test_a_node_that_begins_to_lead_ends_it(rest: ClusterAtRest, database: SimDatabase) -> None:
    await rest.put(LOG, 0, batch(0))
    session = database.connect(1, "M")
    assert session is not None
    assert await asking(session)(port.Claim(((LOG, 5),), 1, 7)) == ((LOG, 6),)
    for work in (rest.put(LOG, 1, batch(1)), rest.finish(LOG, 0, 1, []), rest.load(LOG), all_of(rest, 0, 1)):
        with pytest.raises(Fenced, match="a node has come up"):
            await work


@pytest.mark.asyncio
async def test_a_node_that_runs_is_named(rest: ClusterAtRest, database: SimDatabase, monkeypatch: Any) -> None:
    monkeypatch.setattr(at_rest, "WATCHED_S", 0.05)
    session = database.connect(3, "M")
    assert session is not None
    ask = asking(session)
    incarnation = await ask(port.Register(3))
    await ask(port.Describe(3, endpoints={"NODES": ("here", 1), "PLAINTEXT": ("here", 9092)}))
    await rest.refuse_nodes()  # it was killed: nothing is heard of it
    beating = asyncio.create_task(beat(ask, incarnation))
    with pytest.raises(InUse, match="node 3 of the cluster runs at here:9092: stop all of them first"):
        await rest.refuse_nodes()
    beating.cancel()
    first = database.connect(3, "H")
    with pytest.raises(InUse, match="node 3"):
        await rest.refuse_nodes()
    assert first is not None
    first.abort()
    await asyncio.sleep(0)
    await rest.refuse_nodes()


async def beat(ask: Callable[[port.Statement], Awaitable[Any]], incarnation: int) -> None:
    while True:
        await ask(port.Beat(3, incarnation))
        await asyncio.sleep(0)
