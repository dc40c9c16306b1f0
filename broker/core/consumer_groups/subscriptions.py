"""What the members of a group subscribe to, counted (R3.1-R3.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Subscriptions:
    """Counts that tell what a group subscribes to without a look at every member. What is not counted has no entry.

    Attributes:
        by_name: how many members name a topic, by topic; whether it exists does not matter (R3.7).
        regexes: how many members use a regex, by regex.
        by_regex: how many of the group's resolved regexes match a topic, by topic.
        by_regex_before: the same, when a member came, changed or went last; None if nothing was resolved since.
    """

    by_name: dict[str, int] = field(default_factory=dict)
    regexes: dict[str, int] = field(default_factory=dict)
    by_regex: dict[str, int] = field(default_factory=dict)
    by_regex_before: dict[str, int] | None = field(default=None, compare=False)

    def copy(self) -> Subscriptions:
        """The same counts, to see what they would be after a request."""
        return Subscriptions(dict(self.by_name), dict(self.regexes), dict(self.by_regex), self.by_regex_before)

    def add(self, names: Iterable[str], regex: str) -> None:
        """Count a member.

        Args:
            names: each once.
            regex: "" if it has none.
        """
        self.by_regex_before = None
        _count(self.by_name, names)
        if regex:
            _count(self.regexes, (regex,))

    def remove(self, names: Iterable[str], regex: str) -> None:
        """Count a member no more, with what it was counted for."""
        self.by_regex_before = None
        _uncount(self.by_name, names)
        if regex:
            _uncount(self.regexes, (regex,))

    def add_resolved(self, topics: Iterable[str]) -> None:
        """Count the topics of a resolved regex, each once."""
        self._keep()
        _count(self.by_regex, topics)

    def remove_resolved(self, topics: Iterable[str]) -> None:
        """Count the topics of a resolved regex no more, because it is resolved anew or forgotten."""
        self._keep()
        _uncount(self.by_regex, topics)

    def _keep(self) -> None:
        if self.by_regex_before is None:
            self.by_regex_before = dict(self.by_regex)

    def topics(self) -> list[str]:
        """Every topic that is subscribed to, by name or by a resolved regex, each once (R3.1)."""
        return list(self.by_name | self.by_regex)

    def is_homogeneous(self, members: int, *, when_members_changed: bool = False) -> bool:
        """Whether all of so many members subscribe to the same topics, as far as counts can tell (3.2).

        With several regexes the first one alone is looked at; if all members use it, there is no other.

        Args:
            when_members_changed: with the topics of regexes as they were when a member came, changed or went last:
                Kafka keeps what it found then. Those of a regex are deleted after the last member that uses it.
        """
        before = self.by_regex_before
        by_regex = self.by_regex if before is None or not when_members_changed else before
        if not self.regexes:
            left = all(self.by_name.get(topic, 0) == members for topic in by_regex)
            return left and all(count == members for count in self.by_name.values())
        first = next(iter(self.regexes.values()))
        return first == members and not self.by_name and all(count == 1 for count in by_regex.values())


def _count(counts: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + 1


def _uncount(counts: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
