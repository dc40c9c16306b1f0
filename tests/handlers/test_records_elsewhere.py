"""Fetches and look-ups of records that the engine has to fetch first."""

import pytest
import pytest_asyncio

from ottla.broker.engine import NotHere, Unavailable
from ottla.broker.runtime.long_work import LongWork
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.handlers.conftest import NOW_MS
from tests.support.client import values
from tests.support.requests import list_offsets_fields


class Elsewhere:
    """Takes the place of what a log reads with: nothing is here until ``come``."""

    def __init__(self, log, name="read"):
        self.waiting = []
        self.asked = 0
        self.is_here = False
        self.error = None
        self._read = getattr(log, name)
        setattr(log, name, self)

    def __call__(self, *args, **options):
        self.asked += 1
        if self.error is not None:
            raise self.error
        if not self.is_here:
            raise NotHere(self.waiting.append)
        return self._read(*args, **options)

    def come(self, *, is_here=True, error=None):
        self.is_here, self.error = is_here, error
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


def rows(exchange):
    return [values(row.records) for row in exchange.rows]


@pytest_asyncio.fixture
async def elsewhere(world, make_batch):
    """Of two partitions with a record each, the first."""
    topic = await world.topic("t", 2)
    for partition in (0, 1):
        world.produced(make_batch(b"%d" % partition), partition=partition)
    return Elsewhere(topic.partitions[0].log)


async def test_a_fetch_waits_until_records_have_come(world, elsewhere):
    exchange = world.fetch(max_wait_ms=500)
    assert not exchange.finished
    elsewhere.come()
    assert rows(exchange) == [[b"0"]]
    assert len(world.fetches) == 0


async def test_a_fetch_waits_again_for_what_has_gone_again(world, elsewhere):
    exchange = world.fetch(max_wait_ms=500)
    elsewhere.come(is_here=False)
    assert not exchange.finished
    elsewhere.come()
    assert (rows(exchange), elsewhere.asked) == ([[b"0"]], 3)


@pytest.mark.parametrize("max_wait_ms", [0, 500])
async def test_a_fetch_ends_with_its_time_and_tells_where_the_log_ends(world, elsewhere, max_wait_ms):
    exchange = world.fetch(max_wait_ms=max_wait_ms)
    assert exchange.finished is (max_wait_ms == 0)
    world.advance(max_wait_ms)
    row = exchange.row
    assert (row.records, row.error_code, row.high_watermark) == (b"", 0, 1)
    elsewhere.come()


async def test_records_that_are_here_do_not_wait_for_others(world, elsewhere):
    assert rows(world.fetch(partitions=(0, 1), max_wait_ms=500)) == [[], [b"1"]]


async def test_records_that_are_here_wait_for_others_if_they_are_too_few(world, elsewhere):
    exchange = world.fetch(partitions=(0, 1), max_wait_ms=500, min_bytes=100)
    assert not exchange.finished
    elsewhere.come()
    assert rows(exchange) == [[b"0"], [b"1"]]


async def test_a_fetch_hears_of_what_cannot_be_fetched(world, elsewhere):
    exchange = world.fetch(max_wait_ms=500)
    elsewhere.come(error=Unavailable("it cannot be reached"))
    assert exchange.row.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_nobody_is_answered_who_has_gone(world, elsewhere):
    exchange = world.fetch(max_wait_ms=500)
    exchange.hang_up()
    elsewhere.come()
    assert (exchange.finished, elsewhere.asked) == (False, 1)


async def test_a_look_up_by_time_waits_for_its_batch(world, elsewhere):
    batches = Elsewhere(world.topics.topics["t"].partitions[0].log, "batch_for_timestamp")
    world.services.look_up = LongWork("look-up", world.log)
    exchange = world.begin(ApiKey.LIST_OFFSETS, 7, **list_offsets_fields("t", NOW_MS))
    await world.idle()
    assert not exchange.finished
    batches.come()
    await world.idle()
    assert exchange.response.topics[0].partitions[0].offset == 0
    await world.services.look_up.stop()
