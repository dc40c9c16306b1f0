"""Folds time into width: quiet time is short, and a rebalance is as wide as the logarithm of its length.

The page draws with the same rule (console/timeline-scale.js).
"""

from __future__ import annotations

from bisect import bisect_right
from math import log2

from ottla.observe.timeline.model import Mark, Timeline

LEAST_MS, MOST_MS = 20, 5_000
QUIET_SLOPE, SLOPE = 0.25, 1.0
LEAST_WIDTH = 0.6


class Scale:
    """Straight pieces from time to width. ``total`` is the width of everything."""

    def __init__(self, timeline: Timeline) -> None:
        self._times = [0]
        self._widths = [0.0]
        until = timeline.until
        lengths = sorted(end_of(mark, until) - mark.start for mark in timeline.marks if mark.kind == "rebalance")
        self._unit = min(max(lengths[len(lengths) // 2] if lengths else 1_000, LEAST_MS), MOST_MS)
        for mark in sorted(timeline.marks, key=lambda one: one.start):
            self._add(mark.start, 0, QUIET_SLOPE)
            end = max(end_of(mark, until), mark.start)
            if end > self._times[-1] or mark.start == end:
                self._add(max(end, self._times[-1] + 1), LEAST_WIDTH, SLOPE)
        self._add(until, 0 if timeline.marks else 1, QUIET_SLOPE)
        self.total = self._widths[-1]

    def _add(self, time: int, least: float, slope: float) -> None:
        length = time - self._times[-1]
        if length <= 0:
            return
        units = length / self._unit
        self._times.append(time)
        self._widths.append(self._widths[-1] + max(units if units <= 1 else 1 + slope * log2(units), least))

    def width(self, time: float) -> float:
        """The place of a time."""
        return _between(self._times, self._widths, time)

    def time(self, width: float) -> float:
        """The time at a place."""
        return _between(self._widths, self._times, width)


def _between(known: list[int] | list[float], wanted: list[int] | list[float], value: float) -> float:
    index = min(max(bisect_right(known, value) - 1, 0), len(known) - 2)
    if index < 0:
        return 0.0
    part = (value - known[index]) / (known[index + 1] - known[index])
    return wanted[index] + part * (wanted[index + 1] - wanted[index])


def end_of(mark: Mark, until: int) -> int:
    """The end of an episode; now, if it runs."""
    return until if mark.end < 0 else mark.end
