"""Plays a recording back: the same inputs go into a fresh coordinator, and it must decide the same.

The coordinator is a machine without a clock, sockets or chance of its own, so what it did follows from what came in.
`replay` gives it the requests, timers, outcomes of appends and losses of a recording, each at its time, and compares
every event that it emits with the recorded one, byte for byte. Good heartbeats leave no event; when they came is told
by the events that depend on it.

A recording whose beginning is missing is played from there for the groups that were created later; the others are
left out, and the verdict says so. Consumer groups are left out of it, too: what they do depends on all topics, of which
the beginning tells.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any
from uuid import UUID

from msgspec import msgpack

from ottla.broker.core.effects import Append
from ottla.broker.core.events import (
    AppendFinished,
    Event,
    EveryEvent,
    GroupCreated,
    GroupLoaded,
    Input,
    OffsetsRemoved,
    OwnershipChanged,
    WriteFailed,
)
from ottla.broker.core.events import consumer_groups as modern_events
from ottla.broker.core.events import decisions as decision_events
from ottla.broker.core.events import inputs as input_events
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.observe.recording import Header
from ottla.observe.replay_inputs import Inputs
from ottla.protocol.groups import coordinator_partition

MOST_DIFFERENCES = 10
"""So many are told; what follows from a difference differs as well."""

_OURS = frozenset((decision_events.__name__, input_events.__name__, modern_events.__name__))

Numbered = tuple[int, Event]


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that differs; None where one side has no event.

    Attributes:
        seq: the number of the recorded event, or of the last one before.
    """

    seq: int
    group_id: str
    recorded: Event | None
    replayed: Event | None

    def __str__(self) -> str:
        recorded = "nothing" if self.recorded is None else self.recorded.summary()
        replayed = "nothing" if self.replayed is None else self.replayed.summary()
        return f"event {self.seq} of group {self.group_id!r}: recorded {recorded}; replayed {replayed}"


@dataclass(slots=True)
class Verdict:
    """The result of a replay.

    Attributes:
        events: how many were read; others: how many of them are not the coordinator's, but of who watched it.
        compared: how many were held against the replay.
        inputs: how many entries into the coordinator there were.
        groups: those that were played; left_out: those whose beginning is not recorded.
        missing: the first number that is missing from the middle; nothing behind it is played.
        differences: the first ones; of one group at most one.
    """

    events: int = 0
    others: int = 0
    compared: int = 0
    inputs: int = 0
    groups: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    missing: int | None = None
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """True if the coordinator decided everything as it was recorded."""
        return not self.differences


def replay(header: Header, events: Iterable[tuple[int, Event | None]]) -> Verdict:
    """Play a recording back, see the module.

    Args:
        events: with their numbers; None for those of unknown kinds, which are not the coordinator's.

    Raises:
        ValueError: its settings are not those of a coordinator.
    """
    return _Replay(header).run(events)


SINCE_CONSUMER_GROUPS = "message_max_bytes"
"""The first of the settings that only consumer groups go by."""


NOBODYS_ID = str(UUID(int=0))
"""Stands for an id that was made and that nobody was told of."""
SHORT_ID = 22
"""Characters of a member id in the form of consumer groups."""


class _Replay:
    def __init__(self, header: Header) -> None:
        names = [one.name for one in fields(GroupConfig)]
        # Those of consumer groups came last: recordings of earlier versions have no such groups, and lack them.
        needed = names[: names.index(SINCE_CONSUMER_GROUPS)]
        wrong = [name for name in needed if name not in header.settings]
        wrong += [name for name in header.settings if name not in names]
        if wrong:
            raise ValueError(f"settings {wrong} are missing or unknown")
        self.verdict = Verdict()
        self._whole = header.first_seq <= 1
        self._emitted: list[Event] = []
        self._ids: deque[str] = deque()
        config: Any = header.settings
        self._coordinator = GroupCoordinator(
            GroupConfig(**config), self._new_id, header.partitions, EveryEvent(self._emitted.append)
        )
        self._coordinator.start()
        self._inputs = Inputs(self._coordinator, strict=self._whole)
        self._writes: dict[tuple[int, str, int], deque[Append]] = {}
        self._broken: set[str] = set()
        self._modern: set[str] = set()
        """Groups of the consumer protocol in a recording whose beginning is missing."""
        if not self._whole:
            for partition in range(header.partitions):
                self._coordinator.load_started(partition, 0)
                self._coordinator.loaded(partition, 0, 0)
            self._emitted.clear()

    def _new_id(self) -> str:
        return self._ids.popleft() if self._ids else NOBODYS_ID

    def run(self, events: Iterable[tuple[int, Event | None]]) -> Verdict:
        last: list[Numbered] = []
        for turn in _turns(self._without_gap(events)):
            if last:
                self._play(last)
            last = turn
        if last:
            self._play(last, may_be_cut=True)
        return self.verdict

    def _without_gap(self, events: Iterable[tuple[int, Event | None]]) -> Iterator[Numbered]:
        """The coordinator's events, up to the first that is missing."""
        before = None
        for seq, event in events:
            self.verdict.events += 1
            if before is not None and seq != before + 1:
                self.verdict.missing = before + 1
            before = seq
            if not self._whole and event is not None and type(event).__module__ == modern_events.__name__:
                self._modern.add(event.group_id)
                self.verdict.left_out.update({event.group_id} - {""})
            if event is None or type(event).__module__ not in _OURS or self._is_modern(event):
                self.verdict.others += 1
            elif self.verdict.missing is None:
                yield seq, event

    def _is_modern(self, event: Event) -> bool:
        """True if an event is about groups that are left out as they are of the consumer protocol."""
        return event.group_id in self._modern or (not self._whole and isinstance(event, modern_events.TopicsSeen))

    def _play(self, turn: list[Numbered], *, may_be_cut: bool = False) -> None:
        if len(self.verdict.differences) >= MOST_DIFFERENCES:
            return
        first = turn[0][1]
        if not isinstance(first, Input):  # the recording begins within a turn
            return
        if not self._is_playable(first, turn):
            return
        self.verdict.inputs += 1
        recorded = [event for _, event in turn]
        self._ids = deque(_issued_ids(first, recorded))
        machine = self._coordinator
        machine.cause, machine.wall_ms = first.number - 1, first.wall_ms
        if isinstance(first, AppendFinished):
            self._inputs.finish(first, self._take_write(first))
        else:
            self._inputs.enter(first, recorded)
        for effect in self._coordinator.take_effects():
            if isinstance(effect, Append):
                token: Any = effect.token
                key = token.cause, token.what, token.shard.partition
                self._writes.setdefault(key, deque()).append(effect)
        # A load of which the recording lacks the beginning was begun for it (`Inputs.enter`).
        states = {event.state for event in recorded if isinstance(event, OwnershipChanged)}
        replayed = [one for one in self._emitted if not isinstance(one, OwnershipChanged) or one.state in states]
        self._emitted.clear()
        if may_be_cut:
            del replayed[len(turn) :]
        self._compare(turn, replayed)

    def _key(self, event: AppendFinished) -> tuple[int, str, int]:
        """The writes of one partition, input and kind end in their order."""
        return event.cause, event.what, coordinator_partition(event.group_id, len(self._coordinator.shards))

    def _take_write(self, event: AppendFinished) -> Append | None:
        key = self._key(event)
        waiting = self._writes.get(key)
        if waiting is None:
            return None
        write = waiting.popleft()
        if not waiting:
            del self._writes[key]
        return write

    def _is_playable(self, first: Input, turn: list[Numbered]) -> bool:
        """True if the state before this turn is known."""
        for _, event in turn:
            if isinstance(event, GroupCreated | GroupLoaded | modern_events.ConsumerGroupLoaded):
                self.verdict.groups.add(event.group_id)
        groups = self.verdict.groups
        if self._whole or not first.group_id or any(event.group_id in groups for _, event in turn):
            return True
        if isinstance(first, AppendFinished) and self._key(first) in self._writes:
            return True
        self.verdict.left_out.add(first.group_id)
        return False

    def _compare(self, turn: list[Numbered], replayed: list[Event]) -> None:
        recorded = [one for one in turn if self._counts(one[1])]
        seq = turn[0][0]
        for ours, theirs in zip_longest(recorded, [event for event in replayed if self._counts(event)]):
            if ours is not None:
                seq = ours[0]
                self.verdict.compared += 1
            if ours is None or theirs is None or msgpack.encode(ours[1]) != msgpack.encode(theirs):
                group_id = (ours[1] if ours is not None else theirs).group_id
                self._broken.add(group_id)
                self.verdict.differences.append(Difference(seq, group_id, ours and ours[1], theirs))
                return

    def _counts(self, event: Event) -> bool:
        """True if an event is compared with its counterpart."""
        if event.group_id in self._broken:
            return False
        if self._whole:
            return True
        # What concerns a whole partition is about groups that are left out, too.
        if isinstance(event, AppendFinished | OwnershipChanged | OffsetsRemoved | WriteFailed):
            return False
        return event.group_id in self.verdict.groups


def _turns(events: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """One entry into the coordinator: its input, and the decisions that it led to."""
    turn: list[Numbered] = []
    number = -1
    for seq, event in events:
        if isinstance(event, Input) and event.number != number:
            number = event.number
            if turn:
                yield turn
            turn = []
        turn.append((seq, event))
    if turn:
        yield turn


def _issued_ids(first: Input, recorded: list[Event]) -> Iterator[str]:
    """The random parts of the member ids that were given in a turn."""
    if isinstance(first, modern_events.ConsumerHeartbeatReceived):
        if first.issued_member_id:
            yield _uuid_of(first.issued_member_id)
        return
    prefix = ""
    if isinstance(first, input_events.RequestReceived):
        prefix = first.client_id if first.group_instance_id is None else first.group_instance_id
    for event in recorded:
        if (
            isinstance(event, decision_events.MemberIdIssued | decision_events.MemberReplaced)
            or (isinstance(event, decision_events.MemberAdded) and not event.was_pending)
            or (isinstance(event, modern_events.MemberSubscribed) and event.is_new)
        ):
            made = event.member_id.removeprefix(f"{prefix}-")
            yield _uuid_of(made) if len(made) == SHORT_ID else made


def _uuid_of(member_id: str) -> str:
    """The id that an id was made of in the form of consumer groups."""
    return str(UUID(bytes=base64.urlsafe_b64decode(f"{member_id}==")))
