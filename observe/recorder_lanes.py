"""The memory of the flight recorder: a lane of events for each group, of which the fullest gives way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from struct import Struct

_HEAD = Struct(">QI")
_unpack, _HEAD_BYTES = _HEAD.unpack_from, _HEAD.size
head = _HEAD.pack
"""The head of an entry: the number of the last event in it, and the count of bytes that follow."""

CHUNK_BYTES = 4096
"""Events are kept, and dropped, in chunks that are whole once they have this size."""
LANE_COST_BYTES = 460
"""Memory of an empty lane: three objects and places in two tables. Its name comes on top."""
CHUNK_COST_BYTES = 56
"""Memory of an empty chunk, with its place in the lane."""


def _cost_bytes(name: str) -> int:
    """Most memory of an empty lane of that name: characters beyond ASCII have up to 4 bytes, and once more as UTF-8."""
    return LANE_COST_BYTES + (len(name) if name.isascii() else 8 * len(name))


class Lane:
    """The events of one group, oldest first: whole chunks, and the one that grows."""

    __slots__ = ("chunks", "counts", "growing", "growing_count", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: list[bytes] = []
        self.counts: list[int] = []  # of the events in each
        self.growing = bytearray()
        self.growing_count = 0


class Lanes:
    """Lanes by group, and how much memory they take.

    Attributes:
        size_bytes: what all of it takes; counted, not measured.
    """

    __slots__ = ("_by_chunks", "_most_chunks", "by_name", "size_bytes")

    def __init__(self) -> None:
        self.by_name: dict[str, Lane] = {}
        # The lanes that have so many. To find the first of a dict takes long when many before it are gone.
        self._by_chunks: dict[int, OrderedDict[Lane, None]] = {}
        self._most_chunks = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def add(self, name: str, entries: bytes, count: int) -> None:
        """Keep events: entries of a `head` and events each, so many in all."""
        lane = self.by_name.get(name)
        if lane is None:
            lane = self.by_name[name] = Lane(name)
            self._by_chunks.setdefault(0, OrderedDict())[lane] = None
            self.size_bytes += _cost_bytes(name)
        growing = lane.growing
        growing += entries
        lane.growing_count += count
        self.size_bytes += len(entries)
        if len(growing) >= CHUNK_BYTES:
            self._close(lane)

    def evict(self) -> int:
        """Drop the oldest chunk of one of the lanes that have most, or all of a lane that has none; returns how many
        events that were."""
        while self._most_chunks not in self._by_chunks:
            self._most_chunks -= 1
        lane = next(iter(self._by_chunks[self._most_chunks]))
        if lane.chunks:
            self.size_bytes -= CHUNK_COST_BYTES + len(lane.chunks.pop(0))
            count = lane.counts.pop(0)
            self._moved(lane, len(lane.chunks) + 1)
            if lane.chunks or lane.growing:
                return count
        else:
            count = lane.growing_count
        self._leave(lane, 0)
        del self.by_name[lane.name]
        self.size_bytes -= _cost_bytes(lane.name) + len(lane.growing)
        return count

    def read(self, name: str, after: int) -> Iterator[bytes]:
        """The entries of a group in which there are events with higher numbers, oldest first."""
        lane = self.by_name.get(name)
        if lane is None:
            return
        parts: list[bytes | bytearray] = [*lane.chunks, lane.growing] if lane.growing else [*lane.chunks]
        first = len(parts)
        while first and _unpack(parts[first - 1])[0] > after:
            first -= 1
        for part in parts[max(first - 1, 0) :]:
            position, end = 0, len(part)
            while position < end:
                seq, size = _unpack(part, position)
                position += _HEAD_BYTES + size
                if seq > after:
                    yield bytes(part[position - size : position])

    def _close(self, lane: Lane) -> None:
        lane.chunks.append(bytes(lane.growing))
        lane.counts.append(lane.growing_count)
        lane.growing, lane.growing_count = bytearray(), 0
        self.size_bytes += CHUNK_COST_BYTES
        self._moved(lane, len(lane.chunks) - 1)

    def _moved(self, lane: Lane, before: int) -> None:
        """A lane has another number of chunks now."""
        self._leave(lane, before)
        now = len(lane.chunks)
        self._by_chunks.setdefault(now, OrderedDict())[lane] = None
        self._most_chunks = max(self._most_chunks, now)

    def _leave(self, lane: Lane, count: int) -> None:
        lanes = self._by_chunks[count]
        del lanes[lane]
        if not lanes:
            del self._by_chunks[count]
