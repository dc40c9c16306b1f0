"""What came of every input record, and whether each came to exactly one result. Pure.

Inputs are numbered, partition by partition, and an application writes to the partition of the same number: so the
results of a partition are its inputs, in their order, each once. What is wrong is named as in `ledger`: a number that
is not the next one is a *duplicate* or a *skipped poll*, and a result of an aborted transaction an *aborted read*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.chaos.events import Acked, Ended, Event, Saw, Trouble
from tests.chaos.load import number_of
from tests.chaos.pipeline import PARTITIONS, PROMISED

Place = tuple[str, int]


class Results:
    """Takes what the feeder and the watchers tell.

    Attributes:
        problems: what must not be, in words.
        fed: the input records that were acknowledged.
        shown: by watcher and topic the values that it was shown, in order of each partition.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.fed: set[str] = set()
        self.ended: set[str] = set()
        self.shown: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._ends: dict[int, int] = {}
        self._at: dict[tuple[str, Place], int] = {}
        self._next: dict[tuple[str, Place], int] = {}

    def take(self, event: Event) -> None:
        match event:
            case Acked(_, partition, offset, value):
                self.fed.add(value)
                self._ends[partition] = max(offset + 1, self._ends.get(partition, 0))
            case Saw(watcher, topic, partition, offset, value):
                self._saw(watcher, (topic, partition), offset, value)
            case Trouble(words):
                self._wrong("client", words)
            case Ended(name):
                self.ended.add(name)

    def _saw(self, watcher: str, place: Place, offset: int, value: str) -> None:
        last = self._at.get((watcher, place), -1)
        if offset <= last:
            self._wrong("nonmonotonic poll", f"{watcher}: {place} shows offset {offset} after {last}")
        self._at[watcher, place] = offset
        if not value.startswith(PROMISED):
            self._wrong("aborted read", f"{watcher}: {place} shows {value}, which was aborted")
            return
        number = number_of(value.removeprefix(PROMISED))
        expected = self._next.get((watcher, place), place[1])
        if number != expected:
            rule = "duplicate" if number < expected else "skipped poll"
            self._wrong(rule, f"{watcher}: {place} shows number {number} where {expected} comes next")
        self._next[watcher, place] = number + PARTITIONS
        self.shown[watcher, place[0]][value] += 1

    def _wrong(self, rule: str, words: str) -> None:
        if len(self.problems) < 50:
            self.problems.append(f"{rule}: {words}")

    def reached(self, topic: str) -> dict[int, int]:
        """By partition the number that comes next, as the watcher has it that is ahead."""
        numbers: dict[int, int] = {}
        for (_, (name, partition)), number in self._next.items():
            if name == topic:
                numbers[partition] = max(number, numbers.get(partition, 0))
        return numbers

    def missing(self, watcher: str, topic: str) -> int:
        """How many inputs have no result yet."""
        return len(self.fed) - len(self.shown[watcher, topic])

    def check_complete(self, watcher: str, topic: str) -> None:
        """Every input, and nothing else, has its result."""
        wanted = {PROMISED + value for value in self.fed}
        found = set(self.shown[watcher, topic])
        if missing := sorted(wanted - found)[:10]:
            self._wrong("unseen", f"{watcher}: {topic} lacks {missing}")
        if besides := sorted(found - wanted)[:10]:
            self._wrong("phantom read", f"{watcher}: {topic} has {besides} besides")

    def check_offsets(self, group: str, committed: Mapping[Place, int], topic: str) -> None:
        """The group's offsets are the ends of what was fed."""
        wanted = {(topic, partition): end for partition, end in self._ends.items()}
        if dict(committed) != wanted:
            self._wrong("lost commit", f"{group}: committed are {dict(committed)}, and fed were {wanted}")

    def totals(self) -> str:
        shown = ", ".join(f"{topic} {sum(values.values())}" for (_, topic), values in sorted(self.shown.items()))
        return f"{len(self.fed)} fed; shown: {shown}"
