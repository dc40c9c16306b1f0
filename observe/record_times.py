"""Times of appends: they tell the age of a record, however its producer set its timestamp.

Each time a high watermark moves, a point is noted: up to which offset, and when. A partition keeps a bounded number of
points. When there are too many, each two of the older half become one, so the newest are exact and the oldest say
between which two times a record came; what is kept reaches back to when noting began.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from contextlib import suppress

from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import EngineError, NotHere
from ottla.protocol.records import BatchError, TimestampType, TopicPartition, parse_header

POINTS = 256
"""Points kept of a partition, at most: 4 KiB."""


class AppendTimes:
    """Points of many partitions. Times are Unix milliseconds.

    Args:
        max_partitions: of so many points are kept; the one that was written to the longest ago is forgotten first.
    """

    def __init__(self, max_partitions: int) -> None:
        self._max_partitions = max(1, max_partitions)
        self._points: OrderedDict[TopicPartition, _Points] = OrderedDict()  # the one written to last at the end
        self._has_forgotten = False

    def __len__(self) -> int:
        return len(self._points)

    def begin(self, tp: TopicPartition, high_watermark: int, wall_ms: int) -> None:
        """Note from now on what is appended to a partition that is there already."""
        if tp not in self._points:
            self._add(tp, high_watermark, wall_ms)

    def note(self, tp: TopicPartition, high_watermark: int, wall_ms: int) -> None:
        """Everything below ``high_watermark`` is there now. A partition that is not known is a new one."""
        points = self._points.get(tp)
        if points is None:
            points = self._add(tp, high_watermark if self._has_forgotten else 0, wall_ms - 1)
        else:
            self._points.move_to_end(tp)
        points.note(high_watermark, wall_ms)

    def between(self, tp: TopicPartition, offset: int) -> tuple[int, int] | None:
        """The earliest and the latest time at which a record may have come; the same where that is exactly known.

        None if it came before noting began, or is not there.
        """
        points = self._points.get(tp)
        return None if points is None else points.between(offset)

    def forget(self, tp: TopicPartition) -> None:
        """A log is gone."""
        self._points.pop(tp, None)

    def _add(self, tp: TopicPartition, high_watermark: int, wall_ms: int) -> _Points:
        if len(self._points) >= self._max_partitions:
            self._points.popitem(last=False)
            self._has_forgotten = True
        points = self._points[tp] = _Points(high_watermark, wall_ms)
        return points


class _Points:
    """Offsets that rise, and when they were reached. The first was there when noting began.

    Attributes:
        merged: so many points after the first are made of several.
    """

    __slots__ = ("merged", "offsets", "times_ms")

    def __init__(self, high_watermark: int, wall_ms: int) -> None:
        self.offsets = array("q", [high_watermark])
        self.times_ms = array("q", [wall_ms])
        self.merged = 0

    def note(self, high_watermark: int, wall_ms: int) -> None:
        if high_watermark <= self.offsets[-1]:
            return
        if wall_ms <= self.times_ms[-1] and len(self.offsets) > 1:
            self.offsets[-1] = high_watermark
            return
        self.offsets.append(high_watermark)
        self.times_ms.append(wall_ms)
        if len(self.offsets) > POINTS:
            half = POINTS // 2
            for values in (self.offsets, self.times_ms):
                values[1 : half + 1] = values[2 : half + 1 : 2]
            self.merged = half // 2

    def between(self, offset: int) -> tuple[int, int] | None:
        index = bisect_right(self.offsets, offset)
        if not index or index == len(self.offsets):
            return None
        latest_ms = self.times_ms[index]
        return (self.times_ms[index - 1] if index <= self.merged else latest_ms), latest_ms


CACHED = 20_000
"""Offsets whose time is remembered: most groups of a partition that stand still are asked about again and again."""


class RecordTimes:
    """Times at which records were appended, in Unix milliseconds.

    Exact where the append was noted by `AppendTimes`, and where the topic has ``message.timestamp.type=LogAppendTime``.
    Else it is the first timestamp of the record's batch, as its producer set it; where the append is known to have been
    between two times, within these.

    Attributes:
        noted: None while nobody notes.
    """

    def __init__(self) -> None:
        self.noted: AppendTimes | None = None
        self._read: dict[tuple[TopicPartition, int], int | None] = {}

    def appended_ms(self, partition: Partition, offset: int) -> int | None:
        """The time at which the record of an offset came; None if that cannot be known."""
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
