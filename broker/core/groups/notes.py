"""The events of the coordinator's inputs: what came in, and what was refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.broker.core.consumer_groups.facts import facts_of
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import ShardState, Write
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import (
    AppendFinished,
    Commit,
    ConsumerGroupLoaded,
    FetchParked,
    GroupLoaded,
    JoinReceived,
    LeaveReceived,
    Leaving,
    LoadedMember,
    LoggedRecord,
    NamedBytes,
    OffsetDeleteReceived,
    OffsetDeletion,
    OwnershipChanged,
    PendingCommit,
    RequestReceived,
    RequestRefused,
    SeenTopic,
    SessionExtended,
    SyncReceived,
    TimerFired,
    TopicsSeen,
    TxnCommitReceived,
)
from ottla.broker.core.groups.classic.group import ClassicGroup, Recorded
from ottla.broker.core.groups.group import Group, HasSession
from ottla.broker.core.groups.machine import ERROR_NAMES, Machine, Timer
from ottla.broker.core.groups.offsets.commit import NOTHING_REFUSED, CommitWrite, Refusals
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.broker.core.groups.offsets.fetch import requested_groups
from ottla.broker.core.groups.offsets.prepared import PreparedCommit
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

NONE = CommittedOffset(-1, -1, "", -1)
"""Stands for an offset that does not count any more."""


def came(m: Machine, kind: type[Any], group_id: str, *, cause: int = 0, **said: Any) -> None:
    """An input came; ``said`` are the further fields of its kind."""
    if m.observed:
        m.emit(kind(group_id=group_id, cause=cause, number=m.cause, **said))


def received(
    m: Machine,
    api: str,
    group_id: str,
    ctx: Asker | None,
    *,
    member_id: str = "",
    group_instance_id: str | None = None,
    generation: int = -1,
    reason: str | None = None,
    kind: type[RequestReceived] = RequestReceived,
    **said: Any,
) -> None:
    """A request came in; ``said`` are the further fields of its kind."""
    came(
        m,
        kind,
        group_id,
        api=api,
        api_version=-1 if ctx is None else ctx.api_version,
        client_id="" if ctx is None else ctx.client_id,
        client_host="" if ctx is None else ctx.client_host,
        member_id=member_id,
        group_instance_id=group_instance_id,
        generation=generation,
        reason=reason,
        **said,
    )


def join_received(m: Machine, request: JoinGroupRequest, ctx: Asker) -> None:
    """A JoinGroup came in."""
    if m.observed:
        m.emit(
            JoinReceived(
                group_id=request.group_id,
                cause=0,
                number=m.cause,
                api="JoinGroup",
                api_version=ctx.api_version,
                client_id=ctx.client_id,
                client_host=ctx.client_host,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation=-1,
                reason=request.reason,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=[NamedBytes(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols],
            )
        )


def heartbeat_received(m: Machine, request: HeartbeatRequest) -> None:
    """A Heartbeat came in of which something comes."""
    received(
        m,
        "Heartbeat",
        request.group_id,
        None,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
    )


def sync_received(m: Machine, request: SyncGroupRequest, ctx: Asker) -> None:
    """A SyncGroup came in."""
    if m.observed:
        m.emit(
            SyncReceived(
                group_id=request.group_id,
                cause=0,
                number=m.cause,
                api="SyncGroup",
                api_version=ctx.api_version,
                client_id=ctx.client_id,
                client_host=ctx.client_host,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation=request.generation_id,
                reason=None,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=[NamedBytes(item.member_id, bytes(item.assignment)) for item in request.assignments],
            )
        )


def leave_received(m: Machine, request: LeaveGroupRequest, ctx: Asker, member_id: str) -> None:
    """A LeaveGroup came in; ``member_id`` is that of the only member that it is about, or empty."""
    if m.observed:
        entries = request.members
        received(
            m,
            "LeaveGroup",
            request.group_id,
            ctx,
            member_id=member_id,
            kind=LeaveReceived,
            reason=entries[0].reason if entries else None,
            leaving=[Leaving(entry.member_id, entry.group_instance_id, entry.reason) for entry in entries],
        )


def commit_received(m: Machine, request: OffsetCommitRequest, ctx: Asker, refused_before: Refusals) -> None:
    """An OffsetCommit came in."""
    if m.observed:
        m.observer.note_commit(
            (
                m.cause,
                m.now_ms,
                m.wall_ms,
                ctx.api_version,
                ctx.client_id,
                ctx.client_host,
                ctx.encoded,
                request,
                refused_before,
                None,
            )
        )


def prepared_received(m: Machine, prepared: PreparedCommit, ctx: Asker, offsets: Sequence[int]) -> None:
    """An OffsetCommit came in that differs from an earlier one in its offsets alone."""
    if m.observed:
        m.observer.note_commit(
            (
                m.cause,
                m.now_ms,
                m.wall_ms,
                prepared.api_version,
                prepared.client_id,
                prepared.client_host,
                ctx.encoded,
                prepared.request,
                NOTHING_REFUSED,
                offsets,
            )
        )


def txn_commit_received(m: Machine, request: TxnOffsetCommitRequest, ctx: Asker, refused_before: Refusals) -> None:
    """A TxnOffsetCommit came in."""
    if m.observed:
        received(
            m,
            "TxnOffsetCommit",
            request.group_id,
            ctx,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
            kind=TxnCommitReceived,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            commits=[
                Commit(
                    topic.name,
                    item.partition_index,
                    item.committed_offset,
                    item.committed_leader_epoch,
                    item.committed_metadata,
                    refused_before.get((topic.name, item.partition_index), 0),
                )
                for topic in request.topics
                for item in topic.partitions
            ],
        )


def fetch_parked(m: Machine, request: OffsetFetchRequest, ctx: Asker) -> None:
    """An OffsetFetch waits for offsets on their way."""
    if m.observed:
        wanted = [group.group_id for group in requested_groups(request, ctx)]
        received(m, "OffsetFetch", wanted[0], ctx, kind=FetchParked, wanted=wanted)


def delete_received(m: Machine, request: OffsetDeleteRequest, ctx: Asker, refused_before: Refusals) -> None:
    """An OffsetDelete came in."""
    if m.observed:
        deletions = [
            OffsetDeletion(topic.name, item.partition_index, refused_before.get((topic.name, item.partition_index), 0))
            for topic in request.topics
            for item in topic.partitions
        ]
        received(m, "OffsetDelete", request.group_id, ctx, kind=OffsetDeleteReceived, deletions=deletions)


def topics_seen(m: Machine) -> None:
    """Topics have changed since observers were told of them: what is decided now may depend on that."""
    topics = m.topics
    news = dict.fromkeys(topics.by_name, False) if topics.news is None else topics.news
    if not m.observed or not news:
        return
    topics.news = {}
    seen = []
    for name, has_other_racks in news.items():
        topic = topics.by_name.get(name)
        if topic is None:
            seen.append(SeenTopic(name, b"", 0, []))
        else:
            racks = [list(of_partition) for of_partition in topic.racks] if any(topic.racks) else []
            seen.append(SeenTopic(name, topic.topic_id.bytes, topic.partition_count, racks, has_other_racks))
    m.emit(TopicsSeen(group_id="", topics=seen, version=topics.version, newest_version=topics.newest_version))


def group_loaded(m: Machine, group: Group) -> None:
    """A group came back from the log."""
    if m.observed and isinstance(group, ConsumerGroup):
        topics_seen(m)
        state = group.state
        records = [record_of(group.group_id, fact) for fact in facts_of(state)]
        m.emit(
            ConsumerGroupLoaded(
                group_id=group.group_id,
                cause=m.cause,
                state=state.group_state,
                generation=state.epoch,
                members=len(state.members),
                records=[LoggedRecord(key, value or b"") for key, value in records],
                topics=m.topics.told(dict.fromkeys(state.owner_epochs, ())),
                commits=[_loaded(topic, partition, one) for topic, partition, one in group.offsets.items()],
                pending=_pending(group),
            )
        )
    elif m.observed and isinstance(group, ClassicGroup):
        m.emit(
            GroupLoaded(
                group_id=group.group_id,
                cause=m.cause,
                state=group.state,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader_id=group.leader_id,
                state_since_ms=group.state_timestamp_ms,
                loaded=[
                    LoadedMember(
                        member.member_id,
                        member.group_instance_id,
                        member.client_id,
                        member.client_host,
                        member.session_timeout_ms,
                        member.rebalance_timeout_ms,
                        member.metadata(group.protocol_name),
                        member.assignment,
                    )
                    for member in group.members.values()
                ],
                commits=[_loaded(topic, partition, one) for topic, partition, one in group.offsets.items()],
                pending=_pending(group),
                is_recorded=group.recorded is not Recorded.NOTHING,
            )
        )


def _loaded(topic: str, partition: int, one: CommittedOffset) -> Commit:
    topic_id = one.topic_id.bytes if one.topic_id.int else b""
    return Commit(
        topic,
        partition,
        one.offset,
        one.leader_epoch,
        one.metadata,
        0,
        one.commit_timestamp_ms,
        one.expire_timestamp_ms,
        topic_id,
    )


def _pending(group: Group) -> list[PendingCommit]:
    """The offsets of open transactions in the order of their records; of an overtaken one only its place counts."""
    found = [
        (
            pending.number,
            PendingCommit(producer_id, pending.committed is None, _loaded(*key, pending.committed or NONE)),
        )
        for producer_id, table in group.offsets.pending.items()
        for key, pending in table.items()
    ]
    return [pending for _, pending in sorted(found, key=lambda item: item[0])]


def refused(m: Machine, api: str, group_id: str, member_id: str, error: int) -> None:
    """A request was answered with an error."""
    if m.observed and error:
        name = ErrorCode(error).name
        m.emit(RequestRefused(group_id=group_id, cause=m.cause, api=api, member_id=member_id, error=name))


def commit_refused(m: Machine, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
    """Offsets were not committed, or not all of them."""
    if m.observed:
        codes = (item.error_code for topic in answer.topics for item in topic.partitions)
        first = next((code for code in codes if code), 0)
        refused(m, "OffsetCommit", request.group_id, request.member_id, first)


def fired(m: Machine, key: TimerKey, cause: int = 0) -> None:
    """A deadline passed."""
    group_id, shard = ("", key.subject) if key.timer is Timer.RETENTION else (str(key.subject), -1)
    came(m, TimerFired, group_id, cause=cause, timer=key.timer, member_id=key.member_id, shard=int(shard))


def session_extended(m: Machine, group_id: str, member: HasSession) -> None:
    """A member was to be looked after, and had been heard of since."""
    if m.observed:
        m.begin(m.now_ms)
        heard_ms, deadline_ms = m.last_heard_ms(member), member.session_deadline_ms
        member_id = member.member_id
        came(m, SessionExtended, group_id, member_id=member_id, last_heard_ms=heard_ms, deadline_ms=deadline_ms)


def appended(m: Machine, write: Write[Machine], error: ErrorCode) -> None:
    """The outcome of a write is known."""
    if m.recorded or (m.observed and (error or write.what is not CommitWrite.what)):
        m.emit(
            AppendFinished(
                group_id=write.group_id, cause=write.cause, number=m.cause, what=write.what, error=ERROR_NAMES[error]
            )
        )


def ownership(m: Machine, shard: GroupShard, state: ShardState) -> None:
    """A partition changes its state."""
    m.emit(
        OwnershipChanged(
            group_id="",
            cause=0,
            number=m.cause,
            partition=shard.partition,
            state=state,
            groups=len(shard.groups),
        )
    )
