"""Measures how long a disk takes to make an append durable; it appends as a broker does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_FILL = bytes(1 << 20)
_FEWEST = 10
_MOST = 2_000


class Latency(NamedTuple):
    """Seconds of the appends of one measurement."""

    size: int
    grown: bool
    """Into a file that grows with every append, rather than into one filled with zeros before."""
    appends: int
    append_p50: float
    append_p99: float
    sync_p50: float
    sync_p99: float

    @property
    def total_p50(self) -> float:
        return self.append_p50 + self.sync_p50

    @property
    def total_p99(self) -> float:
        """At most: the slowest append and the slowest sync need not meet."""
        return self.append_p99 + self.sync_p99

    def as_json(self) -> dict[str, Any]:
        """In milliseconds."""
        return {
            "bytes": self.size,
            "into": "growing file" if self.grown else "zero-filled file",
            "appends": self.appends,
            "append_p50_ms": _ms(self.append_p50),
            "append_p99_ms": _ms(self.append_p99),
            "fdatasync_p50_ms": _ms(self.sync_p50),
            "fdatasync_p99_ms": _ms(self.sync_p99),
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 4)


def measure(
    directory: Path,
    *,
    seconds: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
    sync: Callable[[int], None] = os.fdatasync,
) -> list[Latency]:
    """Appends of 4 kB and 64 kB, into space filled with zeros and into a growing file, each for about ``seconds``.

    A temporary file in ``directory`` is used; its name is gone before the first byte is written. Raises OSError.
    """

    def one(size: int, grown: bool) -> Latency:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            path.unlink()
            data = os.urandom(size)
            room = len(_FILL) if grown else _fill(handle, size)
            sync(handle)
            appends: list[float] = []
            syncs: list[float] = []
            deadline = clock() + seconds
            while len(appends) < _MOST and (len(appends) < _FEWEST or clock() < deadline):
                position = len(appends) * size
                if not grown:
                    position %= room  # over what is written already: its blocks are there, too
                begun = clock()
                os.pwrite(handle, data, position)
                written = clock()
                sync(handle)
                appends.append(written - begun)
                syncs.append(clock() - written)
        finally:
            os.close(handle)
        halves = [quantile(times, part) for times in (appends, syncs) for part in (0.5, 0.99)]
        return Latency(size, grown, len(appends), *halves)

    path = directory / f".ottla-doctor-{os.getpid()}"
    return [one(size, grown) for size in (4 * 1024, 64 * 1024) for grown in (False, True)]


def _fill(handle: int, size: int) -> int:
    """Fill with zeros, at most 16 MiB; gives how many bytes."""
    room = min(256 * size, 16 << 20)
    for position in range(0, room, len(_FILL)):
        os.pwrite(handle, _FILL, position)
    return max(room, len(_FILL))


def quantile(numbers: list[float], part: float) -> float:
    """The number that ``part`` of them do not exceed."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
