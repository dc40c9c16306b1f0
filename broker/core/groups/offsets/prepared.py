"""A commit that was made before and comes again with other offsets.

A consumer commits the same partitions again and again. What does not change between two of its commits is worked out
once: whom the offsets belong to, and the bytes of their records. Everything that may change in the group is asked
anew. What becomes of the records is told to a `CommitWrite` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from ottla.broker.core.effects import Asker, Reply
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.offsets.commit import CommitWrite, commit_response
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.broker.core.groups.records import offset_record
from ottla.protocol.errors import ErrorCode
from ottla.protocol.gaps import HIGH, LOW, two_gaps
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.records import record_body

NONE = ErrorCode.NONE
"""A member of an enumeration takes longer to find than an answer to make."""


class PreparedCommit:
    """What is known of a commit before its offsets.

    Attributes:
        request: one that was made; of its offsets nothing is used.
        claim: who commits: member id, instance id, generation, and the version of the request.
        api_version, client_id, client_host: of the request, and of who sent it.
        answer: what is answered if all goes well.
    """

    __slots__ = ("answer", "api_version", "claim", "client_host", "client_id", "group_id", "member_id", "places",
                 "request")  # fmt: skip

    def __init__(self, request: OffsetCommitRequest, ctx: Asker) -> None:
        self.request = request
        self.group_id, self.member_id = request.group_id, request.member_id
        self.api_version, self.client_id, self.client_host = ctx.api_version, ctx.client_id, ctx.client_host
        self.answer, undecided = commit_response(request, {})
        generation = request.generation_id_or_member_epoch
        self.claim = request.member_id, request.group_instance_id, generation, ctx.api_version
        self.places = [_place(request.group_id, topic, partition) for topic, partition, _ in undecided]


_Place: TypeAlias = tuple[tuple[str, int], int, str, UUID, Callable[..., bytes], bytes, bytes, bytes]
"""A topic and partition; what is committed besides offset and time: leader epoch, metadata, the topic's id; and how its
record is written, as of `two_gaps`."""


def _place(group_id: str, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition) -> _Place:
    name, index = topic.name, partition.partition_index
    leader_epoch, metadata = partition.committed_leader_epoch, partition.committed_metadata or ""
    low, high = (
        record_body(
            *offset_record(group_id, name, index, CommittedOffset(n, leader_epoch, metadata, n, -1, topic.topic_id))
        )
        for n in (LOW, HIGH)
    )
    return (name, index), leader_epoch, metadata, topic.topic_id, *two_gaps(low, high)


class PreparedWrite(CommitWrite):
    """The offsets of a prepared commit on their way.

    Attributes:
        bodies: the records, as `record_body` makes them.
    """

    __slots__ = ("bodies",)

    def __init__(self, m: Machine, group: Group, prepared: PreparedCommit, offsets: Sequence[int], ctx: Asker) -> None:
        # All that its bases would set is set here: no commit comes by more often.
        self.group = group
        self.ctx = ctx
        self.request, self.response, self.undecided = prepared.request, prepared.answer, ()
        self.cause = m.cause
        self.waiters = []
        shard = self.shard = group.shard
        shard.in_flight[self] = None
        wall_ms, table = m.wall_ms, group.offsets
        table.last_write = self
        in_flight = table.begun()
        accepted: list[tuple[str, int, CommittedOffset]] = []
        bodies: list[bytes] = []
        self.accepted, self.bodies = accepted, bodies
        for at, (key, leader_epoch, metadata, topic_id, pack, before, between, after) in enumerate(prepared.places):
            offset = offsets[at]
            accepted.append((*key, CommittedOffset(offset, leader_epoch, metadata, wall_ms, -1, topic_id)))
            bodies.append(pack(before, offset, between, wall_ms, after))
            in_flight[key] = in_flight.get(key, 0) + 1

    def failed(self, m: Machine, error: ErrorCode) -> None:
        self.response, self.undecided = commit_response(self.request, {})
        super().failed(m, error)


def appended_all(m: Machine, writes: Iterable[object], now_ms: int, wall_ms: int) -> None:
    """Take in what is durable now, write by write, each in an entry of its own: what `Machine.appended` does.

    Nobody wants every single event. So of prepared commits it does that in one go; no writes come by more often.
    """
    m.now_ms, m.wall_ms = now_ms, wall_ms
    observed, effects = m.observed, m.effects
    counted: list[tuple[str, int]] = []  # of which observers are still to be told
    for write in writes:
        if not isinstance(write, PreparedWrite):
            counted = _count(m, counted)
            m.appended(write, NONE, now_ms, wall_ms)
            continue
        if write.shard.in_flight.pop(write, True):
            continue  # of a shard given up
        m.cause += 1
        group, accepted = write.group, write.accepted
        moved_back = group.offsets.written(accepted)
        if observed:
            if moved_back:
                counted = _count(m, counted)
                write.tell(m, moved_back)
            else:
                counted.append((group.group_id, len(accepted)))
        effects.append(Reply(write.ctx, write.response))
        if write.waiters:
            counted = _count(m, counted)
            for waiter in write.waiters:
                waiter.done(m, NONE)
    _count(m, counted)


def _count(m: Machine, counted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Tell observers of commits, before anything else of what comes after; returns what is left, which is nothing."""
    if counted:
        m.observer.count_commits(counted, m.wall_ms)
    return []


def prepare(m: Machine, request: OffsetCommitRequest, ctx: Asker) -> PreparedCommit | None:
    """What is to be kept of a commit that was handed over to the log just now; None of one that cannot come again so.

    That is one of which something was refused, or which brings a time of its own.
    """
    group = m.groups.get(request.group_id)
    write = None if group is None else group.offsets.last_write
    if group is None or not isinstance(write, CommitWrite) or write.request is not request:
        return None
    asked = [partition for topic in request.topics for partition in topic.partitions]
    if len(write.accepted) != len(asked) or request.retention_time_ms != -1:
        return None
    if any(partition.commit_timestamp != -1 for partition in asked):
        return None
    return PreparedCommit(request, ctx)
