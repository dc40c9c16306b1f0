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

from ottla.clients.errors import CommitFailed, KafkaError, RebalanceInProgress, error_code, error_of
from ottla.clients.group_effects import MemberState, Send, Sent, Step
from ottla.clients.group_join import COORDINATOR_GONE, NOT_SEEN, GenerationMachine
from ottla.clients.group_messages import heartbeat_request, leave_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse


class GroupMember(GenerationMachine):
    """One consumer's membership. After every call the owner performs `take_effects` and arms `next_deadline_ms`.

    Args:
        config: constants.
        assignors: those that this member can use, in order of preference.
        backoff: the waits before retries.

    Attributes:
        state: Kafka's member state.
        owned: the partitions held; the shell keeps it up to date.
    """

    # what the shell asks

    @property
    def watched_topics(self) -> set[str]:
        """The topics whose partitions this member, if it leads, divided."""
        return set(self._assigned_from) if self.is_leader else set()

    @property
    def in_rebalance(self) -> bool:
        """Between JoinGroup and the assignment: the generation cannot be told, so nothing can be committed."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    def identity(self) -> Sent:
        """In whose name offsets may be committed now.

        Raises:
            RebalanceInProgress: not before the rebalance under way is done.
            CommitFailed: the member is in no generation.
        """
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

    def unsubscribe(self, now_ms: float, reason: str = "the consumer unsubscribed") -> None:
        """Leave the group."""
        self._leave(reason)
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
        """Do what is due. Calling too early or too often does no harm."""
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
        self._effects.append(Send(heartbeat_request(self.config, sent), sent, self._liveness.timeout_ms))

    def _heartbeat_answered(self, sent: Sent, answer: HeartbeatResponse, now_ms: float) -> None:
        if sent is not self._liveness.open:
            return
        code = error_code(answer.error_code)
        if code in COORDINATOR_GONE:
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
        """A heartbeat or commit told that the membership is over, unless it was sent in another generation."""
        if (sent.generation_id, sent.member_id) != (self.generation_id, self.member_id) or self.topics is None:
            return
        code = error_code(value)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(forget_member=code is ErrorCode.UNKNOWN_MEMBER_ID)
            self.rejoin_needed = False
            self.request_rejoin(f"{what} failed: {code.text}", now_ms)
        else:
            self._fail(error_of(value, f"{what} in group {self.config.group_id!r}"), now_ms)

    def _leave(self, reason: str) -> None:
        if (
            self.config.group_instance_id is None
            and self.member_id
            and self.coordinator is not None
            and self.state is not MemberState.UNJOINED
        ):
            fresh = self.step in (Step.JOINING, Step.SYNCING)
            request = leave_request(self.config, self._member(), reason)
            self._effects.append(Send(request, self._member(), self.config.request_timeout_ms, fresh))
        self._reset(forget_member=True)
