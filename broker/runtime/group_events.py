"""Writes what happened to groups to ``__ottla_group_events``, beside everything that anybody waits for.

Nobody waits for these records, so they are not synced one by one (``ottla.durability=os``) and come a moment later,
many to a batch. What is on its way is bounded: if the disk cannot keep up, or is full, records are left out and
counted, and the coordinator goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import EngineError
from ottla.broker.logger import Logger
from ottla.broker.settings import Settings
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC
from ottla.protocol.records import BatchBuilder, TopicPartition

LINGER_MS = 20
"""Time that records wait for more of them: the joins of a whole rebalance are one append."""
BATCH_BYTES = 64 << 10
"""Keys and values of this size together are one batch, and as many as are written in one turn of the event loop."""
MOST_BYTES = 4 << 20
"""Keys and values on their way, all together; more are lost."""
SEGMENTS = 16
"""Parts in which what is too old or too much goes."""
SMALLEST_SEGMENT_BYTES = 64 << 10

Row: TypeAlias = tuple[bytes, bytes, int]
"""A record that waits: key, value, timestamp (ms)."""


def topic_configs(settings: Settings) -> dict[str, str]:
    """The settings with which the topic is created.

    The size is bounded, too: where everything is in memory, nothing else would do so.
    """
    retention_bytes = settings.ottla_group_events_topic_retention_bytes
    segment_bytes = 16 << 20
    if retention_bytes >= 0:
        segment_bytes = min(segment_bytes, max(retention_bytes // SEGMENTS, SMALLEST_SEGMENT_BYTES))
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "ottla.durability": "os",
        "retention.bytes": str(retention_bytes),
        "retention.ms": str(settings.ottla_group_events_topic_retention_ms),
        "segment.bytes": str(segment_bytes),
        "segment.ms": str(24 * 60 * 60 * 1000),
    }


class GroupEventLog:
    """See the module.

    Args:
        most_bytes: on their way; more are lost.

    Attributes:
        lost: how many records were left out since the start.
        written: how many were appended.
    """

    def __init__(self, report: Logger, *, most_bytes: int = MOST_BYTES) -> None:
        self.lost = 0
        self.written = 0
        self._report = report
        self._most_bytes = most_bytes
        self._queued: deque[Row] = deque()
        self._size_bytes = 0  # queued, or appended and not done
        self._losing = 0
        self._clock: Clock | None = None
        self._partition: Callable[[TopicPartition], Partition | None]
        self._partitions = 0
        self._max_batch_bytes = BATCH_BYTES
        self._timer: TimerHandle | None = None
        self._closed = False

    def begin(
        self,
        partition: Callable[[TopicPartition], Partition | None],
        partitions: int,
        clock: Clock,
        *,
        max_batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Write from now on: the topic is there.

        Args:
            partition: finds one of the topic; partitions: how many it has.
            max_batch_bytes: the largest batch that readers expect; a single record may be larger.
        """
        self._partition, self._partitions, self._clock = partition, partitions, clock.real
        self._max_batch_bytes = min(max_batch_bytes, BATCH_BYTES)
        self._arm()

    def put(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Write a record before long, or leave it out if there are too many."""
        size = len(key) + len(value)
        if self._closed or self._size_bytes + size > self._most_bytes:
            self._lose(1, "storage is behind")
            return
        self._size_bytes += size
        self._queued.append((key, value, timestamp_ms))
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Append what waits; nothing is taken any more."""
        while self._queued and self._clock is not None:
            self._append_some()
        self.silence()

    def silence(self) -> None:
        """Drop what waits, as a killed process does."""
        self._closed = True
        self._queued.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, delay_ms: int = LINGER_MS) -> None:
        if self._timer is None and self._clock is not None and self._queued and not self._closed:
            self._timer = self._clock.call_at(self._clock.monotonic_ms() + delay_ms, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._append_some()
        self._arm(0)  # others have their turn in between

    def _append_some(self) -> None:
        """Append one batch to each partition that something waits for, all together of about ``BATCH_BYTES``."""
        batches: dict[int, list[Row]] = {}
        size = 0
        queued = self._queued
        while queued:
            key, value, _ = queued[0]
            size += len(key) + len(value)
            if size > self._max_batch_bytes and batches:
                break
            index = 0
            if self._partitions > 1:
                index = coordinator_partition(key.decode(), self._partitions)
            batches.setdefault(index, []).append(queued.popleft())
        for index, rows in batches.items():
            self._append(index, rows)

    def _append(self, index: int, rows: list[Row]) -> None:
        size = sum(len(key) + len(value) for key, value, _ in rows)
        partition = self._partition(TopicPartition(GROUP_EVENTS_TOPIC, index))
        if partition is None or partition.standing is not Standing.LEADING:
            self._done(len(rows), size, -1, EngineError(f"{GROUP_EVENTS_TOPIC}-{index} is not served here"))
            return
        builder = BatchBuilder()
        for key, value, timestamp_ms in rows:
            builder.append(key, value, timestamp_ms)
        try:
            partition.log.append(
                builder.build(),
                count=builder.count,
                max_timestamp_ms=builder.max_timestamp_ms,
                done=partial(self._done, len(rows), size),
            )
        except EngineError as error:
            self._done(len(rows), size, -1, error)

    def _done(self, count: int, size: int, base_offset: int, error: Exception | None) -> None:
        self._size_bytes -= size
        if error is not None:
            self._lose(count, str(error))
            return
        self.written += count
        if self._losing:
            self._report.warning("group events are written again", lost=self._losing)
            self._losing = 0

    def _lose(self, count: int, reason: str) -> None:
        self.lost += count
        if not self._losing and not self._closed:
            self._report.warning("group events are lost", topic=GROUP_EVENTS_TOPIC, reason=reason)
        self._losing += count
