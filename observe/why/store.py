"""Ended episodes as compressed bytes, within a budget that groups share fairly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from sys import intern
from typing import NamedTuple
from zlib import compress, decompress

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from ottla.observe.why.model import Episode

EPISODE_OVERHEAD_BYTES = 180
"""Memory of an episode besides its bytes: the object, the tuple with its numbers, and its place in the queue."""
GROUP_OVERHEAD_BYTES = 900
ROOM = 0.97
"""Episodes are dropped until so much of the budget is in use: finding the largest group is not for every one."""


class Cost(Struct):
    """The cost of a group for those who wait for its records, since a time.

    Attributes:
        stood_ms: partition-milliseconds in which nobody consumed; rebalances: how many of them had any.
        refused: how often somebody was turned away.
        last_ms: when the last of all this began, or was repeated, as Unix time.
    """

    group_id: str
    stood_ms: int = 0
    rebalances: int = 0
    refused: int = 0
    last_ms: int = 0

    def add(self, episode: Episode | Row) -> None:
        """Count an episode, if it cost anything; it need not be decoded."""
        if episode.kind == "refusal":
            self.refused += episode.times
        elif episode.stood_ms:
            self.stood_ms += episode.stood_ms
            self.rebalances += episode.kind == "rebalance"
        else:
            return
        self.last_ms = max(self.last_ms, episode.started_ms, episode.last_ms)


class Row(NamedTuple):
    """An ended episode, and what must be known of it without decoding it; see `Episode`."""

    number: int
    started_ms: int
    last_ms: int
    kind: str
    stood_ms: int
    times: int
    data: bytes


class Kept:
    """The episodes of one group, the oldest first."""

    __slots__ = ("episodes", "size_bytes")

    def __init__(self) -> None:
        self.episodes: deque[Row] = deque()
        self.size_bytes = GROUP_OVERHEAD_BYTES


class Store:
    """Keeps ended episodes. If there is no room the group with the most bytes loses its oldest.

    Args:
        budget_bytes: for all groups together; 0 keeps nothing.

    Attributes:
        size_bytes: what is in use.
        on_row: is told of each row that is kept, or takes the place of one with its number.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.size_bytes = 0
        self.on_row: Callable[[str, Row], None] | None = None
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
        row = self._row(episode)
        self._put(episode.group_id, row)
        if self.on_row is not None:
            self.on_row(episode.group_id, row)

    def restore(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Keep rows of an earlier run, each with its group, oldest first."""
        for group_id, row in rows:
            self._put(group_id, row)

    def all_rows(self) -> list[tuple[str, Row]]:
        """Everything that is kept, each row with its group."""
        return [(group_id, row) for group_id, kept in self._groups.items() for row in kept.episodes]

    def _put(self, group_id: str, row: Row) -> None:
        kept = self._groups.get(group_id)
        if kept is None:
            kept = self._groups[group_id] = Kept()
            self.size_bytes += GROUP_OVERHEAD_BYTES
        kept.episodes.append(row)
        kept.size_bytes += len(row.data) + EPISODE_OVERHEAD_BYTES
        self.size_bytes += len(row.data) + EPISODE_OVERHEAD_BYTES
        if self.size_bytes > self.budget_bytes:
            self._make_room()

    def of_group(self, group_id: str) -> list[Row]:
        """The episodes of a group, in the order in which they ended."""
        kept = self._groups.get(group_id)
        return list(kept.episodes) if kept is not None else []

    def newest(self, group_id: str) -> Episode | None:
        """The episode of a group that ended last; None if none is kept."""
        kept = self._groups.get(group_id)
        return self.decoded(kept.episodes[-1]) if kept is not None else None

    def decoded(self, row: Row) -> Episode:
        """The episode of a row."""
        return self._decode(decompress(row.data))

    def replace(self, episode: Episode) -> None:
        """Something about a kept episode became known later; nothing happens if it was dropped meanwhile."""
        kept = self._groups.get(episode.group_id)
        if kept is None:
            return
        for at in range(len(kept.episodes) - 1, -1, -1):
            before = kept.episodes[at]
            if before.number == episode.number:
                row = kept.episodes[at] = self._row(episode)
                kept.size_bytes += len(row.data) - len(before.data)
                self.size_bytes += len(row.data) - len(before.data)
                if self.on_row is not None:
                    self.on_row(episode.group_id, row)
                return

    def _row(self, episode: Episode) -> Row:
        data = compress(self._encode(episode), 1)
        one = episode
        return Row(one.number, one.started_ms, one.last_ms, intern(one.kind), one.stood_ms, one.times, data)

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
            freed = len(kept.episodes.popleft().data) + EPISODE_OVERHEAD_BYTES
            kept.size_bytes -= freed
            self.size_bytes -= freed
            if self.size_bytes <= enough or kept.size_bytes < aim:
                break
        if not kept.episodes:
            del self._groups[group_id]
            self.size_bytes -= kept.size_bytes
