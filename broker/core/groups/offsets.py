"""OffsetCommit and OffsetFetch, once it is known that this broker coordinates the group."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.broker.core.effects import Asker, Reply
from ottla.broker.core.events import Commit, GroupCreated, OffsetsCommitted
from ottla.broker.core.groups.committed import CommittedOffset, CommittedOffsets
from ottla.broker.core.groups.group import Group, Recorded, group_bytes
from ottla.broker.core.groups.machine import Machine, Waiter, Write
from ottla.broker.core.groups.records import offset_record
from ottla.broker.core.groups.replies import append_error
from ottla.broker.core.groups.shard import Shard
from ottla.broker.core.groups.state import COMPLETING_REBALANCE, DEAD, EMPTY
from ottla.broker.settings import INT64_MAX
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition, utf16_length
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.primitives import ZERO_UUID

Refusals = Mapping[tuple[str, int], ErrorCode]
"""Topic name and partition → why the broker does not let the coordinator see it. The name of a topic that was asked for
by an id that nobody has is empty; -1 as the partition is a topic that is not there, where no partition was named."""

NO_PARTITION = -1

TopicIds = Callable[[str], UUID]
"""The id of a topic by its name; zero if there is no such topic."""

KNOWS_GROUP_NOT_FOUND = 9
"""From this OffsetCommit version on an unknown group is called that (KIP-848)."""

HAS_GROUP_ERROR = 2
"""From this OffsetFetch version on there is an error code for the group."""

FETCHES_IN_BATCHES = 8
"""From this OffsetFetch version on several groups are fetched at once (KIP-709)."""

KNOWS_TOPIC_IDS = 10
"""From these OffsetCommit and OffsetFetch versions on topics go by their ids, not by their names (KIP-848)."""


class CommitWrite(Write):
    """Committed offsets on their way; they become visible when they are durable."""

    __slots__ = ("accepted", "ctx", "group", "member_id", "response", "undecided")
    what = "offsets"

    def __init__(
        self, group: Group, ctx: Asker, member_id: str, response: Any, undecided: Sequence[tuple[Any, Any, Any]]
    ) -> None:
        super().__init__(group.shard)
        self.group = group
        self.ctx = ctx
        self.member_id = member_id
        self.response = response
        self.undecided = undecided
        self.accepted: list[tuple[str, int, CommittedOffset]] = []

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        offsets = self.group.offsets
        moved_back = self._moved_back() if m.observed and not error else []
        for topic, partition, committed in self.accepted:
            offsets.write_ends(topic, partition)
            if not error:
                self.keep(topic, partition, committed)
        if error:
            for _, _, answer in self.undecided:
                if not answer.error_code:
                    answer.error_code = append_error(error)
            _drop_if_vacant(m, self.group)
        elif moved_back or m.recorded:
            partitions = len(self.accepted)
            m.emit(
                OffsetsCommitted(
                    group_id=self.group_id,
                    cause=m.cause,
                    member_id=self.member_id,
                    partitions=partitions,
                    moved_back=moved_back,
                )
            )
        elif m.observed:
            m.observer.count_commit(self.group.group_id, len(self.accepted), m.wall_ms)
        if error or m.recorded:
            m.reply(self.ctx, self.response, self.group_id, self.member_id)
        else:
            m.effects.append(Reply(self.ctx, self.response))

    def _moved_back(self) -> list[Commit]:
        """What was committed further on before, for observers."""
        found = []
        get = self.group.offsets.get
        for topic, partition, committed in self.accepted:
            before = get(topic, partition)
            if before is not None and before.offset > committed.offset:
                found.append(Commit(topic, partition, before.offset, before.leader_epoch, before.metadata))
        return found

    def keep(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Take one of the offsets in, now that it is durable."""
        self.group.offsets.store(topic, partition, committed)


def _drop_if_vacant(m: Machine, group: Group) -> None:
    """Take back a group that only came to be by a commit that failed."""
    if (
        group.is_simple
        and group.recorded is Recorded.NOTHING
        and not group.offsets
        and not group.group_writes
        and m.groups.get(group.group_id) is group
    ):
        m.forget_group(group, "its first commit could not be written")


Undecided = tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition, OffsetCommitResponsePartition]
"""Topic, what is to be committed, and its place in the answer."""


def commit_response(request: OffsetCommitRequest, refused: Refusals) -> tuple[OffsetCommitResponse, list[Undecided]]:
    """An answer, and its partitions that the coordinator has to decide on.

    As in Kafka what is refused comes first; then each topic has one entry, even if the request has several. Where
    nothing is refused the answer is as the request.
    """
    response = OffsetCommitResponse()
    undecided: list[Undecided] = []
    if not refused:
        for topic in request.topics:
            if topic.partitions:
                answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
                response.topics.append(answered)
                _accept(topic, topic.partitions, answered, undecided)
        return response, undecided
    entries: dict[tuple[str, UUID], OffsetCommitResponseTopic] = {}
    for topic in request.topics:
        errors = [(p.partition_index, refused.get((topic.name, p.partition_index))) for p in topic.partitions]
        rows = [OffsetCommitResponsePartition(partition_index=p, error_code=e) for p, e in errors if e]
        if rows or (not topic.partitions and (topic.name, NO_PARTITION) in refused):
            _commit_entry(response, entries, topic).partitions.extend(rows)
    for topic in request.topics:
        if accepted := [p for p in topic.partitions if (topic.name, p.partition_index) not in refused]:
            _accept(topic, accepted, _commit_entry(response, entries, topic), undecided)
    return response, undecided


def _accept(
    topic: OffsetCommitRequestTopic,
    partitions: Sequence[OffsetCommitRequestPartition],
    answered: OffsetCommitResponseTopic,
    undecided: list[Undecided],
) -> None:
    for partition in partitions:
        answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
        answered.partitions.append(answer)
        undecided.append((topic, partition, answer))


def _commit_entry(
    response: OffsetCommitResponse,
    entries: dict[tuple[str, UUID], OffsetCommitResponseTopic],
    topic: OffsetCommitRequestTopic,
) -> OffsetCommitResponseTopic:
    """The entry of a topic, added to the response if it is not among these."""
    key = topic.name, topic.topic_id
    entry = entries.get(key)
    if entry is None:
        entry = entries[key] = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(entry)
    return entry


def commit(
    m: Machine, shard: Shard, request: OffsetCommitRequest, ctx: Asker, refused: Refusals
) -> OffsetCommitResponse | None:
    """Commit offsets; None if the answer waits for the records.

    A request of which nothing is left to decide is answered without looking at the group, as Kafka does: it keeps no
    session alive and creates no group.
    """
    response, undecided = commit_response(request, refused)
    if not undecided:
        return response
    group, error = _committing_group(m, shard, request, ctx)
    if error or group is None:
        return _failed(response, undecided, error)
    write = CommitWrite(group, ctx, request.member_id, response, undecided)
    limit = m.config.offset_metadata_max_bytes
    for topic, partition, answer in undecided:
        metadata = partition.committed_metadata or ""
        if utf16_length(metadata) > limit:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        committed = _committed(m, request, topic.topic_id, partition, metadata)
        write.accepted.append((topic.name, partition.partition_index, committed))
    if not write.accepted:
        return response
    group_id = group.group_id
    records = []
    for name, index, committed in write.accepted:
        group.offsets.write_begins(name, index)
        records.append(offset_record(group_id, name, index, committed))
    m.append(write, records)
    group.offsets.last_write = write
    return None


def unavailable(request: OffsetCommitRequest, refused: Refusals, error: ErrorCode) -> OffsetCommitResponse:
    """The answer of a broker that cannot speak for the group."""
    return _failed(*commit_response(request, refused), error)


def _failed(response: OffsetCommitResponse, undecided: list[Undecided], error: ErrorCode) -> OffsetCommitResponse:
    """Repeat an error of the group for every partition that is not refused already."""
    for _, _, answer in undecided:
        answer.error_code = error
    return response


def _committing_group(
    m: Machine, shard: Shard, request: OffsetCommitRequest, ctx: Asker
) -> tuple[Group | None, ErrorCode]:
    """The group to commit to, and why not. A member that commits is alive: its session starts afresh."""
    generation = request.generation_id_or_member_epoch
    group = m.groups.get(request.group_id)
    if group is None:
        if generation >= 0:
            unknown = ctx.api_version >= KNOWS_GROUP_NOT_FOUND
            return None, ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.ILLEGAL_GENERATION
        if not m.has_room(None, group_bytes(request.group_id)):
            return None, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        group = new_simple_group(m, shard, request.group_id)
    if group.state is DEAD:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is EMPTY:
        return group, ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    if error := group.fence(request.member_id, request.group_instance_id):
        return None, error
    if generation != group.generation:
        return None, ErrorCode.ILLEGAL_GENERATION
    if group.state is COMPLETING_REBALANCE:
        return None, ErrorCode.REBALANCE_IN_PROGRESS
    if group.has_sessions:
        member = group.members[request.member_id]
        member.session_deadline_ms = m.now_ms + member.session_timeout_ms
    return group, ErrorCode.NONE


def new_simple_group(m: Machine, shard: Shard, group_id: str) -> Group:
    """A group that comes to be because somebody stores offsets."""
    group = Group(group_id, shard, CommittedOffsets(), m.wall_ms)
    m.add_group(group)
    m.emit(GroupCreated(group_id=group_id, cause=m.cause, simple=True))
    return group


def _committed(
    m: Machine, request: OffsetCommitRequest, topic_id: UUID, partition: OffsetCommitRequestPartition, metadata: str
) -> CommittedOffset:
    retention = request.retention_time_ms
    timestamp_ms = m.wall_ms if partition.commit_timestamp == -1 else partition.commit_timestamp
    offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
    if retention != -1:
        # The record that can tell its own expiry has no place for the id, and what the log does not have is not so.
        return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms, min(m.wall_ms + retention, INT64_MAX))
    return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms, -1, topic_id)


# Fetching


class FetchAnswer:
    """An OffsetFetch that asked for stable offsets while some were on their way (KIP-447).

    Attributes:
        waiting: for how many writes it still waits.
        errors: group id → what it hears because such a write failed.
    """

    __slots__ = ("ctx", "errors", "request", "topic_ids", "waiting")

    def __init__(self, request: OffsetFetchRequest, ctx: Asker, topic_ids: TopicIds) -> None:
        self.request = request
        self.ctx = ctx
        self.topic_ids = topic_ids
        self.waiting = 0
        self.errors: dict[str, ErrorCode] = {}

    def note_lost_groups(self, m: Machine) -> None:
        """Groups that were given up meanwhile are not unknown: clients would take that for "nothing committed"."""
        for wanted in requested_groups(self.request, self.ctx):
            shard = m.shards[coordinator_partition(wanted.group_id, m.partition_count)]
            if shard.refusal:
                self.errors.setdefault(wanted.group_id, shard.refusal)


class GroupFetch(Waiter):
    """The wait of a `FetchAnswer` for the last write of one group."""

    __slots__ = ("answer", "group_id")

    def __init__(self, answer: FetchAnswer, group_id: str) -> None:
        self.answer = answer
        self.group_id = group_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        answer = self.answer
        if error:
            answer.errors[self.group_id] = _fetch_error(error)
        answer.waiting -= 1
        if not answer.waiting:
            answer.note_lost_groups(m)
            response = fetch_response(m, answer.request, answer.ctx, answer.errors, answer.topic_ids)
            m.reply(answer.ctx, response, self.group_id, "")


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """What a fetch hears when the write that it waited for failed: NOT_COORDINATOR where others hear 15."""
    shown = append_error(error)
    return ErrorCode.NOT_COORDINATOR if shown is ErrorCode.COORDINATOR_NOT_AVAILABLE else shown


def requested_groups(request: OffsetFetchRequest, ctx: Asker) -> list[OffsetFetchRequestGroup]:
    """The request in its batch form; up to version 7 it names one group (KIP-709)."""
    if request.groups or ctx.api_version >= FETCHES_IN_BATCHES:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def no_ids(name: str) -> UUID:
    """Where nobody knows ids of topics."""
    return ZERO_UUID


def fetch(
    m: Machine, request: OffsetFetchRequest, ctx: Asker, errors: dict[str, ErrorCode], topic_ids: TopicIds = no_ids
) -> OffsetFetchResponse | None:
    """Show durable offsets; None if the answer waits for some that are on their way.

    Args:
        errors: group id → why this broker cannot speak for the group.
        topic_ids: looked at for versions that name topics by id, and ask for all that there are.
    """
    if request.require_stable:
        answer = FetchAnswer(request, ctx, topic_ids)
        answer.errors = errors
        for wanted in requested_groups(request, ctx):
            group = m.groups.get(wanted.group_id)
            if wanted.group_id in errors or group is None or not group.offsets.in_flight:
                continue
            write = group.offsets.last_write
            if write is not None and write in group.shard.in_flight:
                write.waiters.append(GroupFetch(answer, wanted.group_id))
                answer.waiting += 1
        if answer.waiting:
            return None
    return fetch_response(m, request, ctx, errors, topic_ids)


def fetch_response(
    m: Machine, request: OffsetFetchRequest, ctx: Asker, errors: Mapping[str, ErrorCode], topic_ids: TopicIds
) -> OffsetFetchResponse:
    """The answer in the form of the request's version."""
    ids = topic_ids if ctx.api_version >= KNOWS_TOPIC_IDS else None
    requested = requested_groups(request, ctx)
    # Kafka answers as often as a group is named. All the offsets of one are put together once.
    keys = [wanted.group_id if wanted.topics is None else id(wanted) for wanted in requested]
    found = {
        key: _fetch_group(m, wanted, errors.get(wanted.group_id, ErrorCode.NONE), ids, stable=request.require_stable)
        for key, wanted in dict(zip(keys, requested, strict=True)).items()
    }
    groups = [found[key] for key in keys]
    batch = ctx.api_version >= FETCHES_IN_BATCHES
    return OffsetFetchResponse(groups=groups) if batch else _flat_response(request, ctx, groups[0])


def _fetch_group(
    m: Machine, wanted: OffsetFetchRequestGroup, error: ErrorCode, topic_ids: TopicIds | None, *, stable: bool
) -> OffsetFetchResponseGroup:
    """The answer for one group; ``topic_ids`` is None for versions that do not name topics by id."""
    result = OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error)
    if error:
        return result
    group = m.groups.get(wanted.group_id)
    offsets = group.offsets if group is not None and group.state is not DEAD else CommittedOffsets()
    unstable = offsets.pending_partitions() if stable and offsets.pending else ()
    topics = _all_topics(offsets, unstable, topic_ids) if wanted.topics is None else wanted.topics
    unknown = []
    for topic in topics:
        name, topic_id = topic.name, topic.topic_id
        if topic_ids is not None and not name:
            missing = [_nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic_id, partitions=missing))
            continue
        found = [
            _nothing(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if (name, index) in unstable
            else _fetched(index, offsets.get(name, index), topic_id)
            for index in topic.partition_indexes
        ]
        result.topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=found))
    result.topics += unknown  # as in Kafka those that were asked for by an id that nobody has come last
    return result


def _all_topics(
    offsets: CommittedOffsets, unstable: Container[tuple[str, int]], topic_ids: TopicIds | None
) -> list[OffsetFetchRequestTopics]:
    """All that a group has an offset for, as a request would name it.

    By id topics that are no more are left out, and so are offsets that are known to be of another topic of that name.
    Kafka's coordinator compares ids only where it is asked for topics.
    """
    topics = []
    for name, partitions in offsets.by_topic.items():
        topic_id = ZERO_UUID
        indexes = list(partitions)
        if topic_ids is not None:
            topic_id = topic_ids(name)
            if not topic_id.int:
                continue
            indexes = [i for i in indexes if partitions[i].may_be_of(topic_id) or (name, i) in unstable]
        if indexes:
            topics.append(OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes))
    return topics


def _nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """No offset, or none that is told. UNSTABLE_OFFSET_COMMIT: an open transaction may change it (KIP-447)."""
    return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, metadata="", error_code=error)


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: UUID) -> OffsetFetchResponsePartitions:
    if committed is None or not committed.may_be_of(topic_id):
        return _nothing(partition)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _flat_response(request: OffsetFetchRequest, ctx: Asker, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Versions 1 to 7. Version 1 has no place for an error of the group: every partition repeats it."""
    response = OffsetFetchResponse(error_code=group.error_code)
    if group.error_code and ctx.api_version < HAS_GROUP_ERROR:
        for topic in request.topics or ():
            failed = [
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=group.error_code
                )
                for index in topic.partition_indexes
            ]
            response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=failed))
    for fetched in group.topics:
        partitions = [
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in fetched.partitions
        ]
        response.topics.append(OffsetFetchResponseTopic(name=fetched.name, partitions=partitions))
    return response
