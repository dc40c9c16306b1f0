"""The engine with its threads on a real disk: whoever reads meanwhile sees all that is acknowledged, and in order."""

import asyncio
import random

from ottla.broker.engine import Durability, LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import Record, decode_batch, iter_batches
from tests.storage.simulated_engine import TOPIC_ID
from tests.support.batches import build_batch

SIZES = Sizes(
    journal_file_bytes=256 * 1024,
    first_journal_file_bytes=16 * 1024,
    checkpoint_bytes=100_000,
    ballast_bytes=4096,
    gulp_bytes=3000,
    tail_bytes=50_000,
    most_readers=2,
    most_writers=2,
)


async def open_logs(engine):
    """A log for each policy."""
    config = {"segment_bytes": 20_000, "index_interval_bytes": 500}
    return [
        await engine.open_log("t", TOPIC_ID, partition, LogConfig(**config, durability=durability))
        for partition, durability in enumerate(Durability)
    ]


class Busy:
    """Logs that are appended to, read, compacted and trimmed all at the same time."""

    def __init__(self, logs, seed):
        self.draw = random.Random(seed)
        self.logs = logs
        self.gone = {log: set() for log in self.logs}
        self.reads = self.compactions = 0
        self.is_over = False

    async def write(self, log, batches):
        loop = asyncio.get_running_loop()
        for number in range(batches):
            done = loop.create_future()
            count = self.draw.randrange(1, 4)
            value = b"%d" % log.log_end_offset + b"." * self.draw.choice([0, 100, 5000])
            batch = build_batch([Record(0, number, None, value) for _ in range(count)])
            log.append(
                batch,
                count=count,
                max_timestamp_ms=number,
                done=lambda base, error, done=done: done.done() or done.set_result(error),
            )
            if self.draw.random() < 0.5:
                assert await done is None

    async def read(self, log):
        while not self.is_over:
            start = self.draw.randint(log.log_start_offset, log.high_watermark)
            # Compaction that is under way may show its result at any moment.
            before, upto = set(self.gone[log]), log.high_watermark
            seen, due = 0, start
            for header, batch in iter_batches(log.read(start, max_bytes=self.draw.choice([1, 2000, 10**6]))):
                missing = set(range(due, header.base_offset))
                assert missing <= before | self.gone[log], f"offsets {sorted(missing)[:5]} are missing"
                records = decode_batch(batch)
                assert all(record.value.startswith(b"%d" % header.base_offset) for record in records)
                due = header.last_offset + 1
                seen += 1
            assert seen or set(range(start, upto)) <= self.gone[log]
            self.reads += 1
            await asyncio.sleep(0)

    async def compact(self, log):
        while not self.is_over:
            await asyncio.sleep(0.02)
            closed = [segment for segment in log.segments() if segment.is_closed][:3]
            if len(closed) < 2 or closed[0].base_offset < log.log_start_offset:
                continue
            first, end = closed[0].base_offset, closed[-1].next_offset
            batches = list(iter_batches(log.read(first, max_bytes=10**9, upto_offset=end)))
            keep = [(header, bytes(batch)) for header, batch in batches if header.base_offset % 3]
            kept = {offset for header, _ in keep for offset in range(header.base_offset, header.last_offset + 1)}
            self.gone[log] |= set(range(first, end)) - kept
            await log.replace(first, end, [batch for _, batch in keep])
            self.compactions += 1
            if self.draw.random() < 0.2:
                await log.trim(self.draw.randint(first, end))


async def test_readers_see_everything_while_everything_goes_on(tmp_path, new_uuid):
    engine = LocalEngine(str(tmp_path), node_id=1, new_uuid=new_uuid, sizes=SIZES)
    await engine.open()
    busy = Busy(await open_logs(engine), seed=3)
    others = [
        asyncio.ensure_future(job) for log in busy.logs for job in (busy.read(log), busy.read(log), busy.compact(log))
    ]
    writers = [busy.write(log, 150) for log in busy.logs for _ in range(2)]
    # The others end by themselves only when they find something.
    done, _ = await asyncio.wait([asyncio.gather(*writers), *others], return_when=asyncio.FIRST_COMPLETED, timeout=60)
    assert done
    for job in done:
        job.result()
    busy.is_over = True
    await asyncio.gather(*others)
    starts = [log.log_start_offset for log in busy.logs]
    ends = [log.log_end_offset for log in busy.logs]
    held = [log.read(log.log_start_offset, max_bytes=10**9) for log in busy.logs]
    await engine.close()
    assert busy.reads > 100
    assert busy.compactions > 1
    again = LocalEngine(str(tmp_path), node_id=1, new_uuid=new_uuid, sizes=SIZES)
    await again.open()
    assert again.was_clean
    logs = await open_logs(again)
    assert [log.log_start_offset for log in logs] == starts
    assert [log.log_end_offset for log in logs] == ends
    assert [log.read(log.log_start_offset, max_bytes=10**9) for log in logs] == held
    await again.close()
