"""A memory engine whose records seem to lie elsewhere: reads come later, appends take long, and some of them fail."""

import asyncio
import random

from ottla.broker.engine import NotHere, Unavailable
from ottla.broker.storage.memory import MemoryEngine, MemoryLog


class LateLog(MemoryLog):
    """What is read of it is not here at first, more often than not."""

    def read(self, start_offset, **options):
        data = super().read(start_offset, **options)
        if data:
            self._engine.fetch(self.tp, start_offset)
        return data

    def batch_for_timestamp(self, timestamp_ms, from_offset):
        batch = super().batch_for_timestamp(timestamp_ms, from_offset)
        if batch is not None:
            self._engine.fetch(self.tp, from_offset)
        return batch


class LateEngine(MemoryEngine):
    """Everything that can wait does, as the seed has it; at most ``delay_s`` each time.

    ``failing`` is how often an append fails. ``late_reads`` and ``failed_appends`` count what happened.
    """

    def __init__(self, *, seed, new_uuid, node_id=1, delay_s=0.003, failing=0.0):
        super().__init__(new_uuid=new_uuid, node_id=node_id, call_soon=self._later, fault=self._fault)
        self.failing = failing
        self.late_reads = self.failed_appends = 0
        self._random = random.Random(seed)
        self._delay_s = delay_s
        self._coming = {}
        self._here = {}

    async def open(self):
        await self._pause()
        await super().open()

    async def open_log(self, topic, topic_id, partition, config):
        await self._pause()
        return await super().open_log(topic, topic_id, partition, config)

    def new_log(self, tp, topic_id, config):
        return LateLog(self, tp, topic_id, config)

    async def delete_log(self, tp):
        await super().delete_log(tp)
        await self._pause()

    def abandon(self):
        super().abandon()
        for place in list(self._coming):
            self._come(place)

    def fetch(self, tp, offset):
        """Pass if what lies there is here; else begin to fetch it and raise ``NotHere``."""
        place = tp, offset
        if self._here.pop(place, False) or (place not in self._coming and self._random.random() < 0.3):
            return
        if place not in self._coming:
            self._coming[place] = []
            self._later(lambda: self._come(place))
        self.late_reads += 1
        raise NotHere(self._coming[place].append)

    def _come(self, place):
        waiting = self._coming.pop(place, None)
        if waiting is not None:
            self._here[place] = True
            for callback in waiting:
                callback()

    def _later(self, callback):
        return asyncio.get_running_loop().call_later(self._random.random() * self._delay_s, callback)

    async def _pause(self):
        await asyncio.sleep(self._random.random() * self._delay_s)

    def _fault(self, tp, base_offset):
        if self._random.random() >= self.failing:
            return None
        self.failed_appends += 1
        return Unavailable("it cannot be reached")
