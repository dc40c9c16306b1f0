"""Records of consumer groups on their way, and what comes of it when they are durable or fail.

A group that takes the place of one of another kind does so at once, as every change counts at once. If its first
records fail the other one is there again: nothing that came after them is in the log, either (R8.18, R8.25).
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.sessions import AGAIN_MS, look_after
from ottla.broker.core.coordination.shard import Write, append_error
from ottla.broker.core.events import GroupConverted, WriteFailed
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.loading import dismiss, go_on
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import GroupWrite, Machine
from ottla.protocol.errors import ErrorCode


class StateWrite(Write[Machine]):
    """Records of a consumer group on their way.

    Attributes:
        replaced: the classic group that it took the place of with these records.
    """

    __slots__ = ("group", "replaced")
    what = "changes"

    def __init__(self, group: ConsumerGroup, replaced: ClassicGroup | None = None) -> None:
        super().__init__(group.shard)
        self.group = group
        self.replaced = replaced

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        if error and self.replaced is not None:
            self.group.settled(self, error)
            take_back(m, self.replaced, self.group, error)
        else:
            settle(m, self.group, self, error, "its first records could not be written")
        if error:
            m.emit(WriteFailed(group_id=self.group_id, what=self.what, error=error.name))


class ConversionWrite(GroupWrite):
    """The records with which a classic group takes the place of a consumer group.

    Attributes:
        replaced: the consumer group.
        removed: ids of its members that were removed with that.
    """

    __slots__ = ("removed", "replaced")
    what = "conversion"

    def __init__(self, group: ClassicGroup, replaced: ConsumerGroup, removed: Sequence[str] = ()) -> None:
        super().__init__(group)
        self.replaced = replaced
        self.removed = removed

    def done(self, m: Machine, error: ErrorCode) -> None:
        GroupWrite.done(self, m, error)
        before = self.replaced
        before.settled(self, error)
        if error and take_back(m, before, self.group, error):
            for member_id in self.removed:
                if member_id in before.state.members:
                    m.new_session(before, member_id, AGAIN_MS)


def settle(m: Machine, group: ConsumerGroup, write: Write[Machine], error: ErrorCode, reason: str) -> None:
    """A write with records of a group is durable, or failed.

    Members that come back by a failure are looked after again. A group of which nothing is left is forgotten; if it
    has offsets, a group that only stores these takes its place.

    Args:
        reason: why the group would be forgotten.
    """
    group.settled(write, error)
    if m.groups.get(group.group_id) is not group:
        return  # it was given up, or is another one now
    m.weigh(group)
    if error:
        look_after(m, group, AGAIN_MS)
    if not group.in_flight and not group.durable.exists:
        _forget(m, group, reason)


def _forget(m: Machine, group: Group, reason: str) -> None:
    m.forget_group(group, reason)
    if group.offsets:
        m.add_group(ClassicGroup(group.group_id, group.shard, group.offsets, m.wall_ms))


def take_back(m: Machine, before: Group, after: Group, error: ErrorCode) -> bool:
    """One group took the place of another, and that could not be written: the other one is there again.

    Whatever came after is lost as well, so there may be a third group by now, and the first may never have been.

    Returns:
        Whether it is there again.
    """
    group = m.groups.get(after.group_id)
    shown = append_error(error)
    if isinstance(after, ClassicGroup):
        dismiss(m, after, shown)
    was_there = before.durable.exists if isinstance(before, ConsumerGroup) else not before.is_gone
    if not was_there:
        if group is after:
            _forget(m, after, "its first records could not be written")
        return False
    if group is None or group.shard.refusal:
        return False  # the partition was given up
    if isinstance(group, ClassicGroup) and group is not after:
        dismiss(m, group, shown)
    m.replace_group(group, before)
    m.emit(GroupConverted(group_id=before.group_id, before=after.kind, after=before.kind, generation=before.generation))
    if isinstance(before, ConsumerGroup):
        look_after(m, before)
    elif isinstance(before, ClassicGroup):
        go_on(m, before)
        m.drop_if_vacant(before)
    return True
