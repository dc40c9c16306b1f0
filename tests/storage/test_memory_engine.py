"""What only the memory engine has: injected time and faults, and reads held against their definition."""

import itertools
import uuid

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.engine import LogConfig, StorageFull, Unavailable
from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.records import Record, iter_batches
from tests.support.batches import build_batch


class Scheduled:
    """An engine with a log; completions wait until the test lets them through."""

    def __init__(self):
        self.calls = []
        numbers = itertools.count(1)
        self.engine = MemoryEngine(new_uuid=lambda: uuid.UUID(int=next(numbers)), call_soon=self.calls.append)

    async def open(self):
        await self.engine.open()
        self.log = await self.engine.open_log("t", uuid.UUID(int=1), 0, LogConfig())
        return self

    def run(self):
        while self.calls:
            self.calls.pop(0)()


@pytest_asyncio.fixture
async def scheduled():
    return await Scheduled().open()


async def test_nothing_is_done_before_the_scheduler_says_so(appends, scheduled):
    appends.add(scheduled.log, b"a")
    appends.add(scheduled.log, b"b")
    assert (appends.reports, len(scheduled.calls)) == ([], 1)
    scheduled.run()
    assert appends.reports == [(0, None), (1, None)]


async def test_a_failed_append_takes_those_queued_behind_it_along(appends, scheduled):
    full = StorageFull("no room")
    engine, log = scheduled.engine, scheduled.log
    other = await engine.open_log("u", uuid.UUID(int=2), 0, LogConfig())
    engine.fault = lambda tp, base_offset: full if (tp.topic, base_offset) == ("t", 2) else None
    for target in (log, log, log, other):
        appends.add(target, b"a", b"b")
    scheduled.run()
    assert appends.reports == [(0, None), (2, full), (4, full), (0, None)]
    assert (log.log_end_offset, log.high_watermark) == (2, 2)
    engine.fault = lambda tp, base_offset: None
    assert appends.add(log, b"c") == 2
    scheduled.run()
    assert appends.reports[-1] == (2, None)


async def test_an_abandoned_engine_keeps_what_was_acknowledged_and_tells_nobody(appends, scheduled):
    appends.add(scheduled.log, b"a")
    scheduled.run()
    appends.add(scheduled.log, b"lost")
    scheduled.engine.abandon()
    scheduled.run()
    assert appends.reports == [(0, None)]
    with pytest.raises(Unavailable):
        scheduled.log.read(0, max_bytes=1)
    log = (await scheduled.open()).log
    assert (log.log_end_offset, log.leader_epoch) == (1, 1)


async def test_a_cluster_id_never_begins_with_a_dash():
    numbers = iter([uuid.UUID(bytes=b"\xf8" * 16), uuid.UUID(bytes=b"\x00" * 16)])
    assert new_cluster_id(lambda: next(numbers)) == "A" * 22


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=30),
    start=st.floats(0, 1),
    upto=st.floats(0, 1),
    max_bytes=st.integers(0, 3000),
)
async def test_any_read_is_what_the_definition_says(batches, start, upto, max_bytes):
    scheduled = await Scheduled().open()
    log = scheduled.log
    for count, size in batches:
        batch = build_batch([Record(value=b"v" * size)] * count)
        log.append(batch, count=count, max_timestamp_ms=-1, done=lambda base_offset, error: None)
    scheduled.run()
    start_offset, upto_offset = int(start * log.log_end_offset), int(upto * log.log_end_offset)
    expected = b""
    for header, batch in iter_batches(log.read(0, max_bytes=10**9)):
        if header.last_offset < start_offset:
            continue
        if header.last_offset >= upto_offset or (expected and len(expected) + len(batch) > max_bytes):
            break
        expected += batch
    assert log.read(start_offset, max_bytes=max_bytes, upto_offset=upto_offset) == expected
