"""The inputs of a recording as the calls that they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.topics import KnownTopic
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append
from ottla.broker.core.events import (
    AppendFinished,
    BarrierClosed,
    Commit,
    CommitReceived,
    ConsumerGroupLoaded,
    ConsumerHeartbeatReceived,
    DeadlinesHeld,
    DeadlinesMoved,
    Disconnected,
    Event,
    FetchParked,
    GroupLoaded,
    Input,
    JoinReceived,
    LeaveReceived,
    OffsetDeleteReceived,
    OwnershipChanged,
    RequestReceived,
    SessionExpired,
    SessionExtended,
    SettingsChanged,
    SyncReceived,
    TimerFired,
    TopicDeleted,
    TopicsSeen,
    TransactionEnded,
    TxnCommitReceived,
)
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Hold, Timer
from ottla.broker.core.groups.offsets.committed import CommittedOffset, CommittedOffsets
from ottla.broker.core.groups.replay import replay, restore
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.offsets_topic import CoordinatorRecord, GroupMemberValue, GroupValue
from ottla.protocol.primitives import ZERO_UUID


@dataclass(frozen=True, slots=True, eq=False)
class _Asker:
    """The client that asked, as the coordinator sees it."""

    client_id: str
    client_host: str
    api_version: int
    encoded: bytes = b""


class Inputs:
    """Calls a coordinator as it was called.

    Args:
        strict: a timer must be set, and due, before it fires.
    """

    def __init__(self, coordinator: GroupCoordinator, *, strict: bool) -> None:
        self._coordinator = coordinator
        self._strict = strict
        self._calls: dict[type[Input], Callable[[Any], None]] = {
            JoinReceived: self._join,
            ConsumerHeartbeatReceived: self._heartbeat,
            SyncReceived: self._sync,
            LeaveReceived: self._leave,
            CommitReceived: self._commit,
            TxnCommitReceived: self._commit_in_transaction,
            FetchParked: self._fetch,
            OffsetDeleteReceived: self._delete_offsets,
            SessionExtended: self._extend,
            DeadlinesHeld: self._hold,
            DeadlinesMoved: self._let_go,
            Disconnected: self._disconnect,
            TopicDeleted: self._delete_topic,
            SettingsChanged: self._configure,
            TransactionEnded: self._end_transaction,
        }

    def enter(self, first: Input, recorded: list[Event]) -> None:
        """Make the call that ``first`` tells of; ``recorded`` is all that belongs to it."""
        self._hear(recorded)
        self._see(recorded)
        if isinstance(first, OwnershipChanged):
            self._own(first, recorded)
        elif isinstance(first, TimerFired):
            self._fire(first)
        elif type(first) is RequestReceived:
            self._ask(first, recorded)
        else:
            self._calls[type(first)](first)

    def finish(self, event: AppendFinished, write: Append | None) -> None:
        """Tell the outcome of a write; nothing happens if there was none."""
        if write is not None:
            self._coordinator.appended(write.token, ErrorCode[event.error], event.at_ms, event.wall_ms)

    def _hear(self, recorded: list[Event]) -> None:
        """Take over when members were last heard of, from what depends on it: good heartbeats leave no event."""
        for event in recorded:
            if isinstance(event, SessionExpired):
                self._heard(event.group_id, event.member_id, event.last_heard_ms, event.session_timeout_ms)
            elif isinstance(event, BarrierClosed):
                for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=True):
                    self._heard(event.group_id, member_id, heard_ms)

    def _see(self, recorded: list[Event]) -> None:
        """Take over the topics that there are, which consumer groups go by."""
        for event in recorded:
            if isinstance(event, TopicsSeen):
                topics: list[KnownTopic | str] = []
                for one in event.topics:
                    racks: list[list[str]] = one.racks or [[]] * one.partitions
                    topics.append(KnownTopic(one.topic, _uuid(one.topic_id), racks) if one.topic_id else one.topic)
                self._coordinator.topics.learn(topics, event.version, event.newest_version)

    def _heard(self, group_id: str, member_id: str, heard_ms: int, session_timeout_ms: int = 0) -> None:
        group = self._coordinator.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.sessions:
            # It goes by settings that may have changed since; a classic member by its own timeout, once it is heard of.
            group.sessions[member_id].session_timeout_ms = session_timeout_ms
            key, deadlines = TimerKey(Timer.SESSION, group_id, member_id), self._coordinator.deadlines
            if deadlines.get(key) is not None:
                deadlines.set(key, heard_ms + session_timeout_ms)
        member = None if group is None else group.session_of(member_id)
        if member is not None:
            member.session_deadline_ms = heard_ms + member.session_timeout_ms

    # Requests

    def _enter(self, entry: Callable[..., Any], event: RequestReceived, request: Any, *more: Any) -> None:
        asker = _Asker(event.client_id, event.client_host, event.api_version)
        entry(request, asker, event.at_ms, event.wall_ms, *more)

    def _join(self, event: JoinReceived) -> None:
        request = JoinGroupRequest(
            **_who(event),
            session_timeout_ms=event.session_timeout_ms,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            protocol_type=event.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=one.name, metadata=one.data) for one in event.protocols],
            reason=event.reason,
        )
        self._enter(self._coordinator.join, event, request)

    def _heartbeat(self, event: ConsumerHeartbeatReceived) -> None:
        owned = event.owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=event.group_id,
            member_id=event.member_id,
            member_epoch=event.generation,
            instance_id=event.group_instance_id,
            rack_id=event.rack_id,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            subscribed_topic_names=event.names,
            subscribed_topic_regex=event.regex,
            server_assignor=event.server_assignor,
            topic_partitions=None
            if owned is None
            else [HeartbeatTopicPartitions(topic_id=_uuid(one.topic_id), partitions=one.partitions) for one in owned],
        )
        self._enter(self._coordinator.consumer_heartbeat, event, request)

    def _sync(self, event: SyncReceived) -> None:
        request = SyncGroupRequest(
            **_who(event),
            generation_id=event.generation,
            protocol_type=event.protocol_type,
            protocol_name=event.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=one.name, assignment=one.data) for one in event.assignments
            ],
        )
        self._enter(self._coordinator.sync, event, request)

    def _leave(self, event: LeaveReceived) -> None:
        members = [
            MemberIdentity(member_id=one.member_id, group_instance_id=one.group_instance_id, reason=one.reason)
            for one in event.leaving
        ]
        request = LeaveGroupRequest(group_id=event.group_id, member_id=event.member_id, members=members)
        self._enter(self._coordinator.leave, event, request)

    def _commit(self, event: CommitReceived) -> None:
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                topic_id=_uuid(topic_id),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=one.partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                        commit_timestamp=one.timestamp_ms,
                    )
                    for one in commits
                ],
            )
            for (name, topic_id), commits in groupby(event.commits, lambda one: (one.topic, one.topic_id))
        ]
        request = OffsetCommitRequest(
            **_who(event),
            generation_id_or_member_epoch=event.generation,
            retention_time_ms=event.retention_ms,
            topics=topics,
        )
        self._enter(self._coordinator.commit_offsets, event, request, _refused(event.commits))

    def _commit_in_transaction(self, event: TxnCommitReceived) -> None:
        topics = [
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=one.partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                    for one in commits
                ],
            )
            for name, commits in groupby(event.commits, lambda one: one.topic)
        ]
        request = TxnOffsetCommitRequest(
            **_who(event),
            transactional_id="",
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            generation_id=event.generation,
            topics=topics,
        )
        self._enter(self._coordinator.commit_transactional_offsets, event, request, _refused(event.commits))

    def _fetch(self, event: FetchParked) -> None:
        request = OffsetFetchRequest(
            group_id=event.wanted[0],
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in event.wanted],
            require_stable=True,
        )
        self._enter(self._coordinator.fetch_offsets, event, request)

    def _delete_offsets(self, event: OffsetDeleteReceived) -> None:
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one.partition) for one in rows]
            )
            for name, rows in groupby(event.deletions, lambda one: one.topic)
        ]
        request = OffsetDeleteRequest(group_id=event.group_id, topics=topics)
        self._enter(self._coordinator.delete_offsets, event, request, _refused(event.deletions))

    def _ask(self, first: RequestReceived, recorded: list[Event]) -> None:
        if first.api == "DeleteGroups":
            names = [one.group_id for one in recorded if type(one) is RequestReceived]
            request = DeleteGroupsRequest(groups_names=names)
            self._enter(self._coordinator.delete_groups, first, request)
        else:
            self._coordinator.heartbeat(HeartbeatRequest(**_who(first), generation_id=first.generation), first.at_ms)

    # Time

    def _extend(self, event: SessionExtended) -> None:
        group = self._coordinator.groups.get(event.group_id)
        member = None if group is None else group.session_of(event.member_id)
        if member is not None:
            member.session_deadline_ms = event.deadline_ms
        self._due(TimerKey(Timer.SESSION, event.group_id, event.member_id), event)

    def _fire(self, event: TimerFired) -> None:
        timer = Timer(event.timer)
        subject = event.shard if timer is Timer.RETENTION else event.group_id
        self._due(TimerKey(timer, subject, event.member_id), event)

    def _due(self, key: TimerKey, event: Input) -> None:
        deadlines = self._coordinator.deadlines
        at_ms = deadlines.get(key)
        is_due = at_ms is not None and at_ms <= event.at_ms
        # Where it is not, nothing happens, and the missing events tell. Of a recording without its beginning nobody
        # knows when partitions are swept.
        if not is_due and (self._strict or key.timer is not Timer.RETENTION):
            return
        deadlines.cancel(key)
        self._coordinator.due(key, event.at_ms, event.wall_ms)

    def _hold(self, event: DeadlinesHeld) -> None:
        self._coordinator.hold(event.group_id, event.at_ms, event.wall_ms)

    def _let_go(self, event: DeadlinesMoved) -> None:
        holds = self._coordinator.holds
        if not self._strict and event.group_id not in holds:
            # It was held before the recording begins. No deadline surfaces here earlier than it did there.
            holds[event.group_id] = Hold(event.at_ms - event.by_ms)
        if event.group_id in holds:
            self._coordinator.let_go(event.group_id, event.at_ms, event.wall_ms)

    # What else happens

    def _disconnect(self, event: Disconnected) -> None:
        self._coordinator.disconnected(
            event.group_id, event.member_id, event.client_id, event.client_host, event.at_ms, event.wall_ms
        )

    def _configure(self, event: SettingsChanged) -> None:
        settings: Any = event.settings
        self._coordinator.configure(GroupConfig(**settings), event.groups)

    def _delete_topic(self, event: TopicDeleted) -> None:
        self._coordinator.topic_deleted(event.topic, event.at_ms, event.wall_ms, _uuid(event.topic_id))

    def _end_transaction(self, event: TransactionEnded) -> None:
        self._coordinator.transaction_ended(
            event.partition, event.producer_id, event.commit, event.at_ms, event.wall_ms
        )

    def _own(self, event: OwnershipChanged, recorded: list[Event]) -> None:
        coordinator, partition = self._coordinator, event.partition
        match ShardState(event.state):
            case ShardState.LOADING:
                coordinator.load_started(partition, event.at_ms)
            case ShardState.FAILED:
                coordinator.load_failed(partition, event.at_ms)
            case ShardState.ABSENT:
                coordinator.unload(partition, event.at_ms, event.wall_ms)
            case ShardState.ACTIVE:
                self._begin_load(event)
                for loaded in recorded:
                    if isinstance(loaded, GroupLoaded):
                        self._restore(partition, loaded)
                    elif isinstance(loaded, ConsumerGroupLoaded):
                        self._restore_consumer_group(partition, loaded)
                coordinator.loaded(partition, event.at_ms, event.wall_ms)

    def _begin_load(self, event: OwnershipChanged) -> None:
        """Begin the load of a partition if the recording begins in the middle of it."""
        coordinator, partition = self._coordinator, event.partition
        if not self._strict and coordinator.shards[partition].state is not ShardState.LOADING:
            coordinator.unload(partition, event.at_ms, event.wall_ms)
            coordinator.load_started(partition, event.at_ms)
            coordinator.cause = event.number - 1

    def _restore(self, partition: int, event: GroupLoaded) -> None:
        """The group that the log had."""
        shard = self._coordinator.shards[partition]
        offsets = CommittedOffsets()
        for one in event.commits:
            offsets.store(one.topic, one.partition, _committed(one))
        if event.is_recorded:
            group = restore(shard, event.group_id, _group_value(event), offsets)
        else:
            group = ClassicGroup(event.group_id, shard, offsets, event.state_since_ms)
        shard.groups[event.group_id] = group
        self._hold_pending(shard, group, event)

    def _restore_consumer_group(self, partition: int, event: ConsumerGroupLoaded) -> None:
        shard = self._coordinator.shards[partition]
        for record in event.records:
            replay(shard, CoordinatorRecord(record.key, record.value))
        group = shard.groups[event.group_id]
        for one in event.commits:
            group.offsets.store(one.topic, one.partition, _committed(one))
        self._hold_pending(shard, group, event)

    def _hold_pending(self, shard: GroupShard, group: Group, event: GroupLoaded | ConsumerGroupLoaded) -> None:
        """The offsets of open transactions."""
        offsets = group.offsets
        for pending in event.pending:
            one = pending.commit
            shard.hold(group, pending.producer_id, one.topic, one.partition, _committed(one))
            if pending.is_overtaken:
                table = offsets.pending[pending.producer_id]
                table[one.topic, one.partition] = table[one.topic, one.partition]._replace(committed=None)


def _group_value(event: GroupLoaded) -> GroupValue:
    return GroupValue(
        protocol_type=event.protocol_type,
        generation=event.generation,
        protocol=event.protocol_name,
        leader=event.leader_id,
        current_state_timestamp=-1 if event.state_since_ms is None else event.state_since_ms,
        members=[
            GroupMemberValue(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                rebalance_timeout=one.rebalance_timeout_ms,
                session_timeout=one.session_timeout_ms,
                subscription=one.subscription,
                assignment=one.assignment,
            )
            for one in event.loaded
        ],
    )


def _committed(one: Commit) -> CommittedOffset:
    return CommittedOffset(
        one.offset, one.leader_epoch, one.metadata or "", one.timestamp_ms, one.expires_ms, _uuid(one.topic_id)
    )


def _who(event: RequestReceived) -> dict[str, Any]:
    return {"group_id": event.group_id, "member_id": event.member_id, "group_instance_id": event.group_instance_id}


def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data) if data else ZERO_UUID


def _refused(rows: Iterable[Any]) -> dict[tuple[str, int], ErrorCode]:
    return {(one.topic, one.partition): ErrorCode(one.error) for one in rows if one.error}
