"""The commits that the broker acknowledged, in order, by group and partition."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Places = Mapping[tuple[str, str, int], Sequence[int]]
"""The committed offsets of each (group, topic, partition), in the order in which they were committed."""


class Compared(NamedTuple):
    """The outcome of comparing with the lake.

    Attributes:
        acknowledged: commits that must be there; found: commits that are there.
        wrong: the differences, a sentence each.
    """

    acknowledged: int
    found: int
    wrong: list[str]


class Ledger:
    """Acknowledged commits. Members of all kinds write to it, also from threads.

    Attributes:
        unsure: commits whose answer never came: they may be in the log.
    """

    def __init__(self) -> None:
        self.unsure = 0
        self._lock = threading.Lock()
        self._committed: dict[tuple[str, str, int], list[int]] = {}

    def acknowledged(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """One OffsetCommit that was granted."""
        with self._lock:
            for (topic, partition), offset in offsets.items():
                self._committed.setdefault((group, topic, partition), []).append(offset)

    def lengths(self) -> dict[tuple[str, str, int], int]:
        """The number of commits of each partition now."""
        with self._lock:
            return {place: len(offsets) for place, offsets in self._committed.items()}

    def compare(self, found: Places, at_least: Mapping[tuple[str, str, int], int]) -> Compared:
        """Hold the lake's commits against what was acknowledged.

        They must be the same, in the same order, up to where the lake ends; and it may not end before ``at_least``, the
        numbers of commits when it was last asked to read.
        """
        wrong = []
        with self._lock:
            for place in sorted({*found, *self._committed}):
                name = "group {} in {}-{}".format(*place)
                told, true = list(found.get(place, ())), self._committed.get(place, [])
                if told != true[: len(told)] and not self.unsure:
                    wrong.append(f"the commits of {name} are not those that were acknowledged")
                if len(told) < at_least.get(place, 0):
                    wrong.append(f"{at_least.get(place, 0) - len(told)} commits of {name} are missing")
        return Compared(sum(at_least.values()), sum(map(len, found.values())), wrong)
