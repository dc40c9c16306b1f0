"""OffsetFetch, once it is known that this broker coordinates the group."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from uuid import UUID

from ottla.broker.core.coordination.shard import Waiter, append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.offsets.commit import KNOWS_TOPIC_IDS
from ottla.broker.core.groups.offsets.committed import CommittedOffset, CommittedOffsets
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.protocol.primitives import ZERO_UUID

TopicIds = Callable[[str], UUID]
"""The id of a topic by its name; zero if there is no such topic."""

HAS_GROUP_ERROR = 2
"""From this OffsetFetch version on there is an error code for the group."""

FETCHES_IN_BATCHES = 8
"""From this OffsetFetch version on several groups are fetched at once (KIP-709)."""


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
            shard = m.shard_of(wanted.group_id)
            if shard.refusal:
                self.errors.setdefault(wanted.group_id, shard.refusal)


class GroupFetch(Waiter[Machine]):
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
    """The error of a fetch whose write failed: NOT_COORDINATOR where others hear COORDINATOR_NOT_AVAILABLE."""
    shown = append_error(error)
    return ErrorCode.NOT_COORDINATOR if shown is ErrorCode.COORDINATOR_NOT_AVAILABLE else shown


def requested_groups(request: OffsetFetchRequest, ctx: Asker) -> list[OffsetFetchRequestGroup]:
    """The request in its batch form; up to version 7 it names one group (KIP-709)."""
    if request.groups or ctx.api_version >= FETCHES_IN_BATCHES:
        return request.groups
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)]


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
            if wanted.group_id in errors or group is None:
                continue
            for write in group.awaited_by_fetches():
                if write in group.shard.in_flight:
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
    if group is not None and (error := group.refuse_fetch(wanted.member_id, wanted.member_epoch, stable=stable)):
        result.error_code = error
        return result
    offsets = group.offsets if group is not None and not group.is_gone else CommittedOffsets()
    unstable = offsets.pending_partitions() if stable and offsets.pending else ()
    topics = _all_topics(offsets, unstable, topic_ids) if wanted.topics is None else wanted.topics
    unknown = []
    for topic in topics:
        name, topic_id = topic.name, topic.topic_id
        if topic_ids is not None and not name:
            missing = [nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopic(topic_id=topic_id, partitions=missing))
            continue
        found = [
            nothing(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if (name, index) in unstable
            else _fetched(index, offsets.get(name, index), topic_id)
            for index in topic.partition_indexes
        ]
        result.topics.append(OffsetFetchResponseTopic(name=name, topic_id=topic_id, partitions=found))
    result.topics += unknown  # as in Kafka those that were asked for by an id that nobody has come last
    return result


def _all_topics(
    offsets: CommittedOffsets, unstable: Container[tuple[str, int]], topic_ids: TopicIds | None
) -> list[OffsetFetchRequestTopic]:
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
            topics.append(OffsetFetchRequestTopic(name=name, topic_id=topic_id, partition_indexes=indexes))
    return topics


def nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartition:
    """No offset, or none that is told. UNSTABLE_OFFSET_COMMIT: an open transaction may change it (KIP-447)."""
    return OffsetFetchResponsePartition(partition_index=partition, committed_offset=-1, metadata="", error_code=error)


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: UUID) -> OffsetFetchResponsePartition:
    if committed is None or not committed.may_be_of(topic_id):
        return nothing(partition)
    return OffsetFetchResponsePartition(
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
            failed = [nothing(index, ErrorCode(group.error_code)) for index in topic.partition_indexes]
            response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=failed))
    response.topics += group.topics
    return response
