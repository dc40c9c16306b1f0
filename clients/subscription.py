"""A consumer's subscription, its assignment, and its position in each partition. Pure.

Two positions by partition. ``position`` is the next record that the consumer gives to its user. ``done`` is the next
record that the user is not finished with: it moves up to ``position`` when the user asks for more. What is committed
automatically is ``done``, so that a record is not committed while it is being worked on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from ottla.clients.errors import OptionError
from ottla.clients.given import partition
from ottla.protocol.records import TopicPartition


class Mode(Enum):
    """The way in which partitions are chosen; a consumer has one at a time."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    MANUAL = "partitions"


@dataclass(slots=True, eq=False)
class PartitionState:
    """The state of one partition that a consumer has.

    Attributes:
        position: the next record to give out; None until known.
        position_epoch: the leader epoch of the record before it, -1 if unknown (KIP-320).
        reset: EARLIEST, LATEST or None: the position is to be looked up.
        paused: the user wants no records.
        revoking: it is about to be given up.
        settling: the listener has not been told of it yet.
        seeks: grows with every jump, so that what was fetched for an earlier position is recognised.
        without_offset: there is no committed offset, and no policy to reset by.
        validated_epoch: the leader epoch against which the position was last checked (KIP-320).
        preferred_replica: a nearer broker to fetch from, and until when (KIP-392).
        turn: when it was last fetched with something to show for it; the longest ago comes first.
    """

    tp: TopicPartition
    position: int | None = None
    position_epoch: int = -1
    done: tuple[int, int] | None = None
    committed: int | None = None
    reset: int | None = None
    paused: bool = False
    revoking: bool = False
    settling: bool = False
    seeks: int = 0
    not_before_ms: float = 0.0
    preferred_replica: tuple[int, float] | None = None
    turn: int = 0
    validated_epoch: int = -1
    without_offset: bool = False
    high_watermark: int | None = None
    last_stable_offset: int | None = None

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Jump to an offset. Records that the user was given before count as finished."""
        self.position = offset
        self.position_epoch = epoch
        self.done = (offset, epoch)
        self.reset = None
        self.without_offset = False
        self.seeks += 1

    def request_reset(self, where: int) -> None:
        """Have the position looked up: EARLIEST or LATEST."""
        self.position = None
        self.done = None
        self.without_offset = False
        self.reset = where
        self.seeks += 1

    def moved(self, offset: int, epoch: int) -> None:
        """Records before ``offset`` were given out."""
        self.position = offset
        self.position_epoch = epoch

    def finished(self) -> None:
        """The user is done with everything it was given."""
        if self.position is not None:
            self.done = (self.position, self.position_epoch)

    @property
    def unfinished(self) -> bool:
        """The user still works on records that it was given."""
        return self.done is not None and self.position is not None and self.done[0] != self.position

    @property
    def readable(self) -> bool:
        """Records may be given out and fetched."""
        return self.position is not None and not (self.paused or self.revoking or self.settling)


class SubscriptionState:
    """A consumer's subscription and assignment."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        """What the broker matches (``group_protocol="consumer"``); the topics are then those of the assignment."""
        self.released: dict[TopicPartition, PartitionState] = {}
        """The partitions given up of which the listener is being told: it may still commit them."""
        self._states: dict[TopicPartition, PartitionState] = {}
        self._given: set[PartitionState] = set()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics by name, in place of what was subscribed to before."""
        self._set_mode(Mode.TOPICS)
        self.pattern = self.regex = None
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str | re.Pattern[str]) -> None:
        """Subscribe to all topics that a regular expression matches from their first letter on.

        Raises:
            OptionError: it is no regular expression.
        """
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise OptionError(f"pattern={pattern!r}: allowed is a regular expression: {error}") from None
        self._set_mode(Mode.PATTERN)
        self.pattern = compiled
        self.topics = frozenset()

    def subscribe_regex(self, pattern: str | re.Pattern[str]) -> None:
        """Subscribe to all topics whose names the broker matches, in the syntax of RE2.

        Raises:
            OptionError: it is no text, or has flags, which do not go over the wire.
        """
        regex = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        if not isinstance(regex, str) or not regex.strip():
            raise OptionError(f"pattern={pattern!r}: allowed is a regular expression that is not empty, as a text")
        if isinstance(pattern, re.Pattern) and pattern.flags & ~re.UNICODE:
            raise OptionError(f"pattern={pattern!r}: the broker matches it; write flags into the text, such as (?i)")
        self._set_mode(Mode.PATTERN)
        self.pattern = None
        self.regex = regex
        self.topics = frozenset(tp.topic for tp in self._states)

    def match(self, names: Iterable[str]) -> frozenset[str]:
        """The topics among these that the pattern matches."""
        return frozenset(name for name in names if self.pattern is not None and self.pattern.match(name))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Positions of those read before are kept."""
        self._set_mode(Mode.MANUAL)
        self.set_assignment(partitions)

    def clear(self) -> None:
        """Read nothing."""
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.regex = None
        self._states.clear()

    def release(self) -> list[TopicPartition]:
        """Read nothing. Returns what is given up; it stays in ``released`` until the listener has been told."""
        held = self.assigned()
        self.released.update(self._states)
        self.clear()
        return held

    def _set_mode(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise OptionError(
                f"this consumer has {self.mode.value}: subscribe() to topics, subscribe() to a pattern and assign() "
                "exclude each other; call unsubscribe() first"
            )
        self.mode = mode

    @property
    def auto_assigned(self) -> bool:
        """The group decides what this consumer reads."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def set_assignment(self, partitions: Iterable[TopicPartition], *, settling: bool = False) -> None:
        """Have exactly these partitions. Those that stay keep their state.

        Args:
            settling: new ones are not read until `settle`.
        """
        self._states = {tp: self._states.get(tp) or PartitionState(tp, settling=settling) for tp in partitions}
        if self.regex is not None:
            self.topics = frozenset(tp.topic for tp in self._states)

    def settle(self) -> None:
        """The listener knows of everything that is assigned."""
        for state in self._states.values():
            state.settling = False

    def mark_revoking(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out no more records of these: they are about to be given up."""
        for tp in partitions:
            if tp in self._states:
                self._states[tp].revoking = True

    def assigned(self) -> list[TopicPartition]:
        """The partitions that this consumer has."""
        return list(self._states)

    def states(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def get(self, tp: TopicPartition) -> PartitionState | None:
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of a partition.

        Raises:
            OptionError: the partition is not assigned.
        """
        state = self._states.get(partition(tp)) or self.released.get(tp)
        if state is None:
            raise OptionError(f"{tp[0]}-{tp[1]} is not assigned to this consumer")
        return state

    def gave(self, state: PartitionState, offset: int, epoch: int) -> None:
        """Records before ``offset`` were given to the user."""
        state.moved(offset, epoch)
        self._given.add(state)

    def finish(self) -> None:
        """The user is done with everything it was given."""
        for state in self._given:
            state.finished()
        self._given.clear()

    @property
    def unfinished(self) -> bool:
        """The user has records of partitions that are still assigned."""
        return any(state.unfinished and self._states.get(state.tp) is state for state in self._given)

    def to_commit(self) -> dict[TopicPartition, tuple[int, int]]:
        """By partition the offset and leader epoch up to which records are finished, if that is not committed yet."""
        return {
            tp: state.done
            for tp, state in self._states.items()
            if state.done is not None and state.done[0] != state.committed
        }
