"""Counts of durations by powers of two of a nanosecond: adding one costs a list item and no search."""

from __future__ import annotations

from collections.abc import Sequence

BITS = range(14, 39, 2)
"""The bounds that are shown: 2**14 ns (16 µs), 65 µs, 262 µs, 1 ms … 275 s, each four times the one before."""

BOUNDS_SECONDS = tuple(2**bits / 1e9 for bits in BITS)


class Durations:
    """A histogram.

    Attributes:
        counts: how many durations took so many bits to write down in nanoseconds.
        total_ns: their sum.
    """

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * 65
        self.total_ns = 0

    def add(self, nanoseconds: int, times: int = 1) -> None:
        """Count a duration."""
        if nanoseconds < 0:
            nanoseconds = 0
        self.counts[nanoseconds.bit_length()] += times
        self.total_ns += nanoseconds * times

    def buckets(self) -> Sequence[tuple[str, float]]:
        """Upper bound and how many were not longer, as Prometheus has them; the last is how many there were."""
        found, reached, at = [], 0, 0
        counts = list(self.counts)  # others go on counting
        for bits, bound in zip(BITS, BOUNDS_SECONDS, strict=True):
            reached += sum(counts[at : bits + 1])
            at = bits + 1
            found.append((f"{bound:.9g}", float(reached)))
        return [*found, ("+Inf", float(sum(counts)))]
