"""The group coordinator: the entries that the broker calls, and the guards in front of every request.

Every entry is synchronous and takes the time. It returns the answer, or None if the request was parked: its answer
then comes as a `Reply` among the effects of some later entry. After each entry the caller takes the effects
(`take_effects`), carries them out in order, and asks when to call `advance` next (`next_deadline_ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from uuid import UUID

from ottla.broker.core.effects import Asker, Effect
from ottla.broker.core.events import UNOBSERVED, Observer
from ottla.broker.core.groups import admin, lifecycle, membership, notes, offsets, removal, retention, transactional
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.join import join
from ottla.broker.core.groups.machine import Machine, Timer, TimerKey, Write
from ottla.broker.core.groups.offsets import Refusals, TopicIds, no_ids
from ottla.broker.core.groups.rebalance import finish, initial_delay_over, sync_overdue
from ottla.broker.core.groups.replay import GroupFacts, durable_state, replay
from ottla.broker.core.groups.replies import join_error, sync_error
from ottla.broker.core.groups.shard import Shard, ShardState
from ottla.broker.core.groups.sync import NAMES_PROTOCOL, sync
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT, coordinator_partition
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

NOTHING_REFUSED: Refusals = {}

TURN_DEADLINES = 500
"""How many deadlines one call of `advance` handles at most, besides stopping after a retention sweep.

After a start the sessions of all members surface within one heartbeat interval; a hundred thousand of them at once
would hold up every other connection for most of a second.
"""


class GroupCoordinator:
    """Classic consumer groups and their committed offsets.

    Args:
        config: settings.
        new_id: makes the random part of member ids, a UUID as text (8-4-4-4-12).
        partition_count: of ``__consumer_offsets``; fixed for the life of the topic.
        observer: is told of every decision. Must not call back.

    A coordinator that was not started answers COORDINATOR_NOT_AVAILABLE. It owns no partition until
    `load_started`, `replay` and `loaded` were called for it.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        partition_count: int = DEFAULT_PARTITION_COUNT,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._m = Machine(config, new_id, partition_count, observer)
        self._groups = self._m.groups
        self._started = False

    @property
    def machine(self) -> Machine:
        """Groups, shards and deadlines, to be looked at and not to be touched."""
        return self._m

    @property
    def has_effects(self) -> bool:
        """Whether `take_effects` would give any."""
        return bool(self._m.effects)

    def take_effects(self) -> list[Effect]:
        """Take the effects of the entries since the last call, in order."""
        effects, self._m.effects = self._m.effects, []
        return effects

    def start(self) -> None:
        """Begin to answer. Without it every request hears COORDINATOR_NOT_AVAILABLE."""
        self._started = True

    def stop(self) -> None:
        """Answer nobody any more."""
        self._started = False

    # Members

    def join(self, request: JoinGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> JoinGroupResponse | None:
        """JoinGroup: ask to be in the next generation. None if parked."""
        self._m.begin(now_ms, wall_ms)
        notes.join_received(self._m, request, ctx)
        answer = self._join(request, ctx)
        if answer is not None:
            notes.refused(self._m, "JoinGroup", request.group_id, answer.member_id, answer.error_code)
        return answer

    def _join(self, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
        config = self._m.config
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
        return join(self._m, shard, request, ctx)

    def sync(self, request: SyncGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> SyncGroupResponse | None:
        """SyncGroup: ask for one's assignment, or bring everybody's. None if parked."""
        self._m.begin(now_ms, wall_ms)
        notes.sync_received(self._m, request, ctx)
        names_missing = request.protocol_type is None or request.protocol_name is None
        answer: SyncGroupResponse | None
        if ctx.api_version >= NAMES_PROTOCOL and names_missing:
            answer = sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif error := self._guard(request.group_id):
            answer = sync_error(error)
        else:
            answer = sync(self._m, request, ctx)
        if answer is not None:
            notes.refused(self._m, "SyncGroup", request.group_id, request.member_id, answer.error_code)
        return answer

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> int:
        """Heartbeat: the error code to answer.

        This is the hottest path of a broker with many members. A good heartbeat costs two lookups, a comparison and
        one integer stored; the purgatory learns of the new deadline when the old one surfaces.
        """
        group = self._groups.get(request.group_id)
        if group is not None:
            member = group.members.get(request.member_id)
            if member is not None and request.generation_id == group.generation:
                instance_id = request.group_instance_id
                if instance_id is None or instance_id == member.group_instance_id:
                    member.session_deadline_ms = now_ms + member.session_timeout_ms
                    return group.heartbeat_answer
        return self._refuse_heartbeat(request, now_ms)

    def _refuse_heartbeat(self, request: HeartbeatRequest, now_ms: int) -> int:
        self._m.begin(now_ms)
        if not self._started:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        else:
            shard = self._shard(request.group_id)
            if shard.state is ShardState.LOADING:
                # Clients do not expect anything else here, and members must not leave because of a fail-over.
                return ErrorCode.NONE
            error = shard.refusal or membership.refuse_heartbeat(self._m, request)
        notes.received(
            self._m,
            "Heartbeat",
            request.group_id,
            None,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
        )
        notes.refused(self._m, "Heartbeat", request.group_id, request.member_id, error)
        return error

    def leave(self, request: LeaveGroupRequest, ctx: Asker, now_ms: int, wall_ms: int) -> LeaveGroupResponse | None:
        """LeaveGroup: remove members. Takes the old form with one member, and answers in it, too. None if parked."""
        self._m.begin(now_ms, wall_ms)
        entries = request.members
        only = entries[0].member_id if len(entries) == 1 else request.member_id
        notes.leave_received(self._m, request, ctx, only)
        error = self._guard(request.group_id)
        answer = LeaveGroupResponse(error_code=error) if error else membership.leave(self._m, request, ctx)
        if answer is not None:
            notes.refused(self._m, "LeaveGroup", request.group_id, only, answer.error_code)
        return answer

    def disconnected(
        self, group_id: str, member_id: str, client_id: str, client_host: str, now_ms: int, wall_ms: int
    ) -> None:
        """The connection over which a member joined is gone: that is noted and changes nothing, as in Kafka."""
        self._m.begin(now_ms, wall_ms)
        notes.disconnected(self._m, group_id, member_id, client_id, client_host)

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
        self._m.begin(now_ms, wall_ms)
        notes.commit_received(self._m, request, ctx, refused)
        # The empty group id is a group like any other here.
        if error := self._unavailable(request.group_id):
            answer: OffsetCommitResponse | None = offsets.unavailable(request, refused, error)
        else:
            answer = offsets.commit(self._m, self._shard(request.group_id), request, ctx, refused)
        if answer is not None:
            notes.commit_refused(self._m, request, answer)
        return answer

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
        m = self._m
        m.begin(now_ms, wall_ms)
        notes.txn_commit_received(m, request, ctx, refused)
        if error := self._guard(request.group_id):
            return transactional.unavailable(request, ctx, refused, error)
        return transactional.commit(m, self._shard(request.group_id), request, ctx, refused, verified)

    def transaction_ended(self, partition: int, producer_id: int, commit: bool, now_ms: int, wall_ms: int) -> None:
        """The marker that ends a producer's transaction is durable in a partition, or was read while it is loaded."""
        self._m.begin(now_ms, wall_ms)
        if self._m.shards[partition].state is ShardState.ACTIVE:
            notes.transaction_ended(self._m, partition, producer_id, commit)
        transactional.transaction_ended(self._m, self._m.shards[partition], producer_id, commit=commit)

    def fetch_offsets(
        self, request: OffsetFetchRequest, ctx: Asker, now_ms: int, topic_ids: TopicIds = no_ids
    ) -> OffsetFetchResponse | None:
        """OffsetFetch, in the form of the request's version. None if it must wait for stable offsets."""
        self._m.begin(now_ms)
        errors = self._unavailable_groups([group.group_id for group in offsets.requested_groups(request, ctx)])
        answer = offsets.fetch(self._m, request, ctx, errors, topic_ids)
        if answer is None:
            notes.fetch_parked(self._m, request, ctx)
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
        self._m.begin(now_ms, wall_ms)
        notes.delete_received(self._m, request, ctx, refused)
        if error := self._guard(request.group_id):
            answer: OffsetDeleteResponse | None = OffsetDeleteResponse(error_code=error)
        else:
            answer = removal.delete_offsets(self._m, request, ctx, refused)
        if answer is not None:
            notes.refused(self._m, "OffsetDelete", request.group_id, "", answer.error_code)
        return answer

    def topic_deleted(self, topic: str, now_ms: int, wall_ms: int, topic_id: UUID = ZERO_UUID) -> None:
        """A topic is gone: the offsets that groups have for it go, too."""
        self._m.begin(now_ms, wall_ms)
        notes.topic_deleted(self._m, topic, topic_id)
        for shard in self._m.shards:
            if shard.state is ShardState.ACTIVE:
                removal.topic_deleted(self._m, shard, topic, topic_id)

    # Administration

    def describe_groups(self, request: DescribeGroupsRequest, ctx: Asker, now_ms: int) -> DescribeGroupsResponse:
        """DescribeGroups."""
        self._m.begin(now_ms)
        errors = self._unavailable_groups(request.groups)
        return admin.describe_groups(self._m, request, ctx, errors)

    def list_groups(self, request: ListGroupsRequest, ctx: Asker, now_ms: int) -> ListGroupsResponse:
        """ListGroups."""
        self._m.begin(now_ms)
        if not self._started:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return admin.list_groups(self._m, request)

    def delete_groups(
        self, request: DeleteGroupsRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> DeleteGroupsResponse | None:
        """DeleteGroups. None if parked."""
        self._m.begin(now_ms, wall_ms)
        for group_id in request.groups_names:
            notes.received(self._m, "DeleteGroups", group_id, ctx)
        errors = self._unavailable_groups(request.groups_names)
        return removal.delete_groups(self._m, request.groups_names, errors, ctx)

    # The log

    def appended(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The records of an `Append` are durable (``NONE``), or failed. Unknown tokens are of a shard given up."""
        assert isinstance(token, Write)
        m = self._m
        if token not in token.shard.in_flight:
            return
        m.begin(now_ms, wall_ms)
        del token.shard.in_flight[token]
        notes.appended(m, token, error)
        token.done(m, error)
        for waiter in token.waiters:
            waiter.done(m, error)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `advance` wants to be called. It may turn out that nothing was due."""
        return self._m.deadlines.next()

    def advance(self, now_ms: int, wall_ms: int) -> None:
        """Handle the deadlines that have passed, as many as one turn of the loop should take.

        What is left, and what is armed meanwhile without delay, waits for the next call: `next_deadline_ms` is then
        in the past, and the loop gets a turn in between.
        """
        m = self._m
        left = TURN_DEADLINES
        with closing(m.deadlines.expired(now_ms)) as expired:
            for key in expired:
                left -= 1
                self.due(key, now_ms, wall_ms)
                if not left or key.timer is Timer.RETENTION:
                    return

    def due(self, key: TimerKey, now_ms: int, wall_ms: int) -> None:
        """Handle one deadline, which was taken from the others; whoever replays a recording calls this itself."""
        if key.timer is Timer.SESSION:
            self._session_due(key, now_ms, wall_ms)
        else:
            self._m.begin(now_ms, wall_ms)
            self._fire(key)

    def _session_due(self, key: TimerKey, now_ms: int, wall_ms: int) -> None:
        m = self._m
        member = m.groups[str(key.subject)].members.get(key.member_id)
        if member is not None and member.session_deadline_ms > now_ms:
            # It was heard of since; see Machine.start_session for the second time.
            m.now_ms, m.wall_ms = now_ms, wall_ms
            notes.session_extended(m, str(key.subject), member)
            m.deadlines.set(key, min(member.session_deadline_ms, now_ms + member.session_timeout_ms))
            return
        m.begin(now_ms, wall_ms)
        notes.fired(m, key)
        membership.session_over(m, key)

    def _fire(self, key: TimerKey) -> None:
        m = self._m
        if key.timer is Timer.RETENTION:
            shard = m.shards[int(key.subject)]
            notes.fired(m, key)
            retention.sweep(m, shard)
            lifecycle.schedule_retention(m, shard)
            return
        group = m.groups[str(key.subject)]
        notes.fired(m, key, group.rebalance_cause)
        if key.timer is Timer.SYNC:
            sync_overdue(m, group)
        elif key.timer is Timer.INITIAL_DELAY:
            initial_delay_over(m, group)
        else:
            finish(m, group)

    # Ownership

    def load_started(self, partition: int, now_ms: int, epoch: int | None = None) -> bool:
        """This broker takes a partition over; its groups answer COORDINATOR_LOAD_IN_PROGRESS until `loaded`.

        Returns:
            False if there is nothing to load: the epoch is not newer than the known one, or the partition is being
            loaded or served already.
        """
        shard = self._m.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return False
            shard.epoch = epoch
        if shard.state in (ShardState.LOADING, ShardState.ACTIVE):
            return False
        self._m.begin(now_ms)
        shard.clear()
        shard.become(ShardState.LOADING)
        notes.ownership(self._m, shard, shard.state)
        return True

    def replay(self, partition: int, record: CoordinatorRecord, offset: int, producer_id: int = -1) -> bool:
        """Apply a record of the log of a partition that is being loaded.

        A record that cannot be read fails the load: serving a part of the groups would lose offsets silently.

        Args:
            producer_id: of the transaction that the record belongs to; -1 for one that counts at once.

        Returns:
            Whether the load goes on.
        """
        shard = self._m.shards[partition]
        if shard.state is not ShardState.LOADING:
            return False
        try:
            replay(shard, record, producer_id)
        except MalformedFrame:
            self.load_failed(partition, self._m.now_ms)
            return False
        return True

    def load_failed(self, partition: int, now_ms: int) -> None:
        """The partition cannot be loaded; its groups answer NOT_COORDINATOR until another load succeeds."""
        shard = self._m.shards[partition]
        if shard.state is ShardState.LOADING:
            self._m.begin(now_ms)
            shard.clear()
            shard.become(ShardState.FAILED)
            notes.ownership(self._m, shard, shard.state)

    def loaded(self, partition: int, now_ms: int, wall_ms: int) -> bool:
        """All records were replayed: serve the partition. False if the load had failed."""
        shard = self._m.shards[partition]
        if shard.state is not ShardState.LOADING:
            return False
        self._m.begin(now_ms, wall_ms)
        notes.ownership(self._m, shard, ShardState.ACTIVE)
        lifecycle.activate(self._m, shard)
        return True

    def unload(self, partition: int, now_ms: int, wall_ms: int, epoch: int | None = None) -> None:
        """Give a partition up; everything that waits hears NOT_COORDINATOR.

        Args:
            epoch: of the new leader. Ignored unless it is newer than the known one; None if the partition is gone.
        """
        shard = self._m.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return
            shard.epoch = epoch
        self._m.begin(now_ms, wall_ms)
        notes.ownership(self._m, shard, ShardState.ABSENT)
        lifecycle.give_up(self._m, shard)

    def durable_state(self) -> dict[str, GroupFacts]:
        """What a coordinator that replays the log must arrive at; see `replay.differences`."""
        return durable_state(self._m)

    # Guards

    def _shard(self, group_id: str) -> Shard:
        group = self._groups.get(group_id)
        if group is not None:
            return group.shard
        return self._m.shards[coordinator_partition(group_id, self._m.partition_count)]

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
        if self._started and not any(shard.refusal for shard in self._m.shards):
            return {}  # without a look at the names: hashing a thousand long ones takes seconds
        return {group_id: error for group_id in group_ids if (error := self._unavailable(group_id))}
