"""Snapshots of what partitions remember of producers and transactions, kept by the engine beside the logs.

Without one a start must read a log from its beginning, for transactions that were aborted long ago still have to be
hidden from readers. With one it reads what came after. A snapshot is taken in an orderly stop, and whenever so much was
appended since the last one that reading it again would take a noticeable time.

A snapshot is a help and not the truth: it is thrown away if anything is odd about it. It says up to which offset it
has seen the log, and is kept only once the log is durable so far.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

from ottla.broker.clock import Clock
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.core.topics.snapshot import NotUsable, restore, take
from ottla.broker.engine import EngineError, Snapshots
from ottla.broker.logger import Logger
from ottla.broker.runtime.reading import in_turns, read_when_here
from ottla.protocol.records import LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, PRODUCER_ID_AT, TopicPartition

READ_BYTES = 4 << 20
"""How much of a log is read at a time."""
SNAPSHOT_BYTES = 32 << 20
"""A partition to which so much was appended since its last snapshot gets another one."""
UNSEEN_BYTES = 128 << 20
"""If so much was appended to all of them, those that grew most get another one."""
CHECK_MS = 10_000
"""How often partitions are looked at."""
AT_ONCE = 200
"""So many snapshots are written together when the broker stops."""
_START = struct.Struct(">qi")
_DELTA = struct.Struct(">i")
_NOBODY = b"\xff" * 8


class ProducerStates:
    """See the module.

    Args:
        snapshots: keeps them; without it there are none.
    """

    def __init__(self, snapshots: Snapshots | None, clock: Clock, report: Logger) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._report = report
        self._sizes: dict[TopicPartition, int] = {}
        """How large the log was at the last snapshot."""
        self._saved: dict[TopicPartition, int] = {}
        """Up to which offset there is a snapshot."""
        self._taken: dict[TopicPartition, dict[str, Any]] = {}
        """Snapshots on their way to where they are kept. A partition that is forgotten meanwhile is taken out."""
        self._task: asyncio.Task[None] | None = None

    # Starting

    async def rebuild(self, partition: Partition, *, since_ms: int | None = None) -> None:
        """Bring a partition that has seen nothing to the state of its log.

        Args:
            since_ms: without a snapshot, how far back to read (Unix ms); None reads everything.

        Raises:
            EngineError, BatchError: the log cannot be read.
        """
        log = partition.log
        offset = await self._restored(partition)
        if offset is None:
            offset = log.log_start_offset
            if since_ms is not None:
                found = await in_turns(log.offset_for_timestamp(since_ms))
                offset = log.high_watermark if found is None else found.offset
        now_ms = self._clock.wall_ms()
        while offset < log.high_watermark and (batches := await read_when_here(log, offset, max_bytes=READ_BYTES)):
            offset = _replay(partition, batches, now_ms)
            await asyncio.sleep(0)

    async def _restored(self, partition: Partition) -> int | None:
        tp = partition.tp
        try:
            document = None if self._snapshots is None else self._snapshots.load(tp)
            if document is None:
                return None
            offset = restore(partition, document)
            self._saved[tp] = offset
            self._sizes[tp] = document["size_bytes"]
            return offset
        except OSError as error:
            self._warn("a snapshot of producers cannot be read", tp, error)
        except (NotUsable, ValueError) as error:
            self._warn("a snapshot of producers is of no use", tp, error)
            # What it has seen may be appended anew, and then it would seem to fit.
            await self._try_to_forget(tp)
        return None

    def _warn(self, event: str, tp: TopicPartition, reason: object) -> None:
        self._report.warning(event, topic=tp.topic, partition=tp.partition, reason=str(reason))

    # Running

    def start(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Look after the partitions that there are, from now on."""
        if self._snapshots is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(partitions))

    async def _run(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        while True:
            await asyncio.sleep(CHECK_MS / 1000)
            grown = {}
            for partition in partitions():
                tp, size_bytes = partition.tp, partition.log.size_bytes
                # Where old segments have gone meanwhile it counts from what is left.
                known = self._sizes[tp] = min(self._sizes.get(tp, 0), size_bytes)
                if size_bytes > known:
                    grown[partition] = size_bytes - known
            unseen = sum(grown.values())
            for partition in sorted(grown, key=grown.__getitem__, reverse=True):
                if grown[partition] >= SNAPSHOT_BYTES or unseen >= UNSEEN_BYTES:
                    unseen -= grown[partition]
                    await self._save_when_durable(partition)

    async def _save_when_durable(self, partition: Partition) -> None:
        tp, document, failures, log = partition.tp, take(partition), partition.failures, partition.log
        self._taken[tp] = document
        try:
            while log.high_watermark < document["offset"]:
                if partition.failures != failures or partition.log is not log:
                    return  # the end that it has seen is not the log's any more, or another node leads it
                await asyncio.sleep(0.05)
            if partition.failures == failures and partition.log is log and self._taken.get(tp) is document:
                await self._save([(partition, document)])
        finally:
            self._let_go(tp, document)

    async def stop(self, partitions: Iterable[Partition]) -> None:
        """Take a last snapshot of every partition that has one to take. Nothing may be on its way to the logs."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._snapshots is None:
            return
        due = [partition for partition in partitions if self._is_due(partition)]
        for start in range(0, len(due), AT_ONCE):
            await self._save([(partition, take(partition)) for partition in due[start : start + AT_ONCE]])

    def _is_due(self, partition: Partition) -> bool:
        """Whether there is something that no snapshot has seen, and nothing on its way."""
        log = partition.log
        end = log.log_end_offset
        if partition.standing is not Standing.LEADING or log.high_watermark < end or end <= log.log_start_offset:
            return False
        return self._saved.get(partition.tp) != end

    async def forget(self, tp: TopicPartition) -> None:
        """The partition is gone, or its snapshot says what is not true any more.

        Raises:
            OSError, EngineError: there may still be a snapshot.
        """
        self._taken.pop(tp, None)
        self._sizes.pop(tp, None)
        self._saved.pop(tp, None)
        if self._snapshots is not None:
            await self._snapshots.remove(tp)

    async def _try_to_forget(self, tp: TopicPartition) -> None:
        try:
            await self.forget(tp)
        except (OSError, EngineError) as error:
            self._warn("a snapshot of producers could not be removed", tp, error)

    async def _save(self, documents: list[tuple[Partition, dict[str, Any]]]) -> None:
        assert self._snapshots is not None
        found = {partition.tp: document for partition, document in documents}
        self._sizes |= {tp: document["size_bytes"] for tp, document in found.items()}
        self._taken |= found
        errors = await self._snapshots.save(found)
        for tp, document in found.items():
            still_true = self._let_go(tp, document)
            if tp in errors:
                self._warn("a snapshot of producers could not be written", tp, errors[tp])
            elif still_true:
                self._saved[tp] = document["offset"]
            else:
                await self._try_to_forget(tp)

    def _let_go(self, tp: TopicPartition, document: dict[str, Any]) -> bool:
        """Nothing more is done with what was taken; whether the partition was not forgotten meanwhile."""
        if self._taken.get(tp) is not document:
            return False
        del self._taken[tp]
        return True


def _replay(partition: Partition, batches: bytes, now_ms: int) -> int:
    """Replay whole batches, passing over those without a producer quickly; returns the offset after them."""
    view, position, offset = memoryview(batches), 0, 0
    while position < len(batches):
        base_offset, length = _START.unpack_from(batches, position)
        end = position + LOG_OVERHEAD + length
        if batches.startswith(_NOBODY, position + PRODUCER_ID_AT):
            offset = base_offset + _DELTA.unpack_from(batches, position + LAST_OFFSET_DELTA_AT)[0] + 1
        else:
            offset = partition.replay(view[position:end], now_ms)
        position = end
    return offset
