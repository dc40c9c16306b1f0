"""A standby takes over while a lane appends: nothing that was acknowledged is lost, and the fence holds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Row
from ottla.broker.storage.postgres.lane import Done, Lane, Lost, Send
from tests.storage.database_clients import HEAD, LOGS, A, B, C, claim
from tests.support.waiting import until

DEADLINE_S = 3
"""After so long without an answer a connection is let go. A promoted standby needs less."""


async def answer(session: Any, statement: port.Statement) -> Any:
    told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    session.send(statement, told.set_result)
    return (await told).result


class Writer:
    """A node that appends to its logs as fast as it is answered.

    Attributes:
        acknowledged: rows by log, in the order in which they were.
        lost: logs that somebody else leads.
    """

    def __init__(self, connected: Callable[[], Awaitable[Any]]) -> None:
        self.acknowledged: dict[int, list[Row]] = defaultdict(list)
        self.lost: list[int] = []
        self.errors: list[object] = []
        self.is_enough = False
        self.tasks: set[asyncio.Task[None]] = set()
        self._connected = connected
        self._lane = Lane()
        self._session: Any = None
        self._number = 0
        for log in LOGS:
            self._lane.lead(log.log_id, log.epoch, 0)

    async def connect(self) -> None:
        self._session = await self._connected()
        self._session.on_lost = self._ended
        self._lane.connected()
        self._act()

    def stop(self) -> None:
        self.is_enough = True
        if self._session is not None:
            self._session.abort()
        for task in self.tasks:
            task.cancel()

    def append(self, log_id: int) -> None:
        self._number += 1
        body = b"%d" % self._number
        self._lane.append(log_id, HEAD, body, count=1, max_timestamp_ms=0, token=log_id)
        self._act()

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def until(self, count: int) -> None:
        async def is_done() -> bool:
            return self.count >= count

        async with asyncio.timeout(90):
            await until(is_done)

    def _act(self) -> None:
        effects, self._lane.effects = self._lane.effects, []
        for effect in effects:
            if isinstance(effect, Send):
                session = self._session
                late = asyncio.get_running_loop().call_later(DEADLINE_S, self._give_up, session)
                session.send(port.Append(effect.heads, effect.rows), partial(self._answered, late))
            elif isinstance(effect, Done) and effect.error is None:
                assert effect.row is not None and isinstance(effect.token, int)
                self.acknowledged[effect.row.log_id].append(effect.row)
                if not self.is_enough:
                    self.append(effect.token)
            elif isinstance(effect, Lost):
                self.lost.append(effect.log_id)
            elif not isinstance(effect, Done) or effect.row is None or effect.row.log_id != A:
                self.errors.append(effect)

    def _answered(self, late: asyncio.TimerHandle, told: Answer) -> None:
        late.cancel()
        if told.is_poisoned:
            self._session.abort()
            self._ended()
        elif told.refusal is not None:
            self._lane.rival()
        else:
            self._lane.answered(told.result)  # type: ignore[arg-type]
        self._act()

    def _give_up(self, session: Any) -> None:
        if session is self._session:
            session.abort()
            self._ended()

    def _ended(self) -> None:
        self._session = None
        self._lane.lost()
        task = asyncio.create_task(self.connect())
        self.tasks.add(task)


@pytest.mark.slow
@pytest.mark.parametrize("is_dead", [True, False], ids=["the primary died", "the primary lives on, alone"])
async def test_nothing_acknowledged_is_lost_by_a_promotion(pairs: Any, is_dead: bool) -> None:
    from tests.storage.postgres_bench import connected, database_of, opened

    pair = pairs.get()
    nodes = [database_of(pair, node) for node in (1, 2)]
    for node in nodes:
        await opened(node)
    setup = await connected(nodes[0])
    assert await answer(setup, port.StoreCatalog(1, {}, created=LOGS)) == 2
    writer = Writer(partial(connected, nodes[0], "F0"))
    await writer.connect()
    for log in LOGS:
        for _ in range(4):
            writer.append(log.log_id)
    await writer.until(200)

    pair.is_promoted = True
    if is_dead:
        await asyncio.to_thread(pair.primary.crash)
    pair.between.cut()
    await asyncio.to_thread(pair.standby.promote)
    before = writer.count
    other = await connected(nodes[1])

    async def is_claimed() -> bool:
        """A lane that never rests holds its logs nearly always."""
        return bool(await answer(other, claim(A, skips=False)) == ((A, 6),))

    async with asyncio.timeout(90):
        await until(is_claimed)
    await writer.until(before + 200)
    writer.is_enough = True
    acknowledged = {log_id: list(rows) for log_id, rows in writer.acknowledged.items()}

    assert writer.lost == [A]
    assert writer.errors == []
    for log_id, epoch in ((A, 6), (B, 5), (C, 5)):
        end = (await answer(other, port.Load(log_id, epoch))).end_offset
        rows: list[port.Row] = []
        while not rows or rows[-1].last_offset + 1 < end:
            rows += await answer(other, port.Page(log_id, epoch, len(rows), end, 1 << 20))
        assert [row.base_offset for row in rows] == list(range(len(rows)))
        assert len({bytes(row.body) for row in rows}) == len(rows)
        for row in acknowledged[log_id]:
            assert rows[row.base_offset].body == row.body
    pages = [await answer(setup if not is_dead else other, port.Page(A, 5, 0, 1, 100))]
    assert is_dead is (pages[0] is None), "only one that others have left has the old epoch still"
    for database in nodes:
        database.close()
    setup.abort()
    other.abort()
    writer.stop()
    await asyncio.gather(*writer.tasks, return_exceptions=True)
