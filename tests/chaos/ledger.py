"""What was promised to the load processes, and whether the broker keeps it. Pure.

Every promise is held against what is read back over the wire:

* a record that was acknowledged is at its place, and nothing is at a place where there is nothing to be;
* offsets have no gaps, and what was read once reads the same for ever;
* an idempotent producer's records are there once each and in order, and none between two others is missing;
* another producer's records may be there twice, but their first appearances are in order and without a gap;
* a group's committed offset is not behind what was acknowledged to it, and everything before it was seen;
* a group's generation never falls, neither for a member nor in what the coordinator has written;
* a topic that was created is there, one that was deleted is not.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from tests.chaos.events import Acked, Committed, Created, Deleted, Doubtful, Ended, Event, Generation, Saw, Trouble
from tests.chaos.load import PARTITIONS, number_of

Place = tuple[str, int]
"""Topic and partition."""


class Ledger:
    """Takes what the load processes tell, and what is read back.

    Args:
        once: topics of idempotent producers.
        known: topics of all producers.

    Attributes:
        problems: promises that were broken, in words.
        stored: by place the values that were read, by offset.
    """

    def __init__(self, known: Collection[str], once: Collection[str]) -> None:
        self.problems: list[str] = []
        self.stored: dict[Place, list[str]] = {(topic, part): [] for topic in known for part in range(PARTITIONS)}
        self.acked: dict[str, int] = dict.fromkeys(known, 0)
        self.ended: set[str] = set()
        self._once = frozenset(once)
        self._unchecked: dict[Place, dict[int, str]] = defaultdict(dict)
        self._committed: dict[str, dict[Place, int]] = defaultdict(dict)
        self._found: dict[str, dict[Place, int]] = defaultdict(dict)
        self._seen: dict[tuple[str, Place], dict[int, str]] = defaultdict(dict)
        self._generations: dict[str, int] = defaultdict(int)
        self._of_member: dict[tuple[str, str], int] = {}
        self._topics: dict[str, int] = {}
        self._gone: set[str] = set()
        self._last: dict[Place, int] = {}
        self._numbers: dict[Place, set[int]] = defaultdict(set)

    # what the load processes tell

    def take(self, event: Event) -> None:
        match event:
            case Acked(topic, partition, offset, value):
                self.acked[topic] += 1
                before = self._unchecked[topic, partition].setdefault(offset, value)
                if before != value:
                    self._broken(f"{topic}-{partition}: offset {offset} was given to {before} and to {value}")
            case Saw(group, topic, partition, offset, value):
                before = self._seen[group, (topic, partition)].setdefault(offset, value)
                if before != value:
                    self._broken(f"{group} read {before}, then {value} at {topic}-{partition} offset {offset}")
            case Committed(group, topic, partition, offset):
                offsets = self._committed[group]
                offsets[topic, partition] = max(offset, offsets.get((topic, partition), 0))
            case Generation(group, member, generation):
                if generation < self._of_member.get((group, member), 0):
                    self._broken(f"{group}: generation {generation} of {member} after a later one")
                self._of_member[group, member] = generation
                self._generations[group] = max(generation, self._generations[group])
            case Created(topic, partitions):
                self._topics[topic] = partitions
            case Doubtful(topic):
                self._topics.pop(topic, None)
            case Deleted(topic):
                self._gone.add(topic)
            case Trouble(words):
                self._broken(words)
            case Ended(name):
                self.ended.add(name)

    def _broken(self, words: str) -> None:
        if len(self.problems) < 50:
            self.problems.append(words)

    # what was promised by now

    def committed(self) -> dict[str, dict[Place, int]]:
        """By group what was acknowledged."""
        return {group: dict(offsets) for group, offsets in self._committed.items()}

    def topics(self) -> tuple[dict[str, int], set[str]]:
        """Topics that were made and their partition counts, and those that were deleted again."""
        return dict(self._topics), set(self._gone)

    # what is read back

    def read(self, place: Place, first: int, records: Sequence[tuple[int, str]]) -> None:
        """Records of a place from an offset on. Acknowledgements that came before it was read are checked by it."""
        values = self.stored[place]
        for offset, value in records:
            if offset < len(values):
                if values[offset] != value:
                    self._broken(f"{place}: offset {offset} had {values[offset]} and has {value}")
            elif offset > len(values):
                self._broken(f"{place}: offset {offset} comes after {len(values) - 1}")
                return
            else:
                values.append(value)
                self._in_order(place, value)
        if first + len(records) < len(values):
            self._broken(f"{place}: it ends at {first + len(records)}, and had {len(values)} records")

    def check_acked(self, place: Place, promised: Mapping[int, str]) -> None:
        """Hold acknowledgements against what is stored."""
        values = self.stored[place]
        for offset, value in promised.items():
            found = values[offset] if offset < len(values) else None
            if found != value:
                self._broken(f"{place}: {value} was acknowledged at {offset}, where there is {found}")
            del self._unchecked[place][offset]

    def promised(self, place: Place) -> dict[int, str]:
        """Acknowledgements that were not checked yet."""
        return dict(self._unchecked[place])

    def _in_order(self, place: Place, value: str) -> None:
        topic, partition = place
        number = number_of(value)
        known = self._numbers[place]
        if number in known:
            if topic in self._once:
                self._broken(f"{place}: {value} is stored twice")
            return
        last = self._last.get(place)
        expected = partition if last is None else last + PARTITIONS
        if number != expected:
            self._broken(f"{place}: {value} follows number {last}")
        known.add(number)
        self._last[place] = number

    def found_offsets(
        self, group: str, promised: Mapping[Place, int], found: Mapping[Place, int], *, final: bool = False
    ) -> None:
        """Hold a group's committed offsets against what was acknowledged before they were asked for.

        Args:
            final: nobody works any more, and all records were read: whatever lies before them was seen, and none was
                ever found beyond the end, as one would be that nobody committed.
        """
        for place, offset in promised.items():
            if found.get(place, 0) < offset:
                self._broken(f"{group}: {place} was committed up to {offset}, and is at {found.get(place)}")
        furthest = self._found[group]
        furthest |= {place: max(offset, furthest.get(place, 0)) for place, offset in found.items()}
        for place, offset in found.items() if final else ():
            if furthest[place] > len(self.stored[place]):
                self._broken(f"{group}: {place} was at {furthest[place]}, and has {len(self.stored[place])} records")
            seen = self._seen[group, place]
            if unseen := [one for one in range(offset) if one not in seen]:
                self._broken(f"{group}: {place} is at {offset}, and nobody saw {unseen[:10]}")

    def check_seen(self) -> None:
        """Hold what consumers saw against what is stored."""
        for (group, place), seen in self._seen.items():
            values = self.stored[place]
            for offset, value in seen.items():
                if offset >= len(values) or values[offset] != value:
                    self._broken(f"{group} saw {value} at {place} offset {offset}, which is not stored there")

    def found_generations(self, group: str, written: Sequence[int]) -> None:
        """Generations of a group in the order in which the coordinator wrote them."""
        if any(later < earlier for earlier, later in itertools.pairwise(written)):
            self._broken(f"{group}: its generation fell: {written}")
        if written and max(written) < self._generations[group]:
            self._broken(f"{group}: a member was in generation {self._generations[group]}, written is {written[-1]}")

    def found_topics(self, made: Mapping[str, int], gone: Collection[str], found: Mapping[str, int]) -> None:
        """Hold the topics that exist against those that were made and deleted before they were asked for."""
        for topic, partitions in made.items():
            if found.get(topic) != partitions:
                self._broken(f"topic {topic} was created with {partitions} partitions, and has {found.get(topic)}")
        for topic in gone:
            if topic in found:
                self._broken(f"topic {topic} was deleted, and is there")

    def totals(self) -> str:
        """In a few words."""
        records = sum(map(len, self.stored.values()))
        commits = sum(len(offsets) for offsets in self._committed.values())
        seen = sum(map(len, self._seen.values()))
        generations = ", ".join(f"{group} {number}" for group, number in sorted(self._generations.items()))
        return (
            f"{sum(self.acked.values())} acknowledged, {records} stored, {seen} seen, {commits} places committed, "
            f"{len(self._topics) + len(self._gone)} topics made, generations: {generations}"
        )
