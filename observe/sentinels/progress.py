"""Watches committed offsets: those past the end, and those that stand still while others move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.broker.settings import Settings
from ottla.observe.sentinels.model import Finding, named
from ottla.observe.snapshot import OffsetProgress


class Progress:
    """Since when partitions with lag stand still; a bounded number of them is kept in mind."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sums: dict[str, tuple[int, int]] = {}
        """Of each group the sum of its offsets, and when that last changed."""
        self._still: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
        """Of each group its partitions with lag: offset, and since when."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def look(self, group_id: str, is_stable: bool, offsets: Iterable[OffsetProgress], now_ms: int) -> Iterator[Finding]:
        """Findings about the offsets of a group."""
        before = self._still.pop(group_id, {})
        self._count -= len(before)
        still: dict[tuple[str, int], tuple[int, int]] = {}
        past: dict[str, list[str]] = {}
        total, room = 0, self._settings.ottla_sentinel_max_partitions - self._count
        for topic, partition, committed, end in offsets:
            total += committed
            if end is None:
                continue
            if committed > end:
                past.setdefault(topic, []).append(f"{topic}-{partition} at {committed} of {end}")
            elif is_stable and committed < end and len(still) < room:
                offset, since_ms = before.get((topic, partition), (-1, 0))
                still[topic, partition] = (committed, since_ms if offset == committed else now_ms)
        if still:
            self._still[group_id] = still
            self._count += len(still)
        for topic, places in past.items():
            what = named(places)
            text = f"Group {group_id} has committed offsets past the end of the log: {what}"
            yield Finding("offset_jump", topic, text, {"topic": topic, "partitions": what, "jump": "past the end"})
        yield from self._idle(group_id, total, still, now_ms)

    def forget(self, group_id: str) -> None:
        """A group is no more."""
        self._sums.pop(group_id, None)
        self._count -= len(self._still.pop(group_id, {}))

    def _idle(
        self, group_id: str, total: int, still: dict[tuple[str, int], tuple[int, int]], now_ms: int
    ) -> Iterator[Finding]:
        limit_ms = self._settings.ottla_sentinel_idle_ms
        known = self._sums.get(group_id)
        if known is None:
            known = self._sums[group_id] = (total, now_ms - limit_ms)
        elif known[0] != total:
            known = self._sums[group_id] = (total, now_ms)
        if now_ms - known[1] >= limit_ms:
            return  # nothing of it moves: nobody produces, or the group as a whole is stuck, which its lag tells
        idle: dict[str, list[tuple[int, int]]] = {}
        for (topic, partition), (_, since_ms) in still.items():
            if now_ms - since_ms >= limit_ms:
                idle.setdefault(topic, []).append((partition, now_ms - since_ms))
        for topic, partitions in idle.items():
            longest_ms = max(idle_ms for _, idle_ms in partitions)
            what = named([f"{topic}-{partition}" for partition, _ in sorted(partitions)])
            text = f"Group {group_id} has not moved on for {longest_ms // 1000} s in {what}, while others of it move"
            facts = {"topic": topic, "partitions": what, "idle_ms": str(longest_ms)}
            yield Finding("idle_partition", topic, text, facts)
