"""A membership by the classic protocol (JoinGroup, SyncGroup, Heartbeat).

```
            subscribe                    JoinGroup answered            SyncGroup answered
UNJOINED ──► Prepare ──► PREPARING_REBALANCE ──► COMPLETING_REBALANCE ──► STABLE ──► Complete
   ▲                            │    ▲ MEMBER_ID_REQUIRED (KIP-394)          │
   │                            └────┘                                       │ REBALANCE_IN_PROGRESS, another
   │ UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, the poll interval, unsubscribe   │ subscription, more partitions,
   └─────────────────────────────────────────────────────────────────────────┤ something had to be revoked
                                                                             ▼
                                                                          Prepare, and round again
```

*Two kinds of waiting.* ``step`` says what the way into the next generation waits for: an answer, or the shell while it
runs the user's listener. Heartbeats go on beside it whenever the member is in a generation.

*Stale answers.* Every request carries a `Sent`. An answer counts for the way into a generation only if its attempt is
the current one, and a heartbeat's or commit's error only if generation and member id are still those it was sent with.

*Two ways to lose a generation.* UNKNOWN_MEMBER_ID forgets the member id too; ILLEGAL_GENERATION keeps it. After both,
what the member held is *lost*: somebody else may have it, so it is not committed and goes through
``on_partitions_lost``.

*Static members* do not leave when the user stays away; their session ends instead (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.clients.assignors import Assignor, RebalanceProtocol
from ottla.clients.backoff import Backoff
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.errors import (
    COORDINATOR_MOVED,
    KafkaError,
    error_code,
    error_of,
)
from ottla.clients.group_effects import (
    Complete,
    Lead,
    MemberState,
    Prepare,
    Send,
    Sent,
    Step,
)
from ottla.clients.group_messages import (
    heartbeat_request,
    join_request,
    leave_request,
    read_assignment,
    read_members,
    sync_request,
)
from ottla.clients.group_timing import Liveness
from ottla.clients.membership import Membership
from ottla.clients.options import ConsumerOptions
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

JOIN_GRACE_MS = 5_000
"""The time that a JoinGroup may take beyond the rebalance timeout, as in Kafka's consumer."""
NOT_SEEN = -1
"""A partition count that is to be taken from the next metadata."""


class GroupMember(Membership):
    """One consumer's membership.

    Args:
        options: the group, and the times that the member keeps.
        assignors: those that this member can use, in order of preference.
        backoff: the waits before retries; by default those of the options.
    """

    def __init__(self, options: ConsumerOptions, assignors: Iterable[Assignor], backoff: Backoff | None = None) -> None:
        super().__init__(options, backoff)
        self.assignors = {assignor.name: assignor for assignor in assignors}
        common = frozenset.intersection(*(frozenset(assignor.protocols) for assignor in self.assignors.values()))
        self.rebalance_protocol = max(common, default=RebalanceProtocol.EAGER)
        self.step = Step.IDLE
        self.protocol_name: str | None = None
        self.is_leader = False
        self.rejoin_needed = False
        self._liveness = Liveness(options)
        self._reason = ""
        self._attempt = 0
        self._prepared = False
        self._retry_at_ms = 0.0
        self._assigned_from: dict[str, int | None] = {}

    # what the shell asks

    @property
    def watched_topics(self) -> set[str]:
        """The topics whose partitions this member, if it leads, divided."""
        return set(self._assigned_from) if self.is_leader else set()

    @property
    def in_rebalance(self) -> bool:
        """Between JoinGroup and the assignment: the generation cannot be told, so nothing can be committed."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    def next_deadline_ms(self) -> float | None:
        if self.closed:
            return None
        times: list[float | None] = []
        if self._wants_coordinator and not self._lookup.running:
            times.append(self._lookup.not_before_ms)
        if self._may_rejoin and self.coordinator is not None:
            times.append(self._retry_at_ms)
        if self._heartbeats:
            times.append(self._liveness.session_until_ms)
            if self.coordinator is not None and self._liveness.open is None:
                times.append(self._liveness.due_ms)
        if self.state is not MemberState.UNJOINED:
            times.append(self._poll.deadline_ms())
        return min((time for time in times if time is not None), default=None)

    @property
    def _heartbeats(self) -> bool:
        # While the broker holds back SyncGroup's answer it keeps the member, and would not read a heartbeat behind it.
        return self.step is not Step.SYNCING and self.state in (
            MemberState.COMPLETING_REBALANCE,
            MemberState.STABLE,
        )

    # what the user does

    def subscribe(self, topics: Iterable[str], now_ms: float, regex: str | None = None) -> None:
        topics = frozenset(topics)
        if topics != self.topics:
            first = self.topics is None
            self.topics = topics
            if first:
                self._poll.restart(now_ms)
            self.request_rejoin("the consumer subscribes" if first else "the subscription changed", now_ms)

    def unsubscribe(self, now_ms: float) -> None:
        self._leave("the consumer unsubscribed")
        self.topics = None
        self.rejoin_needed = False
        self._proceed(now_ms)

    def metadata_changed(self, cluster: ClusterMetadata, now_ms: float) -> None:
        self.partition_counts_changed({topic: cluster.partition_count(topic) for topic in self.watched_topics}, now_ms)

    def partition_counts_changed(self, counts: Mapping[str, int | None], now_ms: float) -> None:
        """Metadata came: the leader has the partitions divided again if their numbers changed."""
        if self.is_leader and self.state is MemberState.STABLE:
            before = self._assigned_from
            self._assigned_from = {topic: counts.get(topic) for topic in before}
            changed = sorted(topic for topic, count in before.items() if count not in (NOT_SEEN, counts.get(topic)))
            if changed:
                self.request_rejoin(f"the number of partitions of {', '.join(changed)} changed", now_ms)

    # time

    def advance(self, now_ms: float) -> None:
        if self.closed:
            return
        if self._user_stays_away(now_ms):
            self._leave("consumer poll timeout has expired.")
            self.rejoin_needed = True
            self._reason = "the consumer is polled again"
        if self._heartbeats:
            if now_ms >= self._liveness.session_until_ms:
                # Whether the session ended only the coordinator can tell; look for it elsewhere.
                self._liveness.alive(now_ms)
                self._lose_coordinator("no heartbeat was answered within session_timeout_ms", now_ms)
            elif self.coordinator is not None and self._liveness.open is None and now_ms >= self._liveness.due_ms:
                self._send_heartbeat()
        self._proceed(now_ms)

    # into a generation

    @property
    def _may_rejoin(self) -> bool:
        return (
            self.topics is not None
            and self.rejoin_needed
            and self.step is Step.IDLE
            and not (self._suspended or self._poll.expired or self.fenced or self.closed)
        )

    def request_rejoin(self, reason: str, now_ms: float) -> None:
        if not self.rejoin_needed:
            self.rejoin_needed = True
            self._reason = reason
        self._proceed(now_ms)

    def _proceed(self, now_ms: float) -> None:
        if self.closed:
            return
        self._look_for_coordinator(now_ms)
        if self.coordinator is None or not self._may_rejoin or now_ms < self._retry_at_ms:
            return
        if self._prepared:
            self._join()
        else:
            self.step = Step.PREPARING
            self._effects.append(Prepare())

    def prepared(self, now_ms: float) -> None:
        self.step = Step.IDLE
        self._prepared = True
        self._proceed(now_ms)

    def _join(self) -> None:
        assert self.topics is not None
        self.rejoin_needed = False
        self.is_leader = False
        self.state = MemberState.PREPARING_REBALANCE
        self.step = Step.JOINING
        request = join_request(
            self.options, self._member(), self.assignors.values(), self.topics, self.owned, self._reason
        )
        self._send(request)

    def _send(self, request: Message) -> None:
        # The broker holds the answer back until the other members have joined, or the leader has synced.
        timeout_ms = max(self.options.request_timeout_ms, self.options.join_timeout_ms + JOIN_GRACE_MS)
        self._attempt += 1
        self._effects.append(Send(request, self._member(self._attempt), timeout_ms))

    def _joined(self, answer: JoinGroupResponse, now_ms: float) -> None:
        self.step = Step.IDLE
        code = error_code(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.request_rejoin(f"need to re-join with the given member-id: {answer.member_id}", now_ms)
        elif code is not ErrorCode.NONE:
            self._join_refused(answer.error_code, "join", now_ms)
        elif (answer.protocol_type or PROTOCOL_TYPE) != PROTOCOL_TYPE or answer.protocol_name not in self.assignors:
            self._join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "join", now_ms)
        else:
            self.state = MemberState.COMPLETING_REBALANCE
            self.generation_id = answer.generation_id
            self.member_id = answer.member_id
            self.protocol_name = answer.protocol_name
            self._liveness.begin(now_ms)
            if answer.leader == answer.member_id:
                self._lead(answer, now_ms)
            else:
                self._sync({})

    def _lead(self, answer: JoinGroupResponse, now_ms: float) -> None:
        try:
            members = read_members(answer)
        except MalformedFrame as error:
            subject = f"lead group {self.options.group!r}"
            return self._fail(error_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, subject, str(error)), now_ms)
        self.is_leader = True
        topics = frozenset(topic for member in members.values() for topic in member.topics)
        self._assigned_from = dict.fromkeys(topics, NOT_SEEN)
        if answer.skip_assignment:  # a static leader came back (KIP-814): the assignment stands
            return self._sync({})
        self.step = Step.LEADING
        self._effects.append(Lead(answer.protocol_name or "", members, topics))
        return None

    def led(
        self, assignments: Mapping[str, list[TopicPartition]], counts: Mapping[str, int | None], now_ms: float
    ) -> None:
        """`Lead` is done: who gets what, and the numbers of partitions that it was made from."""
        if self.step is Step.LEADING:
            self._assigned_from = dict(counts)
            self._sync(assignments)

    def lead_failed(self, error: KafkaError, now_ms: float) -> None:
        """The assignor, or the lookup of the topics, failed."""
        if self.step is Step.LEADING:
            self._fail(error, now_ms)

    def _sync(self, assignments: Mapping[str, list[TopicPartition]]) -> None:
        self.step = Step.SYNCING
        self._send(sync_request(self.options, self._member(), self.protocol_name, assignments))

    def _synced(self, answer: SyncGroupResponse, now_ms: float) -> None:
        self.step = Step.IDLE
        if answer.error_code:
            return self._join_refused(answer.error_code, "sync", now_ms)
        try:
            partitions = read_assignment(answer.assignment)
        except MalformedFrame as error:
            subject = f"the assignment in group {self.options.group!r} is unreadable"
            return self._fail(error_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, subject, str(error)), now_ms)
        self._liveness.alive(now_ms)
        self.state = MemberState.STABLE
        self._backoff.reset()
        strangers = {tp.topic for tp in partitions} - (self.topics or frozenset())
        if strangers:  # the subscription changed while the group was formed
            return self.request_rejoin(f"assigned {', '.join(sorted(strangers))} without a subscription", now_ms)
        self.step = Step.COMPLETING
        self._effects.append(Complete(partitions, self.generation_id, self.protocol_name or ""))
        return None

    def take(self, effect: Complete) -> list[TopicPartition] | None:
        if self.generation_id != effect.generation_id:
            return None  # it was lost while the listener ran; the next preparation tells it so
        self.assignors[effect.protocol_name].on_assignment(effect.partitions, effect.generation_id)
        return effect.partitions

    def completed(self, revoked: bool, now_ms: float) -> None:
        self.step = Step.IDLE
        self._prepared = False
        if revoked:  # others can get it only if we join again
            self.request_rejoin("need to revoke partitions and re-join", now_ms)
        self._proceed(now_ms)

    def _join_refused(self, value: int, what: str, now_ms: float) -> None:
        code = error_code(value)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(forget_member=code is ErrorCode.UNKNOWN_MEMBER_ID)
            self.request_rejoin(f"{what} failed: {code.text}", now_ms)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS and what == "sync":
            self.request_rejoin("sync failed: a new rebalance began", now_ms)
        elif code in COORDINATOR_MOVED:
            self._again(f"{what} failed: {code.text}", now_ms)
            self._lose_coordinator(code.text, now_ms)
        elif code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._again(f"{what} failed: {code.text}", now_ms)
        else:
            self._fail(error_of(value, f"{what} group {self.options.group!r}"), now_ms)

    def _again(self, reason: str, now_ms: float) -> None:
        """Join again after a pause."""
        self.step = Step.IDLE
        if self.lost:
            self.state = MemberState.UNJOINED
        self._retry_at_ms = now_ms + self._backoff.next_ms()
        self.request_rejoin(reason, now_ms)

    def _reset(self, *, forget_member: bool) -> None:
        self.generation_id = -1
        if forget_member:
            self.member_id = ""
        self.protocol_name = None
        self.is_leader = False
        self._liveness.open = None
        self.state = MemberState.UNJOINED
        if self.step in (Step.JOINING, Step.LEADING, Step.SYNCING):
            self.step = Step.IDLE
        self._attempt += 1

    def _fail(self, error: KafkaError, now_ms: float) -> None:
        self._reset(forget_member=False)
        self.rejoin_needed = True
        self._retry_at_ms = now_ms + self._backoff.next_ms()
        self._suspend(error)

    # answers

    def answered(self, sent: Sent, answer: Any, now_ms: float) -> None:
        if isinstance(answer, HeartbeatResponse):
            self._heartbeat_answered(sent, answer, now_ms)
        elif sent.attempt != self._attempt or self.closed:
            return
        elif isinstance(answer, JoinGroupResponse) and self.step is Step.JOINING:
            self._joined(answer, now_ms)
        elif isinstance(answer, SyncGroupResponse) and self.step is Step.SYNCING:
            self._synced(answer, now_ms)

    def not_answered(self, sent: Sent, error: KafkaError, now_ms: float) -> None:
        if sent is self._liveness.open:
            self._liveness.failed(now_ms)
        elif sent.attempt != self._attempt or self.step not in (Step.JOINING, Step.SYNCING):
            return  # nobody waits for it any more, and the coordinator may be another by now
        elif not error.retriable:
            self._fail(error, now_ms)
            return
        else:
            self._again(f"no answer: {error}", now_ms)
        self._lose_coordinator(str(error), now_ms)

    def _send_heartbeat(self) -> None:
        self._liveness.open = sent = self._member(-1)
        self._effects.append(Send(heartbeat_request(self.options, sent), sent, self._liveness.timeout_ms))

    def _heartbeat_answered(self, sent: Sent, answer: HeartbeatResponse, now_ms: float) -> None:
        if sent is not self._liveness.open:
            return
        code = error_code(answer.error_code)
        if code in COORDINATOR_MOVED:
            self._liveness.failed(now_ms)
            self._lose_coordinator(code.text, now_ms)
            return
        self._liveness.answered(now_ms)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._liveness.alive(now_ms)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing", now_ms)
        elif code is not ErrorCode.NONE and not code.retriable:
            self.membership_refused(answer.error_code, sent, "heartbeat", now_ms)

    def membership_refused(self, value: int, sent: Sent, what: str, now_ms: float) -> None:
        if (sent.generation_id, sent.member_id) != (self.generation_id, self.member_id) or self.topics is None:
            return
        code = error_code(value)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(forget_member=code is ErrorCode.UNKNOWN_MEMBER_ID)
            self.rejoin_needed = False
            self.request_rejoin(f"{what} failed: {code.text}", now_ms)
        else:
            self._fail(error_of(value, f"{what} in group {self.options.group!r}"), now_ms)

    def _leave(self, reason: str) -> None:
        if (
            self.options.group_instance_id is None
            and self.member_id
            and self.coordinator is not None
            and self.state is not MemberState.UNJOINED
        ):
            fresh = self.step in (Step.JOINING, Step.SYNCING)
            request = leave_request(self.options, self._member(), reason)
            self._effects.append(Send(request, self._member(), self.options.request_timeout_ms, fresh))
        self._reset(forget_member=True)
