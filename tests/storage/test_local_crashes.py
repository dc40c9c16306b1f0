"""Acknowledged means recovered: a simulated disk dies at any operation, again and again, and nothing may be missing.

Every run is one seed, which is the test's parameter: run it again with ``-k`` and it dies at the same place.
"""

import asyncio
import contextlib
import errno
import os
import random
import uuid
from dataclasses import dataclass, field

import pytest

from ottla.broker.storage.engine import Durability, EngineError, LogConfig, StorageFull, Unavailable
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.simulated import SimulatedCrash, SimulatedDisk
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import Record, build_batch, decode_batch, iter_batches

LOGS = 3
LIVES = 6


@dataclass
class Model:
    """What the world outside knows of one log."""

    topic_id: uuid.UUID
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Values by offset: none of these may ever be missing from the log start on."""
    attempted: set[tuple[int, bytes]] = field(default_factory=set)
    refused: set[tuple[int, bytes]] = field(default_factory=set)
    log_start: int = 0
    trims: set[int] = field(default_factory=lambda: {0})


class World:
    """One disk, several lives of an engine on it, and the model that each life is held against."""

    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.disk = SimulatedDisk(seed=seed)
        self.durability = self.random.choice([*Durability, Durability.FSYNC, Durability.FSYNC])
        self.config = LogConfig(
            segment_bytes=self.random.choice([300, 1500, 10**6]),
            index_interval_bytes=self.random.choice([0, 200, 4096]),
            durability=self.durability,
        )
        self.sizes = Sizes(
            journal_file_bytes=self.random.choice([4096, 16384]),
            first_journal_file_bytes=self.random.choice([1024, 4096]),
            checkpoint_bytes=self.random.choice([1500, 6000, 20000]),
            checkpoint_ms=self.random.choice([100, 10_000]),
            ballast_bytes=self.random.choice([0, 2000]),
            gulp_bytes=self.random.choice([1, 1000, 10**6]),
            most_readers=2,
            most_writers=2,
        )
        # Batches of one size make segments of one size, which must not be taken for each other.
        self.uniform = self.random.random() < 0.3
        self.ids = 0
        self.models = [Model(self.new_id()) for _ in range(LOGS)]
        self.catalog = None
        self.catalogs = [None]
        self.epoch = -1
        self.cluster_id = None
        self.values = 0
        self.now = 0.0

    def new_id(self):
        self.ids += 1
        return uuid.UUID(int=self.ids)

    def check(self, condition, what):
        assert condition, f"seed {self.seed}: {what}"

    # --- one life ---

    async def live(self):
        """Open, check what is there, work until the disk dies or enough is done; return how it ended."""
        loop = asyncio.get_running_loop()
        crashed = loop.create_future()

        def noticed(loop, context):
            error = context.get("exception")
            if isinstance(error, SimulatedCrash) and not crashed.done():
                crashed.set_result(None)
            elif not isinstance(error, (SimulatedCrash, EngineError)):
                loop.default_exception_handler(context)
                broken.append(context)

        broken = []
        loop.set_exception_handler(noticed)
        life = asyncio.ensure_future(self.work())
        await asyncio.wait({life, crashed}, return_when=asyncio.FIRST_COMPLETED)
        self.check(not broken, broken)
        if not life.done():
            life.cancel()
            return "crashed"
        if isinstance(life.exception(), SimulatedCrash):
            return "crashed"
        return life.result()

    async def work(self):
        engine = LocalEngine(
            "/data",
            node_id=1,
            new_uuid=self.new_id,
            files=self.disk,
            threaded=False,
            monotonic=lambda: self.now,
            sizes=self.sizes,
        )
        fatal = []
        engine.on_fatal = fatal.append
        await engine.open()
        self.check(engine.leader_epoch > self.epoch, "the epoch did not rise")
        self.epoch = engine.leader_epoch
        self.check(self.cluster_id in (None, engine.cluster_id), "the cluster id changed")
        self.cluster_id = engine.cluster_id
        self.check(engine.catalog.load() in self.catalogs, "a catalog that was never stored")
        self.check(
            self.catalogs.index(engine.catalog.load()) >= self.catalogs.index(self.catalog), "an old catalog came back"
        )
        self.catalog = engine.catalog.load()
        logs = [engine.open_log("t", model.topic_id, i, self.config) for i, model in enumerate(self.models)]
        for log, model in zip(logs, self.models, strict=True):
            self.check_log(log, model)
        for _ in range(self.random.randrange(40)):
            await self.act(engine, logs)
            if self.random.random() < 0.3:
                engine.tick()
            self.now += self.random.choice([0, 0.01, 0.1])
            if fatal:
                return "failed"
        if self.random.random() < 0.5:
            await engine.close()
            return "closed"
        await asyncio.sleep(0)
        return "killed"

    async def act(self, engine, logs):
        index = self.random.randrange(LOGS)
        log, model = logs[index], self.models[index]
        action = self.random.random()
        if action < 0.75:
            for _ in range(self.random.randrange(1, 6)):
                index = self.random.randrange(LOGS)
                self.append(logs[index], self.models[index])
            if self.random.random() < 0.6:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        elif action < 0.83:
            await self.trim(log, model)
        elif action < 0.88:
            await self.delete(engine, logs, index)
        elif action < 0.93:
            await self.store(engine)
        elif action < 0.97:
            full = self.random.random() < 0.6
            self.disk.capacity = 0 if full else None
            if full and self.random.random() < 0.7:
                self.disk.capacity = self.disk.used + self.random.randrange(1500)
        else:
            self.fail_next(self.random.choice(["sync", "sync_directory", "write", "open", "rename", "truncate"]))

    def fail_next(self, operation):
        def before(name, path):
            if name == operation:
                self.disk.before = lambda name, path: None
                raise OSError(errno.EIO, "input/output error", path)

        self.disk.before = before

    def append(self, log, model):
        values = []
        for _ in range(1 if self.uniform else self.random.randrange(1, 4)):
            self.values += 1
            values.append(b"%06d" % self.values + b"v" * (0 if self.uniform else self.random.choice([0, 10, 600])))
        batch = build_batch([Record(0, self.values, None, value) for value in values])

        def done(base_offset, error):
            self.check(base_offset == base, "another base offset")
            pairs = [(base + position, value) for position, value in enumerate(values)]
            if error is None:
                self.check(log.high_watermark >= base + len(values), "done before the high watermark moved")
                model.acknowledged.update(pairs)
            elif isinstance(error, (StorageFull, Unavailable)):
                model.refused.update(pairs)

        base = log.append(batch, count=len(values), max_timestamp_ms=self.values, done=done)
        model.attempted.update((base + position, value) for position, value in enumerate(values))

    async def trim(self, log, model):
        offset = self.random.randint(log.log_start_offset, log.high_watermark)
        model.trims.add(offset)
        try:
            model.log_start = max(await log.trim(offset), model.log_start)
        except EngineError:
            return

    async def delete(self, engine, logs, index):
        # The catalog forgets a topic before its logs are deleted: from here on only a new topic has the name.
        self.models[index] = Model(self.new_id())
        with contextlib.suppress(EngineError):
            await engine.delete_log(logs[index].tp)
        logs[index] = engine.open_log("t", self.models[index].topic_id, index, self.config)

    async def store(self, engine):
        self.catalogs.append({"number": len(self.catalogs)})
        document = self.catalogs[-1]
        try:
            await engine.catalog.store(document)
        except EngineError:
            return
        self.catalog = document

    # --- the law ---

    def check_log(self, log, model):
        self.check(log.log_start_offset >= model.log_start, "trimmed records came back")
        self.check(log.log_start_offset in model.trims, "a log start that nobody asked for")
        self.check(log.high_watermark == log.log_end_offset, "something is not durable after recovery")
        found = {}
        data = log.read(log.log_start_offset, max_bytes=10**9)
        expected = None
        for header, batch in iter_batches(data):
            self.check(expected in (None, header.base_offset), "offsets with a gap")
            expected = header.last_offset + 1
            self.check(header.partition_leader_epoch < self.epoch, "a batch from the future")
            found |= {record.offset: record.value for record in decode_batch(batch)}
        self.check(expected in (None, log.log_end_offset), "the end is not the end")
        for offset, value in found.items():
            self.check((offset, value) in model.attempted, f"offset {offset}: a record that nobody wrote")
            written_again = model.acknowledged.get(offset) == value
            self.check((offset, value) not in model.refused or written_again, f"offset {offset} had been refused")
        for offset, value in model.acknowledged.items():
            if offset >= log.log_start_offset:
                self.check(found.get(offset) == value, f"offset {offset} was acknowledged and is lost")
        # What is there has been shown, so it must stay.
        model.acknowledged = found
        model.log_start = log.log_start_offset

    def end_life(self, how):
        power = self.random.random() < 0.6 and how != "closed"
        if power:
            self.disk.lose_power()
            if self.durability is not Durability.FSYNC:
                for model in self.models:
                    # These policies promise nothing then, but for what was there when the engine was opened last.
                    model.acknowledged.clear()
        else:
            self.disk.kill()
        self.disk.capacity = None


@pytest.mark.parametrize("seed", range(int(os.environ.get("N", "200"))))
def test_acknowledged_means_recovered(seed):
    world = World(seed)
    for _ in range(LIVES):
        world.disk.crash_at = world.disk.operations + world.random.choice([30, 100, 300, 10**6])
        world.disk.crash_at -= world.random.randrange(30)
        how = asyncio.run(world.live())
        world.end_life(how)
    world.disk.crash_at = None
    world.random.seed(1)
    asyncio.run(world.live())


def test_the_runs_reach_what_they_are_meant_to_reach():
    """Crashes, clean ends and fatal errors all happen, or the test above says little."""
    ends = []
    for seed in range(60):
        world = World(seed)
        for _ in range(LIVES):
            world.disk.crash_at = world.disk.operations + 40 + world.random.randrange(200)
            ends.append(asyncio.run(world.live()))
            world.end_life(ends[-1])
    assert {end: ends.count(end) >= 10 for end in set(ends)} == dict.fromkeys(
        ("crashed", "closed", "failed", "killed"), True
    )
