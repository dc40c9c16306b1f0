"""OffsetCommit, once it is known that this broker coordinates the group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.broker.core.coordination.shard import Write, append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import Commit, OffsetsCommitted
from ottla.broker.core.groups.group import Group, group_bytes
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.offsets.committed import Accepted, CommittedOffset
from ottla.broker.core.groups.records import offset_record
from ottla.broker.core.groups.shard import GroupShard
from ottla.broker.settings import INT64_MAX
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import utf16_length
from ottla.protocol.message_parts import PartitionOutcome
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from ottla.protocol.primitives import ZERO_UUID

Refusals = Mapping[tuple[str, int], ErrorCode]
"""Topic name and partition → why the broker does not let the coordinator see it. The name of a topic that was asked for
by an id that nobody has is empty; -1 as the partition is a topic that is not there, where no partition was named."""

NOTHING_REFUSED: Refusals = {}

NO_PARTITION = -1

KNOWS_GROUP_NOT_FOUND = 9
"""From this OffsetCommit version on an unknown group is called that (KIP-848)."""

KNOWS_TOPIC_IDS = 10
"""From these OffsetCommit and OffsetFetch versions on topics go by their ids, not by their names (KIP-848)."""


class CommitWrite(Write[Machine]):
    """Committed offsets on their way; they become visible when they are durable.

    Args:
        undecided: topic, what is to be committed, and its place in the response.
    """

    __slots__ = ("accepted", "ctx", "group", "request", "response", "undecided")
    what = "offsets"

    def __init__(
        self, group: Group, ctx: Asker, request: Any, response: Any, undecided: Sequence[tuple[Any, Any, Any]]
    ) -> None:
        super().__init__(group.shard)
        self.group = group
        self.ctx = ctx
        self.request = request
        self.response = response
        self.undecided = undecided
        self.accepted: list[tuple[str, int, CommittedOffset]] = []

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def hand_over(self, m: Machine) -> bool:
        """Log the offsets, but for those whose metadata is too long; False if none is left."""
        group_id, offsets = self.group.group_id, self.group.offsets
        records = []
        for topic, partition, answer in self.undecided:
            metadata = partition.committed_metadata or ""
            if is_too_long(m, metadata):
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            name, index = topic.name, partition.partition_index
            committed = self.committed(m, topic, partition, metadata)
            self.accepted.append((name, index, committed))
            records.append(offset_record(group_id, name, index, committed))
        if not records:
            return False
        offsets.writes_begin(self.accepted)
        m.append(self, records)
        offsets.last_write = self
        return True

    def committed(self, m: Machine, topic: Any, partition: Any, metadata: str) -> CommittedOffset:
        """One of the offsets, as it is kept."""
        retention = self.request.retention_time_ms
        timestamp_ms = m.wall_ms if partition.commit_timestamp == -1 else partition.commit_timestamp
        offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
        if retention != -1:
            # The record that can tell its own expiry has no place for the id, and what the log does not have is not so.
            return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms, min(m.wall_ms + retention, INT64_MAX))
        return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms, -1, topic.topic_id)

    def done(self, m: Machine, error: ErrorCode) -> None:
        if error:
            self.failed(m, error)
            return
        moved_back = self.keep(m)
        if m.observed:
            if moved_back or m.recorded:
                self.tell(m, moved_back)
            else:
                m.observer.count_commit(self.group.group_id, len(self.accepted), m.wall_ms)
        m.grant(self.ctx, self.response, self.group_id, self.request.member_id)

    def tell(self, m: Machine, moved_back: Accepted) -> None:
        """Tell observers that the offsets are committed, and what those were before that have moved back."""
        m.emit(
            OffsetsCommitted(
                group_id=self.group_id,
                cause=m.cause,
                member_id=self.request.member_id,
                partitions=len(self.accepted),
                moved_back=[
                    Commit(topic, partition, before.offset, before.leader_epoch, before.metadata)
                    for topic, partition, before in moved_back
                ],
            )
        )

    def failed(self, m: Machine, error: ErrorCode) -> None:
        """Answer that nothing was written."""
        offsets = self.group.offsets
        for topic, partition, _ in self.accepted:
            offsets.write_ends(topic, partition)
        for _, _, answer in self.undecided:
            if not answer.error_code:
                answer.error_code = append_error(error)
        m.drop_if_vacant(self.group)
        m.reply(self.ctx, self.response, self.group_id, self.request.member_id)

    def keep(self, m: Machine) -> Accepted:
        """Take the offsets in, now that they are durable; returns what was committed before where they moved back."""
        return self.group.offsets.written(self.accepted)


def refuse_older(
    m: Machine, group: Group, member_id: str, epoch: int, undecided: Sequence[tuple[Any, Any, Any]]
) -> ErrorCode:
    """Why a member of a consumer group may not commit with an epoch that is not its own: it depends on the partitions.

    Those whose metadata are too long are not asked for: they are refused in any case (R7.1).
    """
    places = []
    for topic, partition, _ in undecided:
        if not is_too_long(m, partition.committed_metadata):
            known = m.topics.by_name.get(topic.name)
            places.append((ZERO_UUID if known is None else known.topic_id, partition.partition_index))
    return group.refuse_older(member_id, epoch, places)


def is_too_long(m: Machine, metadata: str | None) -> bool:
    """Whether the log does not take such metadata of an offset."""
    return utf16_length(metadata or "") > m.config.offset_metadata_max_bytes


Undecided = tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition, PartitionOutcome]
"""Topic, what is to be committed, and its place in the answer."""


def commit_response(request: OffsetCommitRequest, refused: Refusals) -> tuple[OffsetCommitResponse, list[Undecided]]:
    """An answer, and its partitions that the coordinator has to decide on."""
    topics, undecided = decide_by_topic(
        request.topics,
        refused,
        lambda topic: OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id),
        lambda topic: (topic.name, topic.topic_id),
    )
    return OffsetCommitResponse(topics=topics), undecided


def decide_by_topic(
    topics: Sequence[Any],
    refused: Refusals,
    new: Callable[[Any], Any],
    key: Callable[[Any], object] = lambda topic: topic.name,
) -> tuple[list[Any], list[tuple[Any, Any, PartitionOutcome]]]:
    """The entries of an answer, and the partitions that are to be decided on: topic, partition, its answer.

    Where something is refused, it comes first, as in Kafka, and each topic has one entry, even if the request has
    several. Where nothing is refused the answer is as the request.

    Args:
        new: makes the entry of a topic.
        key: topics with the same one share an entry.
    """
    entries: dict[object, Any] = {}
    undecided: list[tuple[Any, Any, PartitionOutcome]] = []

    def entry_of(topic: Any, at: object) -> Any:
        found = entries.get(at)
        if found is None:
            found = entries[at] = new(topic)
        return found

    for topic in topics if refused else ():
        errors = [(p.partition_index, refused.get((topic.name, p.partition_index))) for p in topic.partitions]
        rows = [PartitionOutcome(partition_index=p, error_code=e) for p, e in errors if e]
        if rows or (not topic.partitions and (topic.name, NO_PARTITION) in refused):
            entry_of(topic, key(topic)).partitions.extend(rows)
    for number, topic in enumerate(topics):
        accepted = topic.partitions
        if refused:
            accepted = [p for p in accepted if (topic.name, p.partition_index) not in refused]
        if accepted:
            entry = entry_of(topic, key(topic) if refused else number)
            for partition in accepted:
                answer = PartitionOutcome(partition_index=partition.partition_index)
                entry.partitions.append(answer)
                undecided.append((topic, partition, answer))
    return list(entries.values()), undecided


def commit(
    m: Machine, shard: GroupShard, request: OffsetCommitRequest, ctx: Asker, refused: Refusals
) -> OffsetCommitResponse | None:
    """Commit offsets; None if the answer waits for the records.

    A request of which nothing is left to decide is answered without looking at the group, as Kafka does: it keeps no
    session alive and creates no group.
    """
    response, undecided = commit_response(request, refused)
    if not undecided:
        return response
    generation = request.generation_id_or_member_epoch
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if ctx.api_version >= KNOWS_GROUP_NOT_FOUND else ErrorCode.ILLEGAL_GENERATION
    group, error = committing_group(m, shard, request.group_id, generation, unknown)
    if group is not None:
        member_id = request.member_id
        error = group.refuse_commit(member_id, request.group_instance_id, generation, ctx.api_version)
        if error is ErrorCode.STALE_MEMBER_EPOCH:
            error = refuse_older(m, group, member_id, generation, undecided)
    if error or group is None:
        return _failed(response, undecided, error)
    m.heard_of(group, request.member_id)
    return None if CommitWrite(group, ctx, request, response, undecided).hand_over(m) else response


def unavailable(request: OffsetCommitRequest, refused: Refusals, error: ErrorCode) -> OffsetCommitResponse:
    """The answer of a broker that cannot speak for the group."""
    return _failed(*commit_response(request, refused), error)


def _failed(response: OffsetCommitResponse, undecided: list[Undecided], error: ErrorCode) -> OffsetCommitResponse:
    """Repeat an error of the group for every partition that is not refused already."""
    for _, _, answer in undecided:
        answer.error_code = error
    return response


def committing_group(
    m: Machine, shard: GroupShard, group_id: str, generation: int, unknown: ErrorCode
) -> tuple[Group | None, ErrorCode]:
    """The group to commit to, which comes to be if nobody claims a generation of it; or why there is none.

    Args:
        unknown: the error where there is no such group.
    """
    group = m.groups.get(group_id)
    if group is not None:
        return group, ErrorCode.NONE
    if generation >= 0:
        return None, unknown
    if not m.has_room(None, group_bytes(group_id)):
        return None, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return m.new_simple_group(shard, group_id), ErrorCode.NONE
