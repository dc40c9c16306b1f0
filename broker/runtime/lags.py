"""How old the first record is that a group has not consumed."""

from __future__ import annotations

from contextlib import suppress

from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import EngineError, NotHere
from ottla.broker.runtime.append_times import AppendTimes
from ottla.protocol.records import BatchError, TimestampType, TopicPartition, parse_header

CACHED = 20_000
"""Offsets whose time is remembered: most groups of a partition that stand still are asked about again and again."""


class RecordTimes:
    """When records were appended. Times are Unix milliseconds.

    Exact where the append was noted by `AppendTimes`, and where the topic has ``message.timestamp.type=LogAppendTime``.
    Else it is the first timestamp of the record's batch, as its producer set it; where the append is known to have been
    between two times, within these.

    Args:
        noted: None while nobody notes.
    """

    def __init__(self, noted: AppendTimes | None = None) -> None:
        self.noted = noted
        self._read: dict[tuple[TopicPartition, int], int | None] = {}

    def appended_ms(self, partition: Partition, offset: int) -> int | None:
        """When the record at an offset came, None if that cannot be known."""
        tp = partition.tp
        between = None if self.noted is None else self.noted.between(tp, offset)
        if between is not None and between[0] == between[1]:
            return between[1]
        key = tp, offset
        if key not in self._read:
            if len(self._read) >= CACHED:
                del self._read[next(iter(self._read))]
            with suppress(NotHere):  # it is here when somebody asks again
                self._read[key] = _timestamp_ms(partition, offset)
        stored_ms = self._read.get(key)
        if between is None:
            return stored_ms
        return between[1] if stored_ms is None else min(max(stored_ms, between[0]), between[1])

    def forget(self, topic: str) -> None:
        """A topic is gone."""
        for key in [key for key in self._read if key[0].topic == topic]:
            del self._read[key]


def _timestamp_ms(partition: Partition, offset: int) -> int | None:
    """The time of a stored record, None if it has none or cannot be read. Raises ``NotHere``."""
    try:
        batch = partition.log.read(offset, max_bytes=1)
        header = parse_header(batch) if batch else None
    except (EngineError, BatchError):
        return None
    if header is None:
        return None
    is_exact = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamp_ms = header.max_timestamp if is_exact else header.base_timestamp
    return timestamp_ms if timestamp_ms >= 0 else None
