"""What was promised to the load processes, and whether the broker keeps it. Pure.

Every promise is held against what is read back over the wire. The names of what breaks them are those of Jepsen's
workload for Kafka, where it has one:

* *lost write*: a record that was acknowledged is not at its place; or there is less than was read before;
* *inconsistent offset*: an offset was given to two records, or reads otherwise than it did; offsets have a gap;
* *duplicate*: a record of an idempotent producer is there twice; those of others may be;
* *nonmonotonic send*: a record comes before another one that its producer has sent before it, or without it;
* *nonmonotonic poll*, *skipped poll*: a member of a settled group is shown an offset that is not the next one;
* *unseen*: a record that no member of a group has seen, though its offset was committed, or nothing else is left;
* *lost commit*: a group's committed offset is behind what was acknowledged to it;
* *phantom read*, *phantom commit*: what a member saw, or its group committed, was never stored;
* *generation*: one falls, for a member or in what the coordinator has written; or that of a settled group changes;
* *topic*: one that was created is not there, or one that was deleted is;
* *client*: something happened that no client should see.
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
        unordered: topics of producers that do not keep the order of their records.

    Attributes:
        problems: promises that were broken, in words.
        stored: by place the values that were read, by offset.
    """

    def __init__(self, known: Collection[str], once: Collection[str], unordered: Collection[str] = ()) -> None:
        self.problems: list[str] = []
        self.stored: dict[Place, list[str]] = {(topic, part): [] for topic in known for part in range(PARTITIONS)}
        self.acked: dict[str, int] = dict.fromkeys(known, 0)
        self.ended: set[str] = set()
        self._once = frozenset(once)
        self._unordered = frozenset(unordered)
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
        self._settled: dict[str, int] = {}
        self._shown: dict[tuple[str, Place], int] = {}

    # what the load processes tell

    def take(self, event: Event) -> None:
        match event:
            case Acked(topic, partition, offset, value):
                self.acked[topic] += 1
                before = self._unchecked[topic, partition].setdefault(offset, value)
                if before != value:
                    self._broken(
                        "inconsistent offset",
                        f"{topic}-{partition}: offset {offset} was given to {before} and to {value}",
                    )
            case Saw(group, topic, partition, offset, value):
                self._saw(group, (topic, partition), offset, value)
            case Committed(group, topic, partition, offset):
                offsets = self._committed[group]
                offsets[topic, partition] = max(offset, offsets.get((topic, partition), 0))
            case Generation(group, member, generation):
                if generation < self._of_member.get((group, member), 0):
                    self._broken("generation", f"{group}: generation {generation} of {member} after a later one")
                if generation != self._settled.get(group, generation):
                    self._broken("generation", f"{group}: {member} is in {generation} after {self._settled[group]}")
                self._of_member[group, member] = generation
                self._generations[group] = max(generation, self._generations[group])
            case Created(topic, partitions):
                self._topics[topic] = partitions
            case Doubtful(topic):
                self._topics.pop(topic, None)
            case Deleted(topic):
                self._gone.add(topic)
            case Trouble(words):
                self._broken("client", words)
            case Ended(name):
                self.ended.add(name)

    def _saw(self, group: str, place: Place, offset: int, value: str) -> None:
        before = self._seen[group, place].setdefault(offset, value)
        if before != value:
            self._broken("inconsistent offset", f"{group} read {before}, then {value} at {place} offset {offset}")
        if group in self._settled:
            last = self._shown.get((group, place), offset - 1)
            if offset != last + 1:
                rule = "skipped poll" if offset > last else "nonmonotonic poll"
                self._broken(rule, f"{group} was shown offset {offset} of {place} after {last}")
            self._shown[group, place] = offset

    def _broken(self, rule: str, words: str) -> None:
        if len(self.problems) < 50:
            self.problems.append(f"{rule}: {words}")

    def is_one(self, group: str, members: Collection[str]) -> bool:
        """Whether all members are in the same generation, as they have told last."""
        return len({self._of_member.get((group, member)) for member in members} - {None}) == 1 and all(
            (group, member) in self._of_member for member in members
        )

    def settle(self, group: str) -> None:
        """From now on the group stays in its generation, and its members are shown each record once and in order."""
        self._settled[group] = self._generations[group]

    def unsettle(self) -> None:
        """From now on members leave, one before the other: those who are left hear of it."""
        self._settled.clear()

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
                    self._broken(
                        "inconsistent offset", f"{place}: offset {offset} had {values[offset]} and has {value}"
                    )
            elif offset > len(values):
                self._broken("inconsistent offset", f"{place}: offset {offset} comes after {len(values) - 1}")
                return
            else:
                values.append(value)
                self._in_order(place, value)
        if first + len(records) < len(values):
            self._broken("lost write", f"{place}: it ends at {first + len(records)}, and had {len(values)} records")

    def check_acked(self, place: Place, promised: Mapping[int, str]) -> None:
        """Hold acknowledgements against what is stored."""
        values = self.stored[place]
        for offset, value in promised.items():
            found = values[offset] if offset < len(values) else None
            if found != value:
                self._broken("lost write", f"{place}: {value} was acknowledged at {offset}, where there is {found}")
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
                self._broken("duplicate", f"{place}: {value} is stored twice")
            return
        last = self._last.get(place)
        expected = partition if last is None else last + PARTITIONS
        if number != expected and topic not in self._unordered:
            self._broken("nonmonotonic send", f"{place}: {value} follows number {last}")
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
                self._broken(
                    "lost commit", f"{group}: {place} was committed up to {offset}, and is at {found.get(place)}"
                )
        furthest = self._found[group]
        furthest |= {place: max(offset, furthest.get(place, 0)) for place, offset in found.items()}
        for place, offset in found.items() if final else ():
            if furthest[place] > len(self.stored[place]):
                words = f"{group}: {place} was at {furthest[place]}, and has {len(self.stored[place])} records"
                self._broken("phantom commit", words)
            seen = self._seen[group, place]
            if unseen := [one for one in range(offset) if one not in seen]:
                self._broken("unseen", f"{group}: {place} is at {offset}, and nobody saw {unseen[:10]}")

    def check_seen(self) -> None:
        """Hold what consumers saw against what is stored."""
        for (group, place), seen in self._seen.items():
            values = self.stored[place]
            for offset, value in seen.items():
                if offset >= len(values) or values[offset] != value:
                    words = f"{group} saw {value} at {place} offset {offset}, which is not stored there"
                    self._broken("phantom read", words)

    def unseen(self, group: str, topics: Collection[str]) -> dict[Place, list[int]]:
        """Offsets of what is stored that no member of a group has seen."""
        missing = {
            place: [offset for offset in range(len(values)) if offset not in self._seen[group, place]]
            for place, values in self.stored.items()
            if place[0] in topics
        }
        return {place: offsets for place, offsets in missing.items() if offsets}

    def check_unseen(self, group: str, topics: Collection[str]) -> None:
        """Nothing that is stored is left to be seen."""
        for place, offsets in self.unseen(group, topics).items():
            self._broken("unseen", f"{group}: nobody saw {offsets[:10]} of {place}")

    def found_generations(self, group: str, written: Sequence[int]) -> None:
        """Generations of a group in the order in which the coordinator wrote them."""
        if any(later < earlier for earlier, later in itertools.pairwise(written)):
            self._broken("generation", f"{group}: it fell: {written}")
        if written and max(written) < self._generations[group]:
            words = f"{group}: a member was in {self._generations[group]}, written is {written[-1]}"
            self._broken("generation", words)

    def found_topics(self, made: Mapping[str, int], gone: Collection[str], found: Mapping[str, int]) -> None:
        """Hold the topics that exist against those that were made and deleted before they were asked for."""
        for topic, partitions in made.items():
            if found.get(topic) != partitions:
                self._broken("topic", f"{topic} was created with {partitions} partitions, and has {found.get(topic)}")
        for topic in gone:
            if topic in found:
                self._broken("topic", f"{topic} was deleted, and is there")

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
