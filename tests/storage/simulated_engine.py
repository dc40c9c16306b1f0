"""A local engine on a simulated disk, and small steps that its tests share."""

import asyncio
import uuid

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import decode_batch, iter_batches
from tests.storage.simulated_disk import SimulatedDisk

TOPIC_ID = uuid.UUID(int=7)
SMALL = {
    "journal_file_bytes": 16384,
    "first_journal_file_bytes": 4096,
    "checkpoint_bytes": 16384,
    "ballast_bytes": 2048,
    "gulp_bytes": 1,
}
"""Sizes at which everything happens soon: what is acknowledged is brought to its segment at once."""


def engine_on(disk, new_uuid, monotonic=lambda: 0.0, sizes=None):
    """An engine on a simulated disk, not yet open."""
    return LocalEngine(
        "/data", node_id=1, new_uuid=new_uuid, files=disk, threaded=False, monotonic=monotonic, sizes=sizes
    )


class Simulated:
    """An engine on a simulated disk, with a clock that the test moves."""

    def __init__(self, new_uuid):
        self.disk = SimulatedDisk(seed=1)
        self.now = 0.0
        self.new_uuid = new_uuid
        self.fatal = []
        self.trace = []
        self.engine = None

    def watch(self):
        """Note every operation of the disk from here on; return the list."""
        self.trace.clear()
        self.disk.before = lambda operation, path: self.trace.append((operation, path.removeprefix("/data/")))
        return self.trace

    def fail(self, *operations, **options):
        self.disk.fail(*operations, **options)

    def work_again(self):
        """No operation fails."""
        self.disk.before = lambda operation, path: None

    async def open(self, **options):
        sizes = Sizes(**(SMALL | options))
        self.engine = engine_on(self.disk, self.new_uuid, lambda: self.now, sizes)
        self.engine.on_fatal = self.fatal.append
        await self.engine.open()
        return self.engine

    async def reopen(self, *, kill=False):
        await self.end(kill=kill)
        return await self.open()

    async def end(self, *, kill):
        """Kill the process, or close the engine."""
        if kill:
            self.disk.kill()
        else:
            await self.engine.close()

    async def settle(self):
        """Let what is acknowledged come to its segments."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def log(self, partition=0, topic_id=TOPIC_ID, topic="t", **config):
        return await self.engine.open_log(topic, topic_id, partition, LogConfig(**config))

    async def filled(self, appends, count, partition=0, **config):
        """Open a log and append ``count`` batches of one record."""
        log = await self.log(partition, **config)
        await fill(log, appends, count)
        return log

    async def tick(self):
        """Let the engine do what is due."""
        self.engine.tick()
        await self.settle()

    def content(self, path):
        return self.disk.content("/data/" + path)

    def change(self, path, change):
        """Damage a file behind the engine's back."""
        self.disk.put("/data/" + path, bytes(change(bytearray(self.content(path)))))

    def bases(self, partition=0):
        """The base offsets of a log's segments."""
        names = self.disk.list(f"/data/logs/t-{partition}")
        return sorted(int(name.removesuffix(".log")) for name in names if name.endswith(".log"))


def values(log):
    data = log.read(log.log_start_offset, max_bytes=10**9)
    return [record.value for _, batch in iter_batches(data) for record in decode_batch(batch)]


async def fill(log, appends, count, **options):
    """Append ``count`` batches of one record, each in a group of its own."""
    for _ in range(count):
        before = len(appends.reports)
        appends.add(log, b"value %d" % log.log_end_offset, **options)
        await appends.reported(before + 1)
    for _ in range(5):
        await asyncio.sleep(0)
