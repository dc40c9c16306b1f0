"""The engine over a database keeps the contract of engines, but for what the database has instead.

A log is led under the epoch of its claim and not under one of the engine, logs come and go with the catalog, and the
catalog is a document of topics: the tests of that are below. Where segments end is not stored: whoever leads a log next
divides it by its settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from ottla.broker.clock import LoopClock
from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY
from ottla.broker.engine import Fenced, LogConfig, Outdated, Unavailable
from ottla.broker.runtime.reading import read_when_here
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.catalog import PostgresCatalog
from ottla.broker.storage.postgres.connections import Connections
from ottla.broker.storage.postgres.database import Session
from ottla.broker.storage.postgres.engine import PostgresEngine
from ottla.broker.storage.postgres.log import PostgresLog
from ottla.protocol.records import TopicPartition
from ottla.testing.cluster import LoopKernel
from ottla.testing.simulated.database import Paces, SimDatabase
from tests.storage.conftest import TOPIC_ID, Appends
from tests.storage.test_engine_contract import (  # noqa: F401 - they are run with the fixtures of this module
    test_a_batch_may_come_in_pieces,
    test_a_callback_that_raises_does_not_silence_the_others,
    test_a_log_is_opened_once,
    test_a_log_that_was_released_can_be_opened_again,
    test_after_close_nothing_is_accepted,
    test_an_empty_log,
    test_append_gives_offsets_at_once_and_reports_later,
    test_appending_from_done_is_a_new_append,
    test_deleting_fails_what_is_queued_or_reports_it_done,
    test_epochs_end_where_the_next_one_begins,
    test_offset_for_timestamp_is_exact_inside_batches,
    test_offsets_outside_are_refused,
    test_reading_never_goes_beyond_max_bytes_but_for_one_batch,
    test_reading_starts_at_the_batch_that_contains_the_offset,
    test_reading_stops_before_upto_offset,
    test_stored_batches_carry_offset_and_epoch_and_keep_their_crc,
    test_the_cluster_id_is_one,
    test_the_largest_timestamp_may_come_first,
    test_the_log_start_survives_a_restart,
    test_timestamps_of_compressed_and_broker_stamped_batches,
    test_timestamps_survive_a_restart,
    test_trim_moves_the_start_and_hides_what_lies_before,
    test_watermarks_move_before_done_and_waiters_are_woken_after,
)
from tests.storage.test_segments_contract import (  # noqa: F401
    filled,
    test_a_segment_ends_before_it_grows_too_large,
    test_a_segment_ends_when_a_record_is_that_much_younger_than_its_first,
    test_an_empty_log_has_no_segments,
    test_batches_that_do_not_fit_are_refused,
    test_ends_that_are_no_ends_of_closed_segments_are_refused,
    test_trimming_and_replacing_at_the_same_time,
)

Key = tuple[UUID, str, int]


class Led:
    """An engine, and the logs that it leads: each opened log is claimed."""

    def __init__(self, database: SimDatabase | None = None, node_id: int = 1) -> None:
        self.database = database or SimDatabase(LoopKernel(asyncio.get_running_loop()), Paces(0, 0, 0))
        if database is None:
            self.database.create([])
        self.lost: list[tuple[int, int]] = []
        self._node_id = node_id
        self._logs: dict[Key, int] = {}
        self.claims: dict[tuple[UUID, int], tuple[int, int]] = {}

    async def open(self) -> PostgresEngine:
        clock = LoopClock(asyncio.get_running_loop())
        self._connections = Connections(self._connect, clock)
        catalog = PostgresCatalog(self._connections.m, lambda: str(self._node_id), {})
        self.engine = PostgresEngine(self._node_id, "A" * 22, self._connections, catalog, self._claim_of)
        self.engine.on_lost = lambda log_id, epoch: self.lost.append((log_id, epoch))
        self._connections.open()
        await self.engine.open()
        return self.engine

    def _connect(self, role: str, connected: Callable[[Session | None], None]) -> None:
        connected(self.database.connect(self._node_id, role))

    def _claim_of(self, topic_id: UUID, partition: int) -> tuple[int, int] | None:
        return self.claims.get((topic_id, partition))

    async def restart(self) -> PostgresEngine:
        await self.engine.close()
        return await self.open()

    async def log(self, topic: str = "t", partition: int = 0, topic_id: UUID = TOPIC_ID, **config: Any) -> PostgresLog:
        key = (topic_id, topic, partition)
        tp = TopicPartition(topic, partition)
        if tp not in self.engine.logs:
            self.claims[topic_id, partition] = await self._claimed(key)
        return await self.engine.open_log(topic, topic_id, partition, LogConfig(**config))

    async def _claimed(self, key: Key) -> tuple[int, int]:
        ask = self._connections.m.answer
        if key not in self._logs:
            log_id = self._logs[key] = len(self._logs)
            version: Any = (await ask(port.ReadCatalog())).result
            row = LogRow(log_id, 1, NOBODY, 0, -1)
            await ask(port.StoreCatalog(version[0], version[1], (row,)))
        return await self.claim(self._logs[key])

    async def claim(self, log_id: int) -> tuple[int, int]:
        """Claim a log, whoever leads it."""
        ask = self._connections.m.answer
        rows: Any = (await ask(port.ReadLogs())).result
        [epoch] = [row.epoch for row in rows if row.log_id == log_id]
        claimed: Any = (await ask(port.Claim(((log_id, epoch),), self._node_id, 1))).result
        return log_id, dict(claimed)[log_id]


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Led]:
    led = Led()
    await led.open()
    yield led
    await led.engine.close()


@pytest_asyncio.fixture
async def log(opened: Led) -> PostgresLog:
    return await opened.log()


@pytest.fixture
def appends() -> Appends:
    return Appends()


async def test_what_somebody_else_has_claimed_is_lost(opened: Led, log: PostgresLog, appends: Appends) -> None:
    await appends.outcome(log, b"a")
    other = Led(opened.database, node_id=2)
    await other.open()
    await other.claim(log.log_id)
    error = await appends.outcome(log, b"b")
    assert isinstance(error, Fenced)
    assert opened.lost == [(log.log_id, log.leader_epoch)]
    assert (log.high_watermark, log.log_end_offset) == (1, 1)
    with pytest.raises(Fenced):
        log.read(0, max_bytes=100)
    await other.engine.close()


async def test_what_is_not_led_is_not_opened(opened: Led) -> None:
    with pytest.raises(Fenced, match="orders-3 is not led here"):
        await opened.engine.open_log("orders", TOPIC_ID, 3, LogConfig())


async def test_logs_that_are_opened_together_cost_few_commits(opened: Led) -> None:
    """A node that takes over opens very many, and each start of an epoch is to be durable."""
    carried: list[port.Statement] = []
    carry = opened.database.carry
    opened.database.carry = lambda session, statement: (carried.append(statement), carry(session, statement))[1]  # type: ignore[method-assign]
    for partition in range(20):
        opened.claims[TOPIC_ID, partition] = await opened._claimed((TOPIC_ID, "t", partition))
    carried.clear()
    opened.database.paces = Paces(0, 0, standby_ms=200)
    opening = (opened.engine.open_log("t", TOPIC_ID, partition, LogConfig()) for partition in range(20))
    assert len(await asyncio.gather(*opening)) == 20
    assert sum(isinstance(one, port.BeginEpochs) for one in carried) <= 3
    assert [type(one) for one in carried].count(port.Load) == 20


async def test_a_connection_that_ends_costs_no_append(opened: Led, log: PostgresLog, appends: Appends) -> None:
    for number in range(20):
        appends.add(log, b"%d" % number)
        for session in [one for one in opened.database.sessions.values() if one.role == "F1"]:
            opened.database.lose(session, late_ms=1)
        await asyncio.sleep(0)
    await appends.reported(20)
    assert appends.reports == [(number, None) for number in range(20)]
    await opened.restart()
    log = await opened.log()
    assert len(await read_when_here(log, 0, max_bytes=10**6)) == log.size_bytes
    assert log.high_watermark == 20


async def test_nothing_can_be_written_while_the_database_is_away(opened: Led, log: PostgresLog) -> None:
    """Whoever asks whether the node is ready is told so."""

    async def until(kind: type) -> None:
        async with asyncio.timeout(10):
            while not isinstance(opened.engine.refusal, kind):  # noqa: ASYNC110 - connections end, and come, one by one
                await asyncio.sleep(0.01)

    assert opened.engine.refusal is None
    opened.database.crash()
    await until(Unavailable)
    opened.database.start()
    await until(type(None))


def state(**topics: list[int]) -> dict[str, Any]:
    """A catalog of topics with the homes of their partitions."""
    ids = {name: str(UUID(int=1 + "ab".index(name))) for name in topics}
    rows = {
        name: {"topic_id": ids[name], "partitions": len(homes), "configs": {}, "homes": homes}
        for name, homes in topics.items()
    }
    return {"topics": rows}


async def logs(opened: Led) -> dict[int, int]:
    """The homes of the logs that the database has."""
    answer: Any = await opened.engine.catalog._link.answer(port.ReadLogs())
    return {row.log_id: row.home for row in answer.result}


async def test_logs_come_move_and_go_with_the_catalog(opened: Led) -> None:
    catalog = opened.engine.catalog
    await catalog.refresh()
    assert (catalog.version, catalog.load()) == (1, None)
    assert await catalog.store(state(a=[1, 2]), over=1) == 2
    assert catalog.logs_of(UUID(int=1)) == [0, 1]
    assert await logs(opened) == {0: 1, 1: 2}
    await catalog.store(state(a=[1, 3, 2], b=[2]), over=2)
    assert catalog.logs_of(UUID(int=1))[:2] == [0, 1]
    assert sorted((await logs(opened)).values()) == [1, 2, 2, 3]
    await catalog.store(state(b=[2]), over=3)
    assert list((await logs(opened)).values()) == [2]


async def test_of_two_who_change_the_catalog_one_is_told_to_plan_again(opened: Led) -> None:
    other = Led(opened.database, node_id=2)
    await other.open()
    for one in (opened, other):
        await one.engine.catalog.refresh()
    changes = (one.engine.catalog.store(state(a=[home]), over=1) for home, one in ((1, opened), (2, other)))
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [Outdated.__name__, int.__name__]
    assert len(await logs(opened)) == 1
    await other.engine.close()
