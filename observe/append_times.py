"""Times of appends: they tell the age of a record, however its producer set its timestamp.

Each time a high watermark moves, a point is noted: up to which offset, and when. A partition keeps a bounded number of
points. When there are too many, each two of the older half become one, so the newest are exact and the oldest say
between which two times a record came; what is kept reaches back to when noting began.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict

from ottla.protocol.records import TopicPartition

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
