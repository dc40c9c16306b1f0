"""The group coordinator: the entries that the broker calls, and the guards in front of every request.

`ottla.broker.core.coordination.machine` says what every coordinator has in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from ottla.broker.core.consumer_groups import classic_members, describe, leaving, requests, resolution
from ottla.broker.core.consumer_groups.assigning import Assigning
from ottla.broker.core.consumer_groups.changes import Refused
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.sessions import look_after
from ottla.broker.core.consumer_groups.topics import KnownTopic
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import ShardState, Write
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import Disconnected, TopicDeleted, TransactionEnded
from ottla.broker.core.groups import admin, holds, notes, removal
from ottla.broker.core.groups.classic import loading, membership
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.join import join
from ottla.broker.core.groups.classic.rebalance import barrier_over
from ottla.broker.core.groups.classic.replies import join_error, sync_error
from ottla.broker.core.groups.classic.sync import NAMES_PROTOCOL, sync
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.broker.core.groups.offsets import commit, fetch, retention, transactional
from ottla.broker.core.groups.offsets.commit import NOTHING_REFUSED, Refusals
from ottla.broker.core.groups.offsets.fetch import TopicIds, no_ids
from ottla.broker.core.groups.offsets.prepared import PreparedCommit, PreparedWrite, appended_all
from ottla.broker.core.groups.replay import replay, replay_plain
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.steps import Steps

NO_GROUP_REFUSED: Mapping[str, ErrorCode] = {}

ACTIVATED_AT_ONCE = 1_000
"""Groups, members and offsets that were loaded are served so many at once, and told to observers."""


class GroupCoordinator(Machine):
    """Groups of the classic and of the consumer protocol, and their committed offsets.

    Args:
        config: settings.
        new_id: makes the random part of member ids, a UUID as text (8-4-4-4-12).
        partition_count: of ``__consumer_offsets``; fixed for the life of the topic.
        observer: is told of every decision. Must not call back.

    A coordinator that was not started answers COORDINATOR_NOT_AVAILABLE.
    """

    sweeps = frozenset({Timer.RETENTION})

    _started = False

    def start(self) -> None:
        """Begin to answer. Without it every request hears COORDINATOR_NOT_AVAILABLE."""
        self._started = True

    def stop(self) -> None:
        """Answer nobody any more."""
        self._started = False

    # Members

    def join(self, request: JoinGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> JoinGroupResponse | None:
        """JoinGroup: ask to be in the next generation. None if parked."""
        self.begin(now_ms, wall_ms)
        notes.join_received(self, request, ctx)
        answer = self._join(request, ctx)
        if answer is not None:
            notes.refused(self, "JoinGroup", request.group_id, answer.member_id, answer.error_code)
        return answer

    def _join(self, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
        config = self.config
        if not self._started:
            return join_error(ctx, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        if not request.group_id:
            return join_error(ctx, ErrorCode.INVALID_GROUP_ID, request.member_id)
        timeout = request.session_timeout_ms
        if not config.group_min_session_timeout_ms <= timeout <= config.group_max_session_timeout_ms:
            return join_error(ctx, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        shard = self._shard(request.group_id)
        if shard.refusal:
            return join_error(ctx, shard.refusal, "")
        return join(self, shard, request, ctx)

    def sync(self, request: SyncGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> SyncGroupResponse | None:
        """SyncGroup: ask for one's assignment, or bring everybody's. None if parked."""
        self.begin(now_ms, wall_ms)
        notes.sync_received(self, request, ctx)
        names_missing = request.protocol_type is None or request.protocol_name is None
        if ctx.api_version >= NAMES_PROTOCOL and names_missing:
            answer: SyncGroupResponse | None = sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif error := self._guard(request.group_id):
            answer = sync_error(error)
        else:
            answer = sync(self, request, ctx)
        if answer is not None:
            notes.refused(self, "SyncGroup", request.group_id, request.member_id, answer.error_code)
        return answer

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> int:
        """Heartbeat: the error code to answer.

        This is the hottest path of a broker with many members. A good heartbeat costs two lookups, a comparison and
        one integer stored; the purgatory learns of the new deadline when the old one surfaces.
        """
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            member = group.members.get(request.member_id)
            if member is not None and request.generation_id == group.generation:
                instance_id = request.group_instance_id
                if instance_id is None or instance_id == member.group_instance_id:
                    member.session_deadline_ms = now_ms + member.session_timeout_ms
                    return group.heartbeat_answer
        elif isinstance(group, ConsumerGroup) and self._started:
            self.now_ms = now_ms
            try:
                return classic_members.heartbeat(self, group, request, partial(notes.heartbeat_received, self, request))
            except Refused as refused:
                return self._refuse_heartbeat(request, now_ms, refused.error_code)
        return self._refuse_heartbeat(request, now_ms)

    def _refuse_heartbeat(self, request: HeartbeatRequest, now_ms: int, error: ErrorCode = ErrorCode.NONE) -> int:
        self.begin(now_ms)
        if not self._started:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not error:
            shard = self._shard(request.group_id)
            if shard.state is ShardState.LOADING:
                # Clients do not expect anything else here, and members must not leave because of a fail-over.
                return ErrorCode.NONE
            error = shard.refusal or membership.refuse_heartbeat(self, request)
        notes.heartbeat_received(self, request)
        notes.refused(self, "Heartbeat", request.group_id, request.member_id, error)
        return error

    def leave(self, request: LeaveGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> LeaveGroupResponse | None:
        """LeaveGroup: remove members. Takes the old form with one member, and answers in it, too. None if parked."""
        self.begin(now_ms, wall_ms)
        entries = request.members
        only = entries[0].member_id if len(entries) == 1 else request.member_id
        notes.leave_received(self, request, ctx, only)
        error, group = self._guard(request.group_id), self.groups.get(request.group_id)
        answer: LeaveGroupResponse | None
        if error:
            answer = LeaveGroupResponse(error_code=error)
        elif isinstance(group, ConsumerGroup):
            answer = leaving.remove(self, group, request, ctx)
        else:
            answer = membership.leave(self, request, ctx)
        if answer is not None:
            notes.refused(self, "LeaveGroup", request.group_id, only, answer.error_code)
        return answer

    def beat(
        self, request: ConsumerGroupHeartbeatRequest, ctx: Asker, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse | None:
        """ConsumerGroupHeartbeat that finds nothing to do: its answer; None if it is one for `consumer_heartbeat`."""
        return requests.beat(self, request, ctx, now_ms) if self._started else None

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> ConsumerGroupHeartbeatResponse | None:
        """ConsumerGroupHeartbeat: join, stay in or leave a group of the consumer protocol. None if parked."""
        self.now_ms, self.wall_ms = now_ms, wall_ms
        if not self._started:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return requests.serve(self, self._shard(request.group_id), request, ctx)

    def disconnected(
        self, group_id: str, member_id: str, client_id: str, client_host: str, now_ms: int, wall_ms: int
    ) -> None:
        """The connection over which a member joined is gone: that is noted and changes nothing, as in Kafka."""
        self.begin(now_ms, wall_ms)
        notes.came(self, Disconnected, group_id, member_id=member_id, client_id=client_id, client_host=client_host)

    # Offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        refused: Refusals = NOTHING_REFUSED,
    ) -> OffsetCommitResponse | None:
        """OffsetCommit. None if parked.

        Args:
            refused: partitions that must not be committed, because they do not exist, say, and the error of each. The
                answer has them in their place. If all are refused the group is not looked at.
        """
        self.begin(now_ms, wall_ms)
        notes.commit_received(self, request, ctx, refused)
        # The empty group id is a group like any other here.
        if error := self._unavailable(request.group_id):
            answer: OffsetCommitResponse | None = commit.unavailable(request, refused, error)
        else:
            answer = commit.commit(self, self._shard(request.group_id), request, ctx, refused)
        if answer is not None:
            notes.commit_refused(self, request, answer)
        return answer

    def commit_prepared(
        self, prepared: PreparedCommit, offsets: Sequence[int], ctx: Asker, now_ms: int, wall_ms: int
    ) -> PreparedWrite | None:
        """OffsetCommit of a consumer that has made one before: the same partitions, other offsets.

        Returns:
            What is to be written to the log of its shard; `appended` takes it back. None: nothing was done, and the
            commit is one for `commit_offsets`, which refuses it or makes its group.
        """
        group = self.groups.get(prepared.group_id)
        if group is None or group.shard.refusal or group.refuse_commit(*prepared.claim):
            return None
        self.begin(now_ms, wall_ms)
        notes.prepared_received(self, prepared, ctx, offsets)
        if prepared.member_id:
            self.heard_of(group, prepared.member_id)
        return PreparedWrite(self, group, prepared, offsets, ctx)

    def appended_all(self, tokens: Iterable[object], error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        if error or self.recorded:
            super().appended_all(tokens, error, now_ms, wall_ms)
        else:
            appended_all(self, tokens, now_ms, wall_ms)

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        refused: Refusals = NOTHING_REFUSED,
        verified: object = None,
    ) -> TxnOffsetCommitResponse | None:
        """TxnOffsetCommit. None if parked. The offsets count from `transaction_ended` on, if it commits.

        Args:
            refused: as in `commit_offsets`.
            verified: comes back in the `Append`.
        """
        self.begin(now_ms, wall_ms)
        notes.txn_commit_received(self, request, ctx, refused)
        if error := self._guard(request.group_id):
            return transactional.unavailable(request, ctx, refused, error)
        return transactional.commit(self, self._shard(request.group_id), request, ctx, refused, verified)

    def transaction_ended(self, partition: int, producer_id: int, commit: bool, now_ms: int, wall_ms: int) -> None:
        """The marker that ends a producer's transaction is durable in a partition, or was read while it is loaded."""
        self.begin(now_ms, wall_ms)
        if self.shards[partition].state is ShardState.ACTIVE:
            notes.came(self, TransactionEnded, "", partition=partition, producer_id=producer_id, commit=commit)
        transactional.transaction_ended(self, self.shards[partition], producer_id, commit=commit)

    def fetch_offsets(
        self,
        request: OffsetFetchRequest,
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        topic_ids: TopicIds = no_ids,
        refused: Mapping[str, ErrorCode] = NO_GROUP_REFUSED,
    ) -> OffsetFetchResponse | None:
        """OffsetFetch, in the form of the request's version. None if it must wait for stable offsets.

        Args:
            refused: groups that are not to be looked at, and what the answer says of them.
        """
        self.begin(now_ms, wall_ms)
        errors = self._unavailable_groups([group.group_id for group in fetch.requested_groups(request, ctx)])
        errors.update(refused)
        answer = fetch.fetch(self, request, ctx, errors, topic_ids)
        if answer is None:
            notes.fetch_parked(self, request, ctx)
        return answer

    def delete_offsets(
        self,
        request: OffsetDeleteRequest,
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        refused: Refusals = NOTHING_REFUSED,
    ) -> OffsetDeleteResponse | None:
        """OffsetDelete. None if parked.

        Args:
            refused: partitions that are not to be deleted, and why. The group is looked at even if all are refused.
        """
        self.begin(now_ms, wall_ms)
        notes.delete_received(self, request, ctx, refused)
        if error := self._guard(request.group_id):
            answer: OffsetDeleteResponse | None = OffsetDeleteResponse(error_code=error)
        else:
            answer = removal.delete_offsets(self, request, ctx, refused)
        if answer is not None:
            notes.refused(self, "OffsetDelete", request.group_id, "", answer.error_code)
        return answer

    def topic_changed(self, topic: str, topic_id: UUID, racks: Sequence[Sequence[str]], wall_ms: int) -> None:
        """A topic is there, or has more partitions. Consumer groups see that by themselves: it is no entry.

        Args:
            racks: for each partition the racks of its replicas.
        """
        self.topics.put(KnownTopic(topic, topic_id, racks), wall_ms)

    def topic_deleted(self, topic: str, now_ms: int, wall_ms: int, topic_id: UUID = ZERO_UUID) -> None:
        """A topic is gone: the offsets that groups have for it go, too."""
        self.begin(now_ms, wall_ms)
        notes.came(self, TopicDeleted, "", topic=topic, topic_id=topic_id.bytes if topic_id.int else b"")
        self.topics.remove(topic, wall_ms)
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                removal.topic_deleted(self, shard, topic, topic_id)

    def topics_with_offsets(self) -> set[str]:
        """The names of all topics for which groups have committed something."""
        return {topic for group in self.groups.values() for topic in group.offsets.by_topic}

    # Administration

    def describe_groups(
        self, request: DescribeGroupsRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> DescribeGroupsResponse | Steps[DescribeGroupsResponse]:
        """DescribeGroups; in steps where there is much to tell."""
        self.begin(now_ms, wall_ms)
        errors = self._unavailable_groups(request.groups)
        return admin.describe_groups(self, request, ctx, errors)

    def describe_consumer_groups(
        self, request: ConsumerGroupDescribeRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> ConsumerGroupDescribeResponse | Steps[ConsumerGroupDescribeResponse]:
        """ConsumerGroupDescribe; in steps where there is much to tell."""
        self.begin(now_ms, wall_ms)
        return describe.describe_groups(self, request, self._unavailable_groups(request.group_ids))

    def list_groups(
        self, request: ListGroupsRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> ListGroupsResponse | Steps[ListGroupsResponse]:
        """ListGroups; in steps where there is much to tell."""
        self.begin(now_ms, wall_ms)
        if not self._started:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return admin.list_groups(self, request)

    def delete_groups(
        self, request: DeleteGroupsRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> DeleteGroupsResponse | None:
        """DeleteGroups. None if parked."""
        self.begin(now_ms, wall_ms)
        for group_id in request.groups_names:
            notes.received(self, "DeleteGroups", group_id, ctx)
        errors = self._unavailable_groups(request.groups_names)
        return removal.delete_groups(self, request.groups_names, errors, ctx)

    # Time

    def hold(self, group_id: str, now_ms: int, wall_ms: int) -> None:
        """Let no deadline of a group take effect until `let_go`, which must be called as often as this was.

        Sessions, issued ids, the initial delay, and the join and sync phases are held. Offsets age all the same. There
        need be no group of this id yet.
        """
        holds.hold(self, group_id, now_ms, wall_ms)

    def let_go(self, group_id: str, now_ms: int, wall_ms: int) -> None:
        """Go on where `hold` was called: every deadline of the group moves later by the time that the hold lasted.

        Raises:
            KeyError: the group is not held.
        """
        holds.let_go(self, group_id, now_ms, wall_ms)

    # What the machine leaves to its coordinator

    def due(self, key: TimerKey, now_ms: int, wall_ms: int) -> None:
        if key.timer is Timer.SESSION:
            self._session_due(key, now_ms, wall_ms)
        elif key.timer is Timer.REGEX and self.works_apart:
            self.now_ms, self.wall_ms = now_ms, wall_ms
            if isinstance(group := self.groups[str(key.subject)], ConsumerGroup):
                resolution.begin(self, group)
        else:
            super().due(key, now_ms, wall_ms)

    def worked(self, token: object, outcome: Any, now_ms: int, wall_ms: int) -> None:
        self.now_ms, self.wall_ms = now_ms, wall_ms
        if isinstance(token, resolution.Resolving):
            resolution.resume(self, token, outcome)
        elif isinstance(token, Assigning):
            requests.resume(self, token, outcome)

    def _session_due(self, key: TimerKey, now_ms: int, wall_ms: int) -> None:
        group = self.groups[str(key.subject)]
        member = group.session_of(key.member_id)
        if member is not None and member.session_deadline_ms > now_ms:
            # It was heard of since; see Machine.start_session for the second time.
            self.now_ms, self.wall_ms = now_ms, wall_ms
            notes.session_extended(self, str(key.subject), member)
            self.deadlines.set(key, min(member.session_deadline_ms, now_ms + member.session_timeout_ms))
            return
        self.begin(now_ms, wall_ms)
        notes.fired(self, key)
        if isinstance(group, ClassicGroup):
            membership.session_over(self, group, key)
        elif isinstance(group, ConsumerGroup):
            leaving.session_over(self, group, key.member_id)

    def _fire(self, key: TimerKey) -> None:
        if key.timer is Timer.RETENTION:
            shard = self.shards[int(key.subject)]
            notes.fired(self, key)
            self._schedule_retention(shard, retention.sweep(self, shard, key.member_id))
            return
        group = self.groups.get(str(key.subject))
        if isinstance(group, ClassicGroup) and key.timer is not Timer.REGEX:
            notes.fired(self, key, group.rebalance_cause)
            barrier_over(self, group, Timer(key.timer))
        elif isinstance(group, ConsumerGroup):
            notes.fired(self, key)
            if key.timer is Timer.REGEX:
                resolution.resolve_now(self, group)
            else:
                leaving.step_overdue(self, group, key)

    def _sweeping(self) -> Iterator[TimerKey]:
        return (shard.sweep for shard in self.shards if shard.sweep is not None)

    def _apply(self, shard: GroupShard, record: CoordinatorRecord, producer_id: int) -> None:
        replay(shard, record, producer_id)

    def replay_plain(self, partition: int, body: bytes, position: int, count: int) -> tuple[int, int]:
        shard = self.shards[partition]
        if shard.state is not ShardState.LOADING:
            return position, count
        return replay_plain(shard, body, position, count)

    def _activate(self, shard: GroupShard) -> Iterator[None]:
        """Serve the groups that were replayed."""
        shard.tables.clear()
        done = 0
        for group in list(shard.groups.values()):
            done += 1 + group.member_count + len(group.offsets)
            if done > ACTIVATED_AT_ONCE:
                done = 0
                yield
            self.groups[group.group_id] = group
            notes.group_loaded(self, group)
            self.weigh(group)
            if isinstance(group, ClassicGroup):
                loading.resume(self, group)
            elif isinstance(group, ConsumerGroup):
                group.restless_since_ms = self.wall_ms
                look_after(self, group)
        self._schedule_retention(shard)

    def _schedule_retention(self, shard: GroupShard, going_on_with: str = "") -> None:
        """Look for expired offsets one interval from now, or at once if a sweep goes on with a group."""
        shard.sweep = TimerKey(Timer.RETENTION, shard.partition, going_on_with)
        self.deadlines.set(
            shard.sweep, self.now_ms + (0 if going_on_with else self.config.offsets_retention_check_interval_ms)
        )

    def _give_up(self, shard: GroupShard) -> None:
        if shard.sweep is not None:
            self.deadlines.cancel(shard.sweep)
        requests.give_up(self, shard.partition)
        for group in shard.groups.values():
            if self.groups.pop(group.group_id, None) is not None:
                self.drop_weight(group)
                self.cancel_timers(group)
                if isinstance(group, ClassicGroup):
                    loading.dismiss(self, group)

    def _note_ownership(self, shard: GroupShard, state: ShardState) -> None:
        notes.ownership(self, shard, state)

    def _note_appended(self, write: Write[Any], error: ErrorCode) -> None:
        notes.appended(self, write, error)

    # Guards

    def _shard(self, group_id: str) -> GroupShard:
        group = self.groups.get(group_id)
        if group is not None:
            return self.shards[group.shard.partition]
        return self.shard_of(group_id)

    def _guard(self, group_id: str) -> ErrorCode:
        """Why nobody can be served for this group: not started, no group id, not ours, loading."""
        if self._started and not group_id:
            return ErrorCode.INVALID_GROUP_ID
        return self._unavailable(group_id)

    def _unavailable(self, group_id: str) -> ErrorCode:
        """The same where the empty group id is allowed."""
        if not self._started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._shard(group_id).refusal

    def _unavailable_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        if self._started and not any(shard.refusal for shard in self.shards):
            return {}  # without a look at the names: hashing a thousand long ones takes seconds
        return {group_id: error for group_id in group_ids if (error := self._unavailable(group_id))}
