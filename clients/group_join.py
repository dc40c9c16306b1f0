"""The way into a generation: prepare, JoinGroup, perhaps lead, SyncGroup, complete; and back when something fails.

The theory stands in `ottla.clients.group_member`, of which this is the first half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.clients.assignors import Assignor, RebalanceProtocol
from ottla.clients.backoff import Backoff
from ottla.clients.errors import (
    FencedInstance,
    KafkaError,
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
    MemberConfig,
    MemberState,
    Prepare,
    Send,
    Sent,
    Step,
)
from ottla.clients.group_messages import (
    join_request,
    read_assignment,
    read_members,
    sync_request,
)
from ottla.clients.group_timing import Liveness, Lookup, PollWatch
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance timeout a JoinGroup may take, as in Kafka's consumer."""
NOT_SEEN = -1
"""A partition count that is to be taken from the next metadata."""
COORDINATOR_GONE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})


class GenerationMachine:
    """What a member is, and how it gets into a generation. Use `GroupMember`."""

    def __init__(self, config: MemberConfig, assignors: Iterable[Assignor], backoff: Backoff) -> None:
        self.config = config
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
        self._backoff = backoff
        self._lookup = Lookup(backoff.another())
        self._liveness = Liveness(config)
        self._poll = PollWatch(config.max_poll_interval_ms)
        self._effects: list[Effect] = []
        self._reason = ""
        self._attempt = 0
        self._prepared = False
        self._suspended = False
        self._retry_at_ms = 0.0
        self._assigned_from: dict[str, int | None] = {}

    # what the shell asks

    def take_effects(self) -> list[Effect]:
        """What is to be done, once."""
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

    # the coordinator

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
            self.config, self._member(), self.assignors.values(), self.topics, self.owned, self._reason
        )
        self._send(request)

    def _member(self, attempt: int = 0) -> Sent:
        return Sent(attempt, self.generation_id, self.member_id)

    def _send(self, request: Message) -> None:
        # The broker holds the answer back until the other members have joined, or the leader has synced.
        timeout_ms = max(self.config.request_timeout_ms, self.config.rebalance_timeout_ms + JOIN_GRACE_MS)
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
            subject = f"lead group {self.config.group_id!r}"
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
        self._send(sync_request(self.config, self._member(), self.protocol_name, assignments))

    def _synced(self, answer: SyncGroupResponse, now_ms: float) -> None:
        self.step = Step.IDLE
        if answer.error_code:
            return self._join_refused(answer.error_code, "sync", now_ms)
        try:
            partitions = read_assignment(answer.assignment)
        except MalformedFrame as error:
            subject = f"the assignment in group {self.config.group_id!r} is unreadable"
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
        elif code in COORDINATOR_GONE:
            self._again(f"{what} failed: {code.text}", now_ms)
            self._lose_coordinator(code.text, now_ms)
        elif code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._again(f"{what} failed: {code.text}", now_ms)
        else:
            self._fail(error_of(value, f"{what} group {self.config.group_id!r}"), now_ms)

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
        """The user must know. Nothing more is tried until it does."""
        self._reset(forget_member=False)
        if isinstance(error, FencedInstance):
            self.fenced = error
        self._suspended = True
        self.rejoin_needed = True
        self._retry_at_ms = now_ms + self._backoff.next_ms()
        self._effects.append(Fail(error))
