"""The local engine does what the memory engine does, whatever is asked in whatever order."""

import asyncio
import random
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.engine import Durability, LogConfig, OffsetOutOfRange
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record, TimestampType, iter_batches, parse_header
from ottla.protocol.steps import finished
from tests.storage.simulated_disk import SimulatedDisk
from tests.storage.simulated_engine import engine_on
from tests.support.batches import build_batch

TOPIC_ID = uuid.UUID(int=5)

fractions = st.floats(0, 1)
appending = st.tuples(
    st.just("append"),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=6),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    st.sampled_from(TimestampType),
)
reading = st.tuples(st.just("read"), fractions, fractions, st.integers(0, 5000), st.booleans())
looking = st.tuples(st.just("time"), st.integers(-1, 320))
trimming = st.tuples(st.just("trim"), fractions)
steps = st.lists(
    st.one_of(appending, appending, appending, reading, reading, looking, trimming, st.just(("restart",))),
    max_size=60,
)
configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([1, 400, 2000, 10**6]),
    segment_ms=st.sampled_from([50, 10**9]),
    segment_index_bytes=st.sampled_from([24, 10**6]),
    index_interval_bytes=st.sampled_from([0, 100, 1000]),
    durability=st.sampled_from(Durability),
)


class Twins:
    """Both engines, each with one log, and the same steps for both."""

    def __init__(self, config):
        self.disk = SimulatedDisk(seed=0)
        self.config = config
        self.local = self.new_local()
        self.memory = MemoryEngine(new_uuid=lambda: uuid.UUID(int=1))

    def new_local(self):
        return engine_on(self.disk, lambda: uuid.UUID(int=1))

    async def open(self):
        await self.local.open()
        await self.memory.open()
        self.logs = [await engine.open_log("t", TOPIC_ID, 0, self.config) for engine in (self.local, self.memory)]

    async def restart(self):
        await self.local.close()
        await self.memory.close()
        self.local = self.new_local()
        await self.open()

    def both(self, ask):
        answers = []
        for log in self.logs:
            try:
                answers.append(ask(log))
            except OffsetOutOfRange as error:
                answers.append(repr(error))
        assert answers[0] == answers[1]
        return answers[0]

    async def step(self, step):
        match step:
            case ("append", values, codec, timestamp_type):
                records = [Record(0, timestamp, None, b"v" * size) for timestamp, size in values]
                batch = build_batch(records, codec=codec, timestamp_type=timestamp_type)
                newest = parse_header(batch).max_timestamp
                errors = []
                done = [asyncio.get_running_loop().create_future() for _ in self.logs]
                for log, future in zip(self.logs, done, strict=True):
                    log.append(
                        batch,
                        count=len(records),
                        max_timestamp_ms=newest,
                        done=lambda base, error, future=future: future.set_result(errors.append(error)),
                    )
                await asyncio.gather(*done)
                assert errors == [None, None]
            case ("read", start, upto, max_bytes, one):
                end = self.logs[1].log_end_offset
                self.both(
                    lambda log: log.read(
                        round(start * end), max_bytes=max_bytes, upto_offset=round(upto * end), min_one_batch=one
                    )
                )
            case ("time", timestamp):
                self.both(lambda log: finished(log.offset_for_timestamp(timestamp)))
            case ("trim", fraction):
                offset = round(fraction * self.logs[1].log_end_offset)
                for log in self.logs:
                    await log.trim(offset)
            case ("restart",):
                await self.restart()
        self.both(lambda log: (log.log_start_offset, log.log_end_offset, log.high_watermark, log.leader_epoch))
        self.both(lambda log: log.read(log.log_start_offset, max_bytes=10**9))


@settings(max_examples=150, deadline=None)
@given(config=configs, steps=steps)
def test_both_engines_say_the_same(config, steps):
    async def run():
        twins = Twins(config)
        await twins.open()
        for step in steps:
            await twins.step(step)
        epochs = range(-1, twins.local.leader_epoch + 2)
        assert [twins.both(lambda log, epoch=epoch: log.epoch_end(epoch)) for epoch in epochs]
        await twins.restart()
        twins.both(lambda log: log.read(log.log_start_offset, max_bytes=10**9))
        await twins.local.close()

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(8))
def test_reads_of_batches_of_all_sizes_over_many_segments(seed):
    """Where a read ends in a segment is where it ends: nothing that would still fit is taken from the next one."""
    draw = random.Random(seed)
    draw_bytes = draw.choice([1, 700, 4000])

    async def run():
        twins = Twins(LogConfig(segment_bytes=draw.choice([500, 3000]), index_interval_bytes=draw.choice([0, 300])))
        await twins.open()
        for _ in range(60):
            sizes = [(draw.randrange(300), draw.choice([0, 10, 400])) for _ in range(draw.randrange(1, 4))]
            await twins.step(("append", sizes, Codec.NONE, TimestampType.CREATE_TIME))
        for _ in range(400):
            await twins.step(("read", draw.random(), draw.choice([1, 1, draw.random()]), draw.randrange(6000), True))
            await twins.step(("time", draw.randrange(310)))
        offset = 0
        while offset < twins.local.logs["t", 0].high_watermark:
            # As a consumer goes on, and as one that asks for its last record again.
            data = twins.both(lambda log, offset=offset: log.read(offset, max_bytes=draw_bytes))
            offset = [header.last_offset for header, _ in iter_batches(data)][-1]
            twins.both(lambda log, offset=offset: log.read(offset, max_bytes=1))
            offset += 1
        await twins.local.close()

    asyncio.run(run())
