"""A consumer's membership in its group, sans-I/O: answers and time in, effects out.

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

*The poll interval.* A member whose user has not come back in ``max_poll_interval_ms`` leaves, so that others get its
partitions, and joins again when the user does. Static members do not leave; their session ends instead (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.clients.assignors import Assignor, RebalanceProtocol
from ottla.clients.backoff import Backoff
from ottla.clients.errors import (
    COORDINATOR_MOVED,
    CommitFailed,
    FencedInstance,
    KafkaError,
    RebalanceInProgress,
    error_code,
    error_of,
)
from ottla.clients.group_effects import (
    Complete,
    CoordinatorLost,
    Effect,
    Fail,
    FindCoordinator,
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
from ottla.clients.group_timing import Liveness, Lookup, PollWatch
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


class GroupMember:
    """One consumer's membership. After every call the owner performs `take_effects` and arms `next_deadline_ms`.

    Args:
        options: the group, and the times that the member keeps.
        assignors: those that this member can use, in order of preference.
        backoff: the waits before retries; by default those of the options.

    Attributes:
        state: Kafka's member state.
        owned: the partitions held; the shell keeps it up to date.
    """

    def __init__(self, options: ConsumerOptions, assignors: Iterable[Assignor], backoff: Backoff | None = None) -> None:
        self.options = options
        self.assignors = {assignor.name: assignor for assignor in assignors}
        common = frozenset.intersection(*(frozenset(assignor.protocols) for assignor in self.assignors.values()))
        self.rebalance_protocol = max(common, default=RebalanceProtocol.EAGER)
        self.state = MemberState.UNJOINED
        self.step = Step.IDLE
        self.generation_id = -1
        self.member_id = ""
        self.protocol_name: str | None = None
        self.is_leader = False
        self.owned: list[TopicPartition] = []
        self.topics: frozenset[str] | None = None
        self.rejoin_needed = False
        self.fenced: FencedInstance | None = None
        self.closed = False
        self._backoff = backoff or options.retry_backoff()
        self._lookup = Lookup(self._backoff.another())
        self._liveness = Liveness(options)
        self._poll = PollWatch(options.max_poll_interval_ms)
        self._effects: list[Effect] = []
        self._reason = ""
        self._attempt = 0
        self._prepared = False
        self._suspended = False
        self._retry_at_ms = 0.0
        self._assigned_from: dict[str, int | None] = {}

    # what the shell asks

    def take_effects(self) -> list[Effect]:
        """The effects to perform, each once."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def has_effects(self) -> bool:
        return bool(self._effects)

    @property
    def coordinator(self) -> int | None:
        """The coordinator's broker, while it is known."""
        return self._lookup.node_id

    @property
    def lost(self) -> bool:
        """The member is in no generation: what it still holds may be somebody else's."""
        return self.generation_id < 0

    @property
    def watched_topics(self) -> set[str]:
        """The topics whose partitions this member, if it leads, divided."""
        return set(self._assigned_from) if self.is_leader else set()

    @property
    def in_rebalance(self) -> bool:
        """Between JoinGroup and the assignment: the generation cannot be told, so nothing can be committed."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    def identity(self) -> Sent:
        """The identity to commit offsets with now.

        Raises:
            RebalanceInProgress: a rebalance is under way.
            CommitFailed: the member is in no generation.
        """
        if self.closed:
            raise CommitFailed("not committed: this consumer has left the group")
        if self.topics is None:
            return Sent(0, -1, "")  # partitions assigned by hand: the group has no members
        if self.fenced:
            raise self.fenced
        if self.in_rebalance:
            raise RebalanceInProgress(
                "not committed: a rebalance is in progress; poll, then commit what is still owned"
            )
        if self.lost:
            raise CommitFailed(
                "not committed: this consumer is not in the group; it left or was removed, perhaps since calls were "
                "more than max_poll_interval_ms apart or no heartbeat came through; poll to join again"
            )
        return self._member()

    def next_deadline_ms(self) -> float | None:
        """When `advance` must be called at the latest, unless something else happens first."""
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

    def subscribe(self, topics: Iterable[str], now_ms: float) -> None:
        """Be a member with these topics, or change them."""
        topics = frozenset(topics)
        if topics != self.topics:
            first = self.topics is None
            self.topics = topics
            if first:
                self._poll.restart(now_ms)
            self.request_rejoin("the consumer subscribes" if first else "the subscription changed", now_ms)

    def unsubscribe(self, now_ms: float) -> None:
        """Leave the group."""
        self._leave("the consumer unsubscribed")
        self.topics = None
        self.rejoin_needed = False
        self._proceed(now_ms)

    def close(self, reason: str) -> None:
        """Leave the group for good; a static member just goes away, and may come back within its session (KIP-345)."""
        self._leave(reason)
        self.topics = None
        self.closed = True

    def entered_poll(self, now_ms: float) -> None:
        """The user is in a call."""
        if self._poll.enter():
            self._proceed(now_ms)

    def left_poll(self, now_ms: float) -> None:
        """The user's call ended."""
        self._poll.leave(now_ms)

    def resume(self, now_ms: float) -> None:
        """The error of a `Fail` was raised and the user came back: try again."""
        if self._suspended:
            self._suspended = False
            self._proceed(now_ms)

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
        """Do everything that is due. Calling too early or too often does no harm."""
        if self.closed:
            return
        away = self._poll.deadline_ms() if self.state is not MemberState.UNJOINED else None
        if away is not None and now_ms >= away:
            self._poll.expired = True
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

    # the coordinator

    @property
    def _wants_coordinator(self) -> bool:
        return self.coordinator is None and (self._lookup.wanted or self.topics is not None)

    @property
    def _may_rejoin(self) -> bool:
        return (
            self.topics is not None
            and self.rejoin_needed
            and self.step is Step.IDLE
            and not (self._suspended or self._poll.expired or self.fenced or self.closed)
        )

    def request_rejoin(self, reason: str, now_ms: float) -> None:
        """Join again as soon as the step under way is done. The first reason since the last join is told (KIP-800)."""
        if not self.rejoin_needed:
            self.rejoin_needed = True
            self._reason = reason
        self._proceed(now_ms)

    def want_coordinator(self, now_ms: float) -> None:
        """Look the coordinator up even without a subscription, for commits."""
        self._lookup.wanted = True
        self._proceed(now_ms)

    def coordinator_found(self, node_id: int, now_ms: float) -> None:
        self._lookup.found(node_id)
        self._proceed(now_ms)

    def coordinator_not_found(self, error: KafkaError, now_ms: float) -> None:
        self._lookup.failed(now_ms)
        if not error.retriable:
            self._fail(error, now_ms)

    def coordinator_lost(self, node_id: int, reason: str, now_ms: float) -> None:
        """A broker is not, or not reachably, the coordinator any more."""
        if self.coordinator == node_id:
            self._lookup.node_id = None
            self._effects.append(CoordinatorLost(node_id, reason))
            self._proceed(now_ms)

    def _lose_coordinator(self, reason: str, now_ms: float) -> None:
        if self.coordinator is not None:
            self.coordinator_lost(self.coordinator, reason, now_ms)

    def _proceed(self, now_ms: float) -> None:
        """Take the next step of the way into a generation, if nothing is awaited."""
        if self.closed:
            return
        if self._wants_coordinator and not self._lookup.running and now_ms >= self._lookup.not_before_ms:
            self._lookup.running = True
            self._effects.append(FindCoordinator())
        if self.coordinator is None or not self._may_rejoin or now_ms < self._retry_at_ms:
            return
        if self._prepared:
            self._join()
        else:
            self.step = Step.PREPARING
            self._effects.append(Prepare())

    # into a generation

    def prepared(self, now_ms: float) -> None:
        """`Prepare` is done; ``owned`` is what is left."""
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

    def _member(self, attempt: int = 0) -> Sent:
        return Sent(attempt, self.generation_id, self.member_id)

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

    def completed(self, revoked: bool, now_ms: float) -> None:
        """`Complete` is done; ``revoked``: something had to be given up, which others can get only if we join again."""
        self.step = Step.IDLE
        self._prepared = False
        if revoked:
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
        """Stop until the user has been told an error."""
        self._reset(forget_member=False)
        if isinstance(error, FencedInstance):
            self.fenced = error
        self._suspended = True
        self.rejoin_needed = True
        self._retry_at_ms = now_ms + self._backoff.next_ms()
        self._effects.append(Fail(error))

    # answers

    def answered(self, sent: Sent, answer: Any, now_ms: float) -> None:
        """The answer to a `Send`."""
        if isinstance(answer, HeartbeatResponse):
            self._heartbeat_answered(sent, answer, now_ms)
        elif sent.attempt != self._attempt or self.closed:
            return
        elif isinstance(answer, JoinGroupResponse) and self.step is Step.JOINING:
            self._joined(answer, now_ms)
        elif isinstance(answer, SyncGroupResponse) and self.step is Step.SYNCING:
            self._synced(answer, now_ms)

    def not_answered(self, sent: Sent, error: KafkaError, now_ms: float) -> None:
        """No answer came to a `Send`: the connection broke, or time is over."""
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
        """A heartbeat or commit was told that the membership is over. Ignored if it was sent in another generation."""
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
