"""What one entry changes of a consumer group: its records count from the moment on at which they are handed over, are
written together, and are taken back if that fails (2.11)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from ottla.broker.core.consumer_groups.facts import Fact, GroupEpoch
from ottla.broker.core.consumer_groups.group import NEVER_CHECKED, ConsumerGroup
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.consumer_groups.state import Member, State
from ottla.broker.core.consumer_groups.writes import ConversionWrite, StateWrite
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import Event, GroupConverted, GroupCreated, GroupEpochBumped, StateChanged
from ottla.broker.core.groups import notes
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.machine import Machine, Timer, held_until
from ottla.broker.core.groups.records import group_record, group_tombstone
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord

R = TypeVar("R")

RECORD_BYTES = 24
"""Bytes that a record takes in a batch besides its key and its value, at most, and a batch besides its records."""


class Refused(Exception):
    """A request that is not granted, and changes nothing.

    Attributes:
        error_code: what the client hears.
        text: what is wrong, in words; None where the code says it all (1.4).
    """

    def __init__(self, error_code: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.text = text


class Change:
    """See the module. To be used in a ``with`` statement, whose end hands the records over to the log.

    If an exception ends it, the group is as it was before.

    Args:
        announce: called before events are told, maybe twice; None within an entry that was told of.
        replaced: the classic group that the group takes the place of.

    Attributes:
        epoch: of the group, before the change.
        successor: the classic group that takes the place of the group, of which nothing is left then.
        events: told at the end, before the records are handed over.
        removed: ids of members that are looked after no more from then on.
        told_to_rejoin: ids of members whose parked requests were answered already.
        is_due: the group is to be held against its topics, as something happened to one of them since it was last
            (3.5). What happened to others is no occasion.
        checked_hash: that of the group from then on, unless it is due.
        starts_resolution: the regexes of the group are to be resolved.
        newcomer: the member whose request this is, if the group did not have it before.
        untargeted: the same, if there was no target for its id.
        has_new_instance: nobody had its instance id before.
        displaced: the member that had the id under which a static member came back, if that is another one.
        most_members: see `State`, before the request.
        is_homogeneous: what an assignor is told of the group (3.2); it is how the group was before the request, unless
            that held it against its topics (R3.7).
    """

    def __init__(
        self,
        m: Machine,
        group: ConsumerGroup,
        announce: Callable[[], None] | None = None,
        replaced: ClassicGroup | None = None,
    ) -> None:
        self.m = m
        self.group = group
        self.announce = announce
        self.replaced = replaced
        self.successor: ClassicGroup | None = None
        self.told_to_rejoin: list[str] = []
        self.epoch = group.state.epoch
        self.is_due, self.checked_hash = self._is_due(), group.checked_hash
        self.events: list[Event] = []
        self.removed: list[str] = []
        self.starts_resolution = False
        state, counts = group.state, group.state.subscriptions
        waits = state.epoch > state.assignment_epoch  # of other groups it is not asked
        self.is_homogeneous = waits and counts.is_homogeneous(len(state.members), when_members_changed=True)
        self.newcomer: str | None = None
        self.untargeted: str | None = None
        self.has_new_instance = False
        self.displaced: Member | None = None
        self.most_members = state.most_members
        self._facts: list[Fact] = []
        self._records: list[CoordinatorRecord | None] = []
        self._before = group.state.group_state

    def _is_due(self) -> bool:
        """Whether the group is due before anything is added: it goes by what it subscribed to until now."""
        group, topics = self.group, self.m.topics
        if group.checked_version == topics.version:
            return False
        if group.checked_version == NEVER_CHECKED:
            return True
        return topics.hash_of(group.state.subscriptions.topics()) != group.checked_hash

    @property
    def state(self) -> State:
        """The state of the group with all that was added."""
        return self.group.state

    def asked_by(self, member_id: str, instance_id: str | None) -> None:
        """Note, before anything is added, whose request it is."""
        if member_id not in self.state.members:
            self.newcomer = member_id
        if member_id not in self.state.targets:
            self.untargeted = member_id
        self.has_new_instance = instance_id is not None and instance_id not in self.state.static_members

    def announce_now(self) -> None:
        """Tell of the entry ahead of what is told before the end."""
        if self.announce is not None:
            self.announce()
        notes.topics_seen(self.m)

    def add(self, fact: Fact, record: CoordinatorRecord | None = None) -> None:
        """Write a record.

        Args:
            record: it, if it is made already.
        """
        self._facts.append(fact)
        self._records.append(record)
        self.group.add(fact)

    def bump(self, metadata_hash: int, reasons: list[str]) -> None:
        """Raise the epoch of the group: its target has to be computed anew.

        Args:
            metadata_hash: of the topics as they are, and of all that the group subscribes to.
        """
        epoch = self.state.epoch + 1
        self.add(GroupEpoch(epoch, metadata_hash))
        self.checked_hash = metadata_hash
        self.events.append(
            GroupEpochBumped(
                group_id=self.group.group_id,
                epoch=epoch,
                reasons=reasons,
                metadata_hash=metadata_hash,
                members=len(self.state.members),
            )
        )

    def __enter__(self) -> Change:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if kind is not None:
            if self._facts:
                self.group.take_back()
            return
        if self._facts or self.events:
            self._end()
        self.group.checked_version = NEVER_CHECKED if self.is_due else self.m.topics.version
        self.group.checked_hash = self.checked_hash

    def _end(self) -> None:
        m, group, successor = self.m, self.group, self.successor
        self.announce_now()
        pairs = zip(self._facts, self._records, strict=True)
        records = [record_of(group.group_id, fact) if made is None else made for fact, made in pairs]
        if self.replaced is not None:
            records.insert(0, group_tombstone(group.group_id))
        if successor is not None:
            records.append(group_record(successor))
        if _size(records) > m.config.message_max_bytes:
            group.take_back()
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as where the log refuses them (R1.7)
        self._put_in_place()
        for member_id in self.removed:
            m.forget_session(group, member_id)
        if self.starts_resolution:
            m.deadlines.set(TimerKey(Timer.REGEX, group.group_id), m.now_ms)
        for event in self.events:
            m.emit(event)
        if successor is not None:  # behind its occasion, that somebody left
            self._tell_converted(group.kind, successor.kind, successor.generation)
        before, after = self._before, group.state.group_state
        if after is not before and successor is None:
            group.state_since_ms = m.wall_ms
            if not before.is_restless:
                group.restless_since_ms = m.wall_ms
            m.emit(StateChanged(group_id=group.group_id, before=before, after=after, generation=group.generation))
        if records:
            self._write(records)

    def _put_in_place(self) -> None:
        """Let the coordinator know the group that there is from now on."""
        m, group = self.m, self.group
        if self.replaced is not None:
            m.replace_group(self.replaced, group)
            self._tell_converted(self.replaced.kind, group.kind, self.replaced.generation)
        elif m.groups.get(group.group_id) is not group:
            m.add_group(group)
            m.emit(GroupCreated(group_id=group.group_id, simple=False))
        if self.successor is not None:
            m.replace_group(group, self.successor)

    def _tell_converted(self, before: str, after: str, generation: int) -> None:
        self.m.emit(
            GroupConverted(
                group_id=self.group.group_id,
                before=before,
                after=after,
                generation=generation,
                told_to_rejoin=self.told_to_rejoin,
            )
        )

    def _write(self, records: list[CoordinatorRecord]) -> None:
        m, group, successor = self.m, self.group, self.successor
        if successor is not None:
            write: StateWrite | ConversionWrite = ConversionWrite(successor, group, self.removed)
        else:
            write = StateWrite(group, self.replaced)
            m.weigh(group)
        group.written(write, self._facts)
        m.append(write, records)


def answer(group: ConsumerGroup, ctx: Asker, response: R) -> R | None:
    """The answer to a request, which may tell of what is on its way; None if it waits for that (R2.26)."""
    last = next(reversed(group.in_flight), None)
    return response if last is None else held_until([last], ctx, group.group_id, response)


def _size(records: list[CoordinatorRecord]) -> int:
    return RECORD_BYTES * (len(records) + 3) + sum(len(key) + len(value or b"") for key, value in records)
