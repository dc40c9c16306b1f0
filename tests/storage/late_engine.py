"""Engines whose records seem to lie elsewhere: reads come later; in memory appends take long, too, and some fail."""

import asyncio
import random

from ottla.broker.engine import NotHere, Unavailable
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.memory import MemoryEngine


class Lateness:
    """Lets logs be late, as the seed has it, by at most ``delay_s`` each time. ``late_reads`` counts how often."""

    def __init__(self, seed, delay_s):
        self.random = random.Random(seed)
        self.delay_s = delay_s
        self.late_reads = 0
        self._coming = {}
        self._here = set()

    def befall(self, log):
        """From now on most of what is read of ``log`` is not here at first."""
        if "read" in vars(log):
            return
        read, batch_for_timestamp = log.read, log.batch_for_timestamp

        def late_read(start_offset, **options):
            data = read(start_offset, **options)
            return data and self.fetched(log.tp, start_offset, data)

        def late_batch(timestamp_ms, from_offset):
            batch = batch_for_timestamp(timestamp_ms, from_offset)
            return batch and self.fetched(log.tp, from_offset, batch)

        log.read, log.batch_for_timestamp = late_read, late_batch

    def fetched(self, tp, offset, data):
        """``data`` if it is here; else begin to fetch it and raise ``NotHere``."""
        place = tp, offset
        if place in self._here or (place not in self._coming and self.random.random() < 0.3):
            self._here.discard(place)
            return data
        if place not in self._coming:
            self._coming[place] = []
            self.later(lambda: self._come(place))
        self.late_reads += 1
        raise NotHere(self._coming[place].append)

    def everything_comes(self):
        """Nobody waits any longer: the engine ends."""
        for place in list(self._coming):
            self._come(place)

    def later(self, callback):
        return asyncio.get_running_loop().call_later(self.random.random() * self.delay_s, callback)

    async def pause(self):
        await asyncio.sleep(self.random.random() * self.delay_s)

    def _come(self, place):
        waiting = self._coming.pop(place, None)
        if waiting is not None:
            self._here.add(place)
            for callback in waiting:
                callback()


class LateEngine(MemoryEngine):
    """Everything that can wait does. ``failing`` is how often an append fails; ``failed_appends`` counts them."""

    def __init__(self, *, seed, new_uuid, node_id=1, delay_s=0.003, failing=0.0):
        self.lateness = Lateness(seed, delay_s)
        super().__init__(new_uuid=new_uuid, node_id=node_id, call_soon=self.lateness.later, fault=self._fault)
        self.failing = failing
        self.failed_appends = 0

    async def open(self):
        await self.lateness.pause()
        await super().open()

    async def open_log(self, topic, topic_id, partition, config):
        await self.lateness.pause()
        log = await super().open_log(topic, topic_id, partition, config)
        self.lateness.befall(log)
        return log

    async def delete_log(self, tp):
        await super().delete_log(tp)
        await self.lateness.pause()

    def abandon(self):
        super().abandon()
        self.lateness.everything_comes()

    def _fault(self, tp, base_offset):
        if self.lateness.random.random() >= self.failing:
            return None
        self.failed_appends += 1
        return Unavailable("it cannot be reached")


class LateLocalEngine(LocalEngine):
    """Logs in a directory that are late to be opened and read."""

    def __init__(self, data_dir, *, seed, delay_s=0.003, **options):
        super().__init__(data_dir, **options)
        self.lateness = Lateness(seed, delay_s)

    async def open_log(self, topic, topic_id, partition, config):
        await self.lateness.pause()
        log = await super().open_log(topic, topic_id, partition, config)
        self.lateness.befall(log)
        return log

    async def close(self):
        await super().close()
        self.lateness.everything_comes()
