"""Delayed operations by key, over a lazy heap.

A dict knows when each key is due. The heap holds one responsible entry a key, which surfaces no later than that, and
is corrected when it does. So moving a deadline later, which is what nearly every call does, costs one dict store, and
so does cancelling it or setting it anew. Moving it earlier pushes another entry, which takes over the responsibility;
the entry it replaces is dropped when it surfaces. When such leftovers outnumber the keys the heap is rebuilt, so
memory follows the number of keys.

Nothing here knows what a key means or what time it is.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_REBUILD_SLACK = 64
"""Leftovers that are tolerated before a rebuild is considered; keeps small heaps from rebuilding at all."""


class Deadlines(Generic[K]):
    """When which key is due. Setting a key that exists replaces its deadline. Times are in milliseconds."""

    __slots__ = ("_due", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._due: dict[K, tuple[int, int, K]] = {}
        """Key → (deadline, sequence number of the call that set it, key)."""
        self._queued: dict[K, tuple[int, int, K]] = {}
        """Key → the responsible heap entry. Outlives a cancelled key until that surfaces, or the heap is rebuilt."""
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def get(self, key: K) -> int | None:
        """The deadline of a key, None if it is not set."""
        due = self._due.get(key)
        return None if due is None else due[0]

    def set(self, key: K, at_ms: int) -> None:
        """Let ``key`` be due at ``at_ms``, whenever it was due before."""
        self._sequence = sequence = self._sequence + 1
        entry = (at_ms, sequence, key)
        self._due[key] = entry
        queued = self._queued.get(key)
        if queued is None or at_ms < queued[0]:
            self._queued[key] = entry
            heappush(self._heap, entry)
            if len(self._heap) > 2 * len(self._due) + _REBUILD_SLACK:
                self._rebuild()

    def cancel(self, key: K) -> None:
        """Forget a key; nothing happens if it is not set."""
        self._due.pop(key, None)

    def next(self) -> int | None:
        """The earliest deadline, None if there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def expired(self, now_ms: int) -> Generator[K, None, None]:
        """Take the due keys one by one, ordered by deadline and then by when they were set.

        A key that is cancelled or moved while the caller handles an earlier one is not given. A key that is set
        meanwhile is not given either, even if it is due at once: it waits for the next call, so an operation that
        re-arms itself without delay cannot hold the caller for ever. Whoever stops early closes the generator; what
        was not given stays due.
        """
        last = self._sequence
        later: list[tuple[int, int, K]] = []
        try:
            while True:
                self._settle()
                if not self._heap or self._heap[0][0] > now_ms:
                    return
                entry = heappop(self._heap)
                if entry[1] > last:
                    later.append(entry)
                    continue
                key = entry[2]
                del self._due[key], self._queued[key]
                yield key
        finally:
            for entry in later:
                heappush(self._heap, entry)

    def _settle(self) -> None:
        """Bring the top of the heap in line with the truth."""
        heap, due, queued = self._heap, self._due, self._queued
        while heap:
            entry = heap[0]
            key = entry[2]
            if queued.get(key) is not entry:
                heappop(heap)
            elif (truth := due.get(key)) is None:
                heappop(heap)
                del queued[key]
            elif truth is not entry:
                queued[key] = truth
                heapreplace(heap, truth)
            else:
                return

    def _rebuild(self) -> None:
        self._queued = dict(self._due)
        self._heap[:] = self._due.values()
        heapify(self._heap)
