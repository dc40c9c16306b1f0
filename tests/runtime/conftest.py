"""A broker's data plane with a cleaner, under a clock by hand."""

import asyncio

import pytest_asyncio

from ottla.broker.runtime.cleaner import Cleaner
from ottla.protocol.records import Record, decode_batch, iter_batches
from tests.handlers.conftest import NOW_MS, World
from tests.support.batches import build_batch


class CleaningWorld(World):
    """A world whose cleaner works when asked to, or by its timers."""

    def __init__(self, **settings):
        super().__init__(**{"log_segment_bytes": 300, "log_cleaner_min_cleanable_ratio": 0.0} | settings)
        self.touched_partitions = []

    async def start(self):
        await super().start()
        self.cleaner = Cleaner(self.engine, self.topics, self, self.log)
        touched = self.topics.on_touched
        self.topics.on_touched = lambda tp: (self.touched_partitions.append(tp), touched(tp))
        return self

    async def pass_ms(self, ms):
        """Let time pass, timers ring, and tasks work."""
        self.advance(ms)
        for _ in range(200):
            await asyncio.sleep(0)
            self.run()

    def write(self, *pairs, topic="t", partition=0, at_ms=NOW_MS, **options):
        """Append one batch of (key, value) pairs."""
        records = [Record(0, at_ms, key, value) for key, value in pairs]
        row = self.produced(build_batch(records, **options), topic=topic, partition=partition)
        assert row.error_code == 0
        return row.base_offset

    def log_of(self, topic="t", partition=0):
        return self.engine.logs[topic, partition]

    def fill(self, count, *, size=100, **options):
        """As many batches of a record with the key ``k``."""
        for _ in range(count):
            self.write((b"k", b"x" * size), **options)

    def records(self, topic="t", partition=0):
        """Every record that is there, read in small pieces."""
        log = self.log_of(topic, partition)
        found, offset = [], log.log_start_offset
        while data := log.read(offset, max_bytes=100):
            for header, batch in iter_batches(data):
                offset = header.last_offset + 1
                found += decode_batch(batch)
        return found

    def stored(self, topic="t", partition=0):
        """Offset, key and value of every record that is there."""
        return [(record.offset, record.key, record.value) for record in self.records(topic, partition)]

    async def compact_all(self):
        while await self.cleaner.compact_one():
            pass

    @property
    def compactions(self):
        return len(self.events("compacted"))

    def events(self, event):
        return [fields for name, fields in self.log.lines if name == event]


@pytest_asyncio.fixture
async def world():
    return await CleaningWorld().start()
