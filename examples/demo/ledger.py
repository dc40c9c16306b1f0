"""The books of the demo: the lines that were sent, and those that each member saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from examples.demo.reports import Position


class Ledger:
    """Lines sent and lines seen. A line is known by its place in the topic, (partition, offset).

    Attributes:
        sightings: lines seen by each member, repetitions included.
        repeated: repetitions, by the member that had seen the line first.
    """

    def __init__(self) -> None:
        self.sightings: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        self._sent: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int], tuple[int, str]] = {}
        self._furthest: dict[tuple[str, int], int] = {}
        self._altered: set[tuple[int, int]] = set()

    def sent(self, positions: Iterable[Position]) -> None:
        """The broker acknowledged these lines."""
        for partition, offset, checksum in positions:
            self._sent[partition, offset] = checksum

    def saw(self, member: str, positions: Iterable[Position]) -> None:
        """A member saw these lines."""
        for partition, offset, checksum in positions:
            first_checksum, first_member = self._seen.setdefault((partition, offset), (checksum, ""))
            if first_member:
                self.repeated[first_member] += 1
            else:
                self._seen[partition, offset] = (checksum, member)
            if checksum != first_checksum:
                self._altered.add((partition, offset))
            self.sightings[member] += 1
            self._furthest[member, partition] = max(offset, self._furthest.get((member, partition), 0))

    @property
    def lines_sent(self) -> int:
        return len(self._sent)

    @property
    def lines_seen(self) -> int:
        """Different lines seen, by whomever."""
        return len(self._seen)

    def lost(self) -> list[tuple[int, int]]:
        """Places of lines that were acknowledged and that nobody saw."""
        return sorted(self._sent.keys() - self._seen.keys())

    def unknown(self) -> list[tuple[int, int]]:
        """Places at which something was seen that nobody sent."""
        return sorted(self._seen.keys() - self._sent.keys())

    def altered(self) -> list[tuple[int, int]]:
        """Places of lines that were not seen as they were sent."""
        seen = self._seen
        differing = {place for place, checksum in self._sent.items() if place in seen and seen[place][0] != checksum}
        return sorted(differing | self._altered)

    def log_ends(self) -> dict[int, int]:
        """The end that each partition's log must have: after the last line that was sent to it."""
        ends: dict[int, int] = {}
        for partition, offset in self._sent:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    def saw_beyond(self, member: str, offsets: dict[int, int]) -> bool:
        """Tell whether a member has seen a line at or after these offsets of the partitions."""
        return any(
            furthest >= offsets.get(partition, 0)
            for (name, partition), furthest in self._furthest.items()
            if name == member
        )
