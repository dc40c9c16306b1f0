"""A simulated disk that dies at any operation, again and again, under an engine that is asked for everything.

Acknowledged means recovered, and what was acknowledged and is damaged means refusal. Every run is one seed.
"""

import asyncio
import contextlib
import errno
import os
import random
import uuid
from dataclasses import dataclass, field
from unittest import mock

from ottla.broker.engine import Corrupt, Durability, EngineError, LogConfig, StorageFull, Unavailable
from ottla.broker.storage.local.operations import Barrier
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import Record, decode_batch, iter_batches
from ottla.protocol.stored.checkpoint import BadCheckpoint, decode_checkpoint
from ottla.protocol.stored.journal import JournalReader
from tests.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.simulated_engine import engine_on
from tests.support.batches import build_batch

LOGS = 3
LIVES = 6
FAULTS = ["sync", "sync_directory", "write", "open", "rename", "truncate"]


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
    compacted: set[int] = field(default_factory=set)
    """Offsets that compaction has removed: none of them may come back."""
    compacting: list[set[int]] = field(default_factory=list)
    """What compaction was removing when the process died: each is gone as a whole or there as a whole."""


class World:
    """One disk, several lives of an engine on it, and the model that each life is held against."""

    def __init__(self, seed, focus=()):
        self.seed = seed
        self.focus = focus
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
        self.disk.short_writes = self.random.choice([0, 0, 0.1])
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
        self.damages = self.compactions = 0

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
        engine = engine_on(self.disk, self.new_id, lambda: self.now, self.sizes)
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
        logs = [await engine.open_log("t", model.topic_id, i, self.config) for i, model in enumerate(self.models)]
        for log, model in zip(logs, self.models, strict=True):
            self.check_log(log, model)
        for _ in range(self.random.randrange(40)):
            await self.act(engine, logs)
            if self.random.random() < 0.3:
                engine.tick()
            if self.random.random() < 0.2:
                self.look(logs)
            self.now += self.random.choice([0, 0.01, 0.1])
            if fatal:
                await self.after_failure(logs)
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
        if "compaction" in self.focus and self.random.random() < 0.5:
            await self.compact(log, model)
            return
        if "faults" in self.focus and self.random.random() < 0.3:
            self.disk.fail(self.random.choice(FAULTS), times=1)
        if "handles" in self.focus:
            if self.random.random() < 0.3:
                self.disk.fail("open", "list", number=errno.EMFILE, times=self.random.randrange(1, 12))
            action *= 0.97
        if action < 0.75:
            for _ in range(self.random.randrange(1, 6)):
                index = self.random.randrange(LOGS)
                self.append(logs[index], self.models[index])
            if self.random.random() < 0.6:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        elif action < 0.83:
            await self.trim(log, model)
        elif action < 0.86:
            await self.delete(engine, logs, index)
        elif action < 0.88:
            await self.store(engine)
        elif action < 0.93:
            await self.compact(log, model)
        elif action < 0.94:
            # The disk has been idle for long enough to be vouched for.
            self.now += 1
            engine.commit(Barrier(lambda error: None))
            await asyncio.sleep(0)
        elif action < 0.97:
            full = self.random.random() < 0.6
            self.disk.capacity = 0 if full else None
            if full and self.random.random() < 0.7:
                self.disk.capacity = self.disk.used + self.random.randrange(1500)
        else:
            self.disk.fail(self.random.choice(FAULTS), times=1)

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

    async def compact(self, log, model):
        """End the segment, and put every second batch of some closed segments in their place."""
        try:
            await log.roll()
            log.mark_cleaned(log.high_watermark)
            closed = [segment for segment in log.segments() if segment.is_closed]
            closed = closed[self.random.randrange(len(closed) + 1) :][: self.random.randrange(1, 4)]
            if not closed:
                return
            first, end = closed[0].base_offset, closed[-1].next_offset
            start = max(first, log.log_start_offset)
            batches = list(iter_batches(log.read(start, max_bytes=10**9, upto_offset=end))) if start < end else []
            keep = [self.random.random() < 0.5 for _ in batches]
            inside = [header.base_offset >= first for header, _ in batches]
            if not all(inside):
                return
            dropped = set()
            for (header, _), kept in zip(batches, keep, strict=True):
                if not kept:
                    dropped |= set(range(header.base_offset, header.last_offset + 1))
            model.compacting.append(dropped)
            await log.replace(
                first, end, [bytes(batch) for (_, batch), kept in zip(batches, keep, strict=True) if kept]
            )
        except EngineError:
            return
        model.compacting.remove(dropped)
        self.compactions += 1
        model.compacted |= dropped
        for offset in dropped:
            model.acknowledged.pop(offset, None)

    async def after_failure(self, logs):
        """Nothing is acknowledged any more."""
        for log in logs:
            log.append(
                build_batch([Record(value=b"late")]),
                count=1,
                max_timestamp_ms=-1,
                done=lambda base_offset, error: self.check(error is not None, "acknowledged after a failed sync"),
            )
        for _ in range(3):
            await asyncio.sleep(0)

    def look(self, logs):
        """A reader sees what is acknowledged, all of it, wherever it lies at the moment."""
        for log, model in zip(logs, self.models, strict=True):
            with contextlib.suppress(EngineError):
                found = set()
                for header, batch in iter_batches(log.read(log.log_start_offset, max_bytes=10**9)):
                    found |= {(record.offset, record.value) for record in decode_batch(batch)}
                    self.check(header.last_offset < log.high_watermark, "a reader sees what is not durable")
                for offset, value in model.acknowledged.items():
                    in_doubt = any(offset in dropped for dropped in model.compacting)
                    if offset >= log.log_start_offset and not in_doubt:
                        self.check((offset, value) in found, f"offset {offset} cannot be read")

    async def delete(self, engine, logs, index):
        # The catalog forgets a topic before its logs are deleted: from here on only a new topic has the name.
        self.models[index] = Model(self.new_id())
        with contextlib.suppress(EngineError):
            await engine.delete_log(logs[index].tp)
        logs[index] = await engine.open_log("t", self.models[index].topic_id, index, self.config)

    async def store(self, engine):
        self.catalogs.append({"number": len(self.catalogs)})
        document = self.catalogs[-1]
        try:
            await engine.catalog.store(document, over=engine.catalog.version)
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
            removed = model.compacted.union(*model.compacting)
            missing = set(range(expected, header.base_offset)) if expected is not None else set()
            self.check(missing <= removed, "offsets with a gap")
            self.check(expected is None or expected <= header.base_offset, "offsets that do not rise")
            expected = header.last_offset + 1
            self.check(header.partition_leader_epoch < self.epoch, "a batch from the future")
            found |= {record.offset: record.value for record in decode_batch(batch)}
        if log.log_end_offset - 1 not in model.compacted.union(*model.compacting):
            self.check(expected in (None, log.log_end_offset), "the end is not the end")
        # One that failed may have left everything as it was, and a later one have removed some of the same.
        for dropped in reversed(model.compacting):
            there = {offset for offset in dropped - model.compacted if offset >= log.log_start_offset}
            self.check(there <= set(found) or not there & set(found), "compacted by half")
            if not there <= set(found):
                model.compacted |= there
                model.acknowledged = {o: value for o, value in model.acknowledged.items() if o not in there}
        model.compacting.clear()
        self.check(not model.compacted & set(found), "what compaction removed came back")
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

    # --- damage ---

    def damage_what_was_acknowledged(self):
        """Flip a bit of what a later frame vouches for; return what puts it right, None if there is no such thing."""
        try:
            checkpoint = decode_checkpoint(self.disk.content("/data/checkpoint"), "")
        except (OSError, BadCheckpoint):
            return None
        if checkpoint.clean or checkpoint.epoch < 0:
            return None
        reader = JournalReader(self.disk, "/data/journal")
        frames = list(reader.frames(checkpoint.lsn))
        first_lsn = reader.first_lsn
        frames += list(reader.frames_beyond())
        certain = [
            frame
            for frame in frames
            if frame.lsn >= first_lsn >= 0
            and frame.lsn < max([checkpoint.synced_lsn, *(other.synced_lsn for other in frames if other is not frame)])
        ]
        if not certain:
            return None
        frame = self.random.choice(certain)
        first_lsn = max(first for first in reader.paths if first <= frame.lsn)
        position = frame.lsn - first_lsn + self.random.randrange(40 + len(frame.body))
        return self.flip(reader.paths[first_lsn], position)

    def flip(self, path, position):
        bit = 1 << self.random.randrange(8)

        def change():
            content = bytearray(self.disk.content(path))
            content[position] ^= bit
            self.disk.put(path, content)

        change()
        return change

    async def is_refused(self):
        """Whether the directory is refused as damaged."""
        engine = engine_on(self.disk, self.new_id, sizes=self.sizes)
        try:
            await engine.open()
        except Corrupt as error:
            self.check("--accept-loss" in str(error), "a refusal that does not say what to do")
            return True
        return False

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
        if self.random.random() < 0.15 and (repair := self.damage_what_was_acknowledged()) is not None:
            self.damages += 1
            self.check(asyncio.run(self.is_refused()), "what was acknowledged is damaged, and nobody is told")
            self.disk.kill()
            repair()

    def live_and_die(self):
        """One life, which ends at a random operation or later; tell how."""
        self.disk.crash_at = self.disk.operations + self.random.choice([30, 100, 300, 10**6])
        self.disk.crash_at -= self.random.randrange(30)
        how = asyncio.run(self.live())
        self.end_life(how)
        return how


def run(seed, focus=()):
    """The lives of one seed, and a last one that only looks; return how they ended and how often damage was refused."""
    world = World(seed, focus)
    # The lock names the process: a number of more digits would make another world of the same seed.
    with mock.patch.object(os, "getpid", return_value=12345):
        ends = [world.live_and_die() for _ in range(LIVES)]
        world.disk.crash_at = None
        world.random.seed(1)
        asyncio.run(world.live())
    return ends, world.damages
