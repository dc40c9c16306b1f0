"""What one entry changes of a consumer group: its records count from the moment on at which they are handed over, are
written together, and are taken back if that fails (2.11)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from ottla.broker.core.consumer_groups.facts import Fact, GroupEpoch
from ottla.broker.core.consumer_groups.group import ConsumerGroup, Session
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.consumer_groups.state import UNREVOKED, Member, State
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import Write
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import Event, GroupCreated, GroupEpochBumped, StateChanged, WriteFailed
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.machine import Machine, Timer, held_until
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord

R = TypeVar("R")

AGAIN_MS = 500
"""So long after the records that remove a member could not be written it is removed anew (R2.36)."""

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


class StateWrite(Write[Machine]):
    """Records of a consumer group on their way."""

    __slots__ = ("group",)
    what = "changes"

    def __init__(self, group: ConsumerGroup) -> None:
        super().__init__(group.shard)
        self.group = group

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        settle(m, self.group, self, error, "its first records could not be written")
        if error:
            m.emit(WriteFailed(group_id=self.group_id, what=self.what, error=error.name))


def settle(m: Machine, group: ConsumerGroup, write: Write[Machine], error: ErrorCode, reason: str) -> None:
    """A write with records of a group is durable, or failed.

    Members that come back by a failure are looked after again. A group of which nothing is left is forgotten; if it
    has offsets, a group that only stores these takes its place.

    Args:
        reason: why the group would be forgotten.
    """
    group.settled(write, error)
    if m.groups.get(group.group_id) is not group:
        return  # it was given up
    m.weigh(group)
    if error:
        look_after(m, group, AGAIN_MS)
    if not group.durable.exists and not group.in_flight:
        m.forget_group(group, reason)
        if group.offsets:
            m.add_group(ClassicGroup(group.group_id, group.shard, group.offsets, m.wall_ms))


def look_after(m: Machine, group: ConsumerGroup, again_ms: int | None = None) -> None:
    """Begin to look after members that nobody looks after: they came back from the log, or cannot be removed yet.

    Args:
        again_ms: when that is looked at anew, in place of the usual times.
    """
    for member in group.state.members.values():
        session, timeout_ms = group.sessions.get(member.member_id), None
        if session is None:
            session, timeout_ms = m.new_session(group, member.member_id, again_ms), again_ms
        key = TimerKey(Timer.REBALANCE, group.group_id, member.member_id)
        if member.state is UNREVOKED and m.left_ms(key) is None:
            give_time(m, group, session, member, timeout_ms)


def give_time(
    m: Machine, group: ConsumerGroup, session: Session, member: Member, timeout_ms: int | None = None
) -> None:
    """Give a member its rebalance timeout, or another time, to give partitions up."""
    session.rebalance_epoch = member.epoch
    key = TimerKey(Timer.REBALANCE, group.group_id, member.member_id)
    m.set_deadline(key, member.rebalance_timeout_ms if timeout_ms is None else timeout_ms)


class Change:
    """See the module. To be used in a ``with`` statement, whose end hands the records over to the log.

    If an exception ends it, the group is as it was before.

    Args:
        announce: called before events are told; None within an entry that was told of.

    Attributes:
        events: told at the end, before the records are handed over.
        removed: ids of members that are looked after no more from then on.
        checked_version: the version of the topics that the group goes by from then on.
        newcomer: the member whose request this is, if the group did not have it before.
        has_new_instance: nobody had its instance id before.
        most_members: see `State`, before the request.
        is_homogeneous: what an assignor is told of the group (3.2); it is how the group was before the request, unless
            that held it against its topics (R3.7).
    """

    def __init__(self, m: Machine, group: ConsumerGroup, announce: Callable[[], None] | None = None) -> None:
        self.m = m
        self.group = group
        self.announce = announce
        self.checked_version = group.checked_version
        self.events: list[Event] = []
        self.removed: list[str] = []
        state = group.state
        waits = state.epoch > state.assignment_epoch  # of other groups it is not asked
        self.is_homogeneous = waits and state.subscriptions.is_homogeneous(
            len(state.members), when_members_changed=True
        )
        self.newcomer: str | None = None
        self.has_new_instance = False
        self.most_members = state.most_members
        self._facts: list[Fact] = []
        self._before = group.state.group_state

    @property
    def state(self) -> State:
        """The state of the group with all that was added."""
        return self.group.state

    def asked_by(self, member_id: str, instance_id: str | None) -> None:
        """Note, before anything is added, whose request it is."""
        if member_id not in self.state.members:
            self.newcomer = member_id
        self.has_new_instance = instance_id is not None and instance_id not in self.state.static_members

    def add(self, fact: Fact) -> None:
        """Write a record."""
        self._facts.append(fact)
        self.group.add(fact)

    def bump(self, metadata_hash: int, reasons: list[str]) -> None:
        """Raise the epoch of the group: its target has to be computed anew."""
        epoch = self.state.epoch + 1
        self.add(GroupEpoch(epoch, metadata_hash))
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
        self.group.checked_version = self.checked_version

    def _end(self) -> None:
        records = [record_of(self.group.group_id, fact) for fact in self._facts]
        if _size(records) > self.m.config.message_max_bytes:
            self.group.take_back()
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as where the log refuses them (R1.7)
        m, group = self.m, self.group
        if self.announce is not None:
            self.announce()
        if m.groups.get(group.group_id) is not group:
            m.add_group(group)
            m.emit(GroupCreated(group_id=group.group_id, simple=False))
        for member_id in self.removed:
            m.forget_session(group, member_id)
        for event in self.events:
            m.emit(event)
        before, after = self._before, group.state.group_state
        if after is not before:
            m.emit(StateChanged(group_id=group.group_id, before=before, after=after, generation=group.generation))
        if records:
            write = StateWrite(group)
            group.written(write, self._facts)
            m.weigh(group)
            m.append(write, records)


def answer(group: ConsumerGroup, ctx: Asker, response: R) -> R | None:
    """The answer to a request, which may tell of what is on its way; None if it waits for that (R2.26)."""
    last = next(reversed(group.in_flight), None)
    return response if last is None else held_until([last], ctx, group.group_id, response)


def _size(records: list[CoordinatorRecord]) -> int:
    return RECORD_BYTES * (len(records) + 3) + sum(len(key) + len(value or b"") for key, value in records)
