"""Deleting committed offsets and groups: tombstones, and the requests that ask for them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ottla.broker.core.consumer_groups.facts import DELETION
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.consumer_groups.writes import settle
from ottla.broker.core.coordination.shard import Shard, Waiter, Write, append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import OffsetsRemoved, WriteFailed
from ottla.broker.core.groups.classic.group import ClassicGroup, Recorded
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import HeldAnswer, Machine, held_until
from ottla.broker.core.groups.offsets.commit import Refusals, decide_by_topic
from ottla.broker.core.groups.records import group_tombstone, offset_tombstone
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicOutcome
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.offsets_topic import CoordinatorRecord

BATCH_RECORDS = 1_000
"""How many tombstones go into one batch: some hundred KiB at most, below every sensible ``max.message.bytes``."""


class TombstoneWrite(Write[Machine]):
    """Tombstones of offsets, and of groups that go with them.

    Nothing is forgotten before they are durable. A group that got a member meanwhile lives on, with nothing of its
    past in the log; one that stores offsets again, or issued ids, lives on as a new group.
    """

    __slots__ = ("groups", "partitions", "reason")
    what = "tombstones"

    def __init__(self, shard: Shard, reason: str) -> None:
        super().__init__(shard)
        self.reason = reason
        self.partitions: list[tuple[Group, str, int]] = []
        self.groups: list[Group] = []

    @property
    def group_id(self) -> str:
        return self.partitions[0][0].group_id if self.partitions else self.groups[0].group_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        removed: dict[str, int] = {}
        for group, topic, partition in self.partitions:
            group.offsets.write_ends(topic, partition)
            if not error:
                group.offsets.discard(topic, partition)
                removed[group.group_id] = removed.get(group.group_id, 0) + 1
        for group in self.groups:
            if isinstance(group, ConsumerGroup):
                settle(m, group, self, error, self.reason)
            elif isinstance(group, ClassicGroup):
                group.group_writes -= 1
                if not error:
                    self._remove(m, group)
        if error:
            m.emit(WriteFailed(group_id=self.group_id, what=self.what, error=error.name))
        for group_id, count in removed.items():
            m.emit(OffsetsRemoved(group_id=group_id, partitions=count, reason=self.reason))

    def _remove(self, m: Machine, group: ClassicGroup) -> None:
        if m.groups.get(group.group_id) is not group:
            return
        if not group.is_empty or group.group_writes:
            # Records of the group that come later in the log are what counts.
            group.recorded = Recorded.NOTHING
            return
        pending = group.pending_members
        group.pending_members = {}
        m.forget_group(group, self.reason)
        if pending or group.offsets:
            successor = ClassicGroup(group.group_id, group.shard, group.offsets, m.wall_ms)
            successor.pending_members = pending
            m.add_group(successor)


class Tombstones:
    """Collects tombstones of a shard and writes them in batches of bounded size."""

    def __init__(self, m: Machine, shard: Shard, reason: str) -> None:
        self.m = m
        self.shard = shard
        self.reason = reason
        self.writes: list[TombstoneWrite] = []
        self._write = TombstoneWrite(shard, reason)
        self._records: list[CoordinatorRecord] = []

    def add_offset(self, group: Group, topic: str, partition: int) -> None:
        """Delete an offset."""
        group.offsets.write_begins(topic, partition)
        group.offsets.last_write = self._write
        self._write.partitions.append((group, topic, partition))
        self._add(offset_tombstone(group.group_id, topic, partition))

    def add_group(self, group: Group) -> None:
        """Delete a group whose offsets are deleted as well. The issued ids of a classic one are void from now on."""
        self._write.groups.append(group)
        if isinstance(group, ConsumerGroup):
            for fact in DELETION:
                group.add(fact)
                self._records.append(record_of(group.group_id, fact))
            group.written(self._write, DELETION)
            self.m.weigh(group)
            self._flush_if_full()
        elif isinstance(group, ClassicGroup):
            self._add_classic(group)

    def _add_classic(self, group: ClassicGroup) -> None:
        for member_id in list(group.pending_members):
            self.m.remove_member(group, member_id, self.reason)
        group.group_writes += 1
        if group.recorded is Recorded.CURRENT:
            group.recorded = Recorded.STALE
        self._add(group_tombstone(group.group_id))

    def _add(self, record: CoordinatorRecord) -> None:
        self._records.append(record)
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if len(self._records) >= BATCH_RECORDS:
            self.flush()

    def flush(self) -> list[TombstoneWrite]:
        """Write what was collected; returns all writes so far."""
        if self._records:
            self.m.append(self._write, self._records)
            self.writes.append(self._write)
            self._write = TombstoneWrite(self.shard, self.reason)
            self._records = []
        return self.writes


# OffsetDelete


def delete_offsets(
    m: Machine, request: OffsetDeleteRequest, ctx: Asker, refused: Refusals
) -> OffsetDeleteResponse | None:
    """Delete offsets of topics that the group does not use (KIP-496); None if the answer waits for tombstones."""
    group = m.groups.get(request.group_id)
    if group is None or group.is_gone:
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty and group.protocol_type != PROTOCOL_TYPE:
        return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
    tombstones = Tombstones(m, group.shard, "OffsetDelete")
    topics, undecided = decide_by_topic(request.topics, refused, lambda topic: TopicOutcome(name=topic.name))
    for topic, _, answer in undecided:
        if group.is_subscribed(topic.name):
            answer.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif group.offsets.is_known(topic.name, answer.partition_index):
            tombstones.add_offset(group, topic.name, answer.partition_index)
    return held_until(tombstones.flush(), ctx, group.group_id, OffsetDeleteResponse(topics=topics))


# DeleteGroups


class GroupDeletion(Waiter[Machine]):
    """One write of a DeleteGroups, whose answer is held until all tombstones are durable or have failed."""

    __slots__ = ("answer", "result")

    def __init__(self, answer: HeldAnswer, result: DeletableGroupResult) -> None:
        self.answer = answer
        self.result = result

    def done(self, m: Machine, error: ErrorCode) -> None:
        if error:
            self.result.error_code = append_error(error)
        self.answer.group_id = self.result.group_id
        self.answer.done(m, ErrorCode.NONE)


def delete_groups(
    m: Machine, group_ids: Iterable[str], errors: dict[str, ErrorCode], ctx: Asker
) -> DeleteGroupsResponse | None:
    """Delete groups without members and their offsets (KIP-229); None if the answer waits for tombstones.

    Args:
        errors: group id → why this broker cannot speak for the group.
    """
    response = DeleteGroupsResponse()
    answer = HeldAnswer(ctx, "", response, 0)
    for group_id in dict.fromkeys(group_ids):
        result = DeletableGroupResult(group_id=group_id, error_code=errors.get(group_id, ErrorCode.NONE))
        response.results.append(result)
        if result.error_code:
            continue
        group = m.groups.get(group_id)
        if group is None or group.is_gone:
            result.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            result.error_code = ErrorCode.NON_EMPTY_GROUP
        else:
            for write in delete_group(m, group, "deleted").flush():
                write.waiters.append(GroupDeletion(answer, result))
                answer.waiting += 1
    return None if answer.waiting else response


def delete_group(m: Machine, group: Group, reason: str) -> Tombstones:
    """Collect the tombstones of a group and of everything it stores."""
    tombstones = Tombstones(m, group.shard, reason)
    for topic, partition in group.offsets.known_partitions():
        tombstones.add_offset(group, topic, partition)
    tombstones.add_group(group)
    return tombstones


# Topics


def topic_deleted(m: Machine, shard: GroupShard, topic: str, topic_id: UUID) -> None:
    """Delete the offsets that the groups of a shard have for a topic that is gone.

    Those that are known to be of another topic of that name stay.
    """
    tombstones = Tombstones(m, shard, f"topic {topic} was deleted")
    for group in shard.groups.values():
        for partition in group.offsets.known_partitions_of(topic, topic_id):
            tombstones.add_offset(group, topic, partition)
    tombstones.flush()
