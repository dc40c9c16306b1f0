"""Ended episodes as compressed bytes, within a budget that groups share fairly."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from zlib import compress, decompress

from msgspec.msgpack import Decoder, Encoder

from ottla.broker.observe.why.model import Episode

EPISODE_OVERHEAD_BYTES = 120
"""What an episode costs besides its bytes: the object, the tuple and its place in the queue."""
GROUP_OVERHEAD_BYTES = 900
ROOM = 0.97
"""Episodes are dropped until so much of the budget is in use: finding the largest group is not for every one."""


class Kept:
    """The episodes of one group, the oldest first: (number, start, bytes)."""

    __slots__ = ("episodes", "size_bytes")

    def __init__(self) -> None:
        self.episodes: deque[tuple[int, int, bytes]] = deque()
        self.size_bytes = GROUP_OVERHEAD_BYTES


class Store:
    """Keeps ended episodes. If there is no room the group with the most bytes loses its oldest.

    Args:
        budget_bytes: for all groups together; 0 keeps nothing.

    Attributes:
        size_bytes: what is in use.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.size_bytes = 0
        self._groups: dict[str, Kept] = {}
        self._encode = Encoder().encode
        self._decode = Decoder(Episode).decode

    def group_ids(self) -> list[str]:
        """The groups of which anything is kept."""
        return list(self._groups)

    def last_number(self, group_id: str) -> int:
        """The number of a group's newest episode; 0 if there is none."""
        kept = self._groups.get(group_id)
        return max((row[0] for row in kept.episodes), default=0) if kept is not None else 0

    def keep(self, episode: Episode) -> None:
        """Keep an episode; nothing about it changes any more."""
        if not self.budget_bytes:
            return
        kept = self._groups.get(episode.group_id)
        if kept is None:
            kept = self._groups[episode.group_id] = Kept()
            self.size_bytes += GROUP_OVERHEAD_BYTES
        data = compress(self._encode(episode), 1)
        kept.episodes.append((episode.number, episode.started_ms, data))
        kept.size_bytes += len(data) + EPISODE_OVERHEAD_BYTES
        self.size_bytes += len(data) + EPISODE_OVERHEAD_BYTES
        if self.size_bytes > self.budget_bytes:
            self._make_room()

    def rows(self, group_id: str, *, since_ms: int | None = None) -> list[tuple[int, bytes]]:
        """The episodes of a group by their numbers, as they are kept, in the order in which they ended.

        Args:
            since_ms: only those that began at this Unix time or later.
        """
        kept = self._groups.get(group_id)
        if kept is None:
            return []
        return [(number, data) for number, began_ms, data in kept.episodes if since_ms is None or began_ms >= since_ms]

    def decoded(self, data: bytes) -> Episode:
        """One of `rows`."""
        return self._decode(decompress(data))

    def replace(self, episode: Episode) -> None:
        """Something about a kept episode became known later; nothing happens if it was dropped meanwhile."""
        kept = self._groups.get(episode.group_id)
        if kept is None:
            return
        for at in range(len(kept.episodes) - 1, -1, -1):
            number, started_ms, before = kept.episodes[at]
            if number == episode.number:
                data = compress(self._encode(episode), 1)
                kept.episodes[at] = number, started_ms, data
                kept.size_bytes += len(data) - len(before)
                self.size_bytes += len(data) - len(before)
                return

    def _make_room(self) -> None:
        enough = int(self.budget_bytes * ROOM)
        largest_first = [
            (-kept.size_bytes, number, group_id) for number, (group_id, kept) in enumerate(self._groups.items())
        ]
        heapify(largest_first)
        while self.size_bytes > enough and largest_first:
            _, number, group_id = heappop(largest_first)
            # Down to the size of the next: then they take turns.
            aim = -largest_first[0][0] if largest_first else 0
            kept = self._groups[group_id]
            self._shrink(group_id, kept, aim, enough)
            if kept.episodes:
                heappush(largest_first, (-kept.size_bytes, number, group_id))

    def _shrink(self, group_id: str, kept: Kept, aim: int, enough: int) -> None:
        while kept.episodes:
            _, _, data = kept.episodes.popleft()
            freed = len(data) + EPISODE_OVERHEAD_BYTES
            kept.size_bytes -= freed
            self.size_bytes -= freed
            if self.size_bytes <= enough or kept.size_bytes < aim:
                break
        if not kept.episodes:
            del self._groups[group_id]
            self.size_bytes -= kept.size_bytes
