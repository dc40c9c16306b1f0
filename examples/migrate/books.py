"""The books of the demo: who had which partition when, what was sent and what was seen. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Place = tuple[int, int]
"""A partition and an offset in it."""


@dataclass
class Books:
    """What the members reported.

    Attributes:
        owned: by member the partitions that it has now.
        doubled: partitions that somebody took while somebody else had them: partition, who had it, who took it.
        lost: partitions that members lost instead of giving them up.
        refused: commits and other errors that members reported.
        last_seen: by partition when its last record was seen, in Unix seconds.
    """

    owned: dict[str, set[int]] = field(default_factory=dict)
    doubled: list[tuple[int, str, str]] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    sightings: Counter[Place] = field(default_factory=Counter)
    last_seen: dict[int, float] = field(default_factory=dict)
    _sent: set[Place] = field(default_factory=set)
    _gaps: list[tuple[float, float, int]] = field(default_factory=list)

    def sent(self, place: Place) -> None:
        """The broker acknowledged a record."""
        self._sent.add(place)

    def take(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Take in events of all members, each with its member, in the order of their times."""
        for member, event in events:
            partitions, at = event.get("partitions", ()), event["at"]
            held = self.owned.setdefault(member, set())
            match event["event"]:
                case "took":
                    for partition in partitions:
                        others = [one for one, theirs in self.owned.items() if one != member and partition in theirs]
                        self.doubled += [(partition, other, member) for other in others]
                        held.add(partition)
                case "gave" | "lost":
                    held.difference_update(partitions)
                    if event["event"] == "lost":
                        self.lost += [(member, partition) for partition in partitions]
                case "saw":
                    self._saw([tuple(place) for place in event["places"]], at)
                case "left":
                    held.clear()
                case "commit refused" | "error":
                    self.refused.append(f"{member}: {event['error']}")

    def _saw(self, places: list[Place], at: float) -> None:
        self.sightings.update(places)
        for partition in {partition for partition, _ in places}:
            self._gaps.append((self.last_seen.get(partition, at), at, partition))
            self.last_seen[partition] = at

    @property
    def records_sent(self) -> int:
        return len(self._sent)

    @property
    def unseen(self) -> list[Place]:
        """Records that were acknowledged and that nobody has seen."""
        return sorted(self._sent - self.sightings.keys())

    @property
    def repeated(self) -> int:
        """How often records were seen that somebody had seen before."""
        return sum(self.sightings.values()) - len(self.sightings)

    def longest_standstill(self, since: float, until: float) -> tuple[float, int]:
        """The longest time in seconds for which nobody saw a record of a partition, and which; 0 and -1 if none.

        Only times count that ended between the two, which are in Unix seconds.
        """
        found = [(end - begin, partition) for begin, end, partition in self._gaps if since < end <= until]
        return max(found, default=(0.0, -1))
