"""A consumer's membership in its group, sans-I/O: what the members of both protocols share, and what their shell calls.

A membership takes answers and time, and gives effects. After every call its owner performs `Membership.take_effects`
and arms `Membership.next_deadline_ms`. `GroupMember` speaks the classic protocol, `ConsumerMember` the ``consumer``
protocol.

*The poll interval.* A member whose user has not come back in ``max_poll_interval_ms`` leaves, so that others get its
partitions, and joins again when the user does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ottla.clients.assignors import RebalanceProtocol
from ottla.clients.backoff import Backoff
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.errors import CommitFailed, FencedInstance, KafkaError, RebalanceInProgress
from ottla.clients.group_effects import Complete, CoordinatorLost, Effect, Fail, FindCoordinator, MemberState, Sent
from ottla.clients.group_timing import Lookup, PollWatch
from ottla.clients.options import ConsumerOptions
from ottla.protocol.records import TopicPartition


class Membership(ABC):
    """One consumer's membership.

    Args:
        options: the group, and the times that the member keeps.
        backoff: the waits before retries; by default those of the options.

    Attributes:
        rebalance_protocol: EAGER if everything is given up before a rebalance.
        state: Kafka's member state.
        generation_id: the generation, or the member epoch; -1 outside the group.
        owned: the partitions held; the shell keeps it up to date.
        topics: the topics subscribed to by name; None without a subscription.
        fenced: the error of a member whose instance id somebody else has; it is final.
    """

    rebalance_protocol: RebalanceProtocol

    def __init__(self, options: ConsumerOptions, backoff: Backoff | None = None) -> None:
        self.options = options
        self.state = MemberState.UNJOINED
        self.generation_id = -1
        self.member_id = ""
        self.owned: list[TopicPartition] = []
        self.topics: frozenset[str] | None = None
        self.fenced: FencedInstance | None = None
        self.closed = False
        self._backoff = backoff or options.retry_backoff()
        self._lookup = Lookup(self._backoff.another())
        self._poll = PollWatch(options.max_poll_interval_ms)
        self._effects: list[Effect] = []
        self._suspended = False

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
        """The member is not in the group: what it still holds may be somebody else's."""
        return self.generation_id < 0

    @property
    def in_rebalance(self) -> bool:
        """The generation cannot be told now, so nothing can be committed."""
        return False

    @property
    @abstractmethod
    def watched_topics(self) -> set[str]:
        """Topics whose metadata this member needs, beside those subscribed to."""

    def identity(self) -> Sent:
        """The identity to commit offsets with now.

        Raises:
            RebalanceInProgress: a rebalance is under way.
            CommitFailed: the member is not in the group.
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

    @property
    def reader(self) -> Sent | None:
        """The identity to fetch committed offsets with; None if that of nobody in particular does."""
        return None

    def _member(self, attempt: int = 0) -> Sent:
        return Sent(attempt, self.generation_id, self.member_id)

    @abstractmethod
    def next_deadline_ms(self) -> float | None:
        """When `advance` must be called at the latest, unless something else happens first."""

    @abstractmethod
    def advance(self, now_ms: float) -> None:
        """Do everything that is due. Calling too early or too often does no harm."""

    def _user_stays_away(self, now_ms: float) -> bool:
        """The user has not come back in ``max_poll_interval_ms``, which was not known before."""
        away = self._poll.deadline_ms() if self.state is not MemberState.UNJOINED else None
        if away is None or now_ms < away:
            return False
        self._poll.expired = True
        return True

    # what the user does

    @abstractmethod
    def subscribe(self, topics: Iterable[str], now_ms: float, regex: str | None = None) -> None:
        """Be a member with these topics, or change them. The broker matches ``regex``, if the protocol has that."""

    @abstractmethod
    def unsubscribe(self, now_ms: float) -> None:
        """Leave the group."""

    @abstractmethod
    def _leave(self, reason: str) -> None:
        """Tell the coordinator, and be in the group no more."""

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

    def _suspend(self, error: KafkaError) -> None:
        """Stop until the user has been told an error."""
        if isinstance(error, FencedInstance):
            self.fenced = error
        self._suspended = True
        self._effects.append(Fail(error))

    # the coordinator

    @property
    def _wants_coordinator(self) -> bool:
        return self.coordinator is None and (self._lookup.wanted or self.topics is not None)

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

    def _look_for_coordinator(self, now_ms: float) -> None:
        if self._wants_coordinator and not self._lookup.running and now_ms >= self._lookup.not_before_ms:
            self._lookup.running = True
            self._effects.append(FindCoordinator())

    # the way into the group, and through it

    @abstractmethod
    def _proceed(self, now_ms: float) -> None:
        """Take the next step, if nothing is awaited."""

    @abstractmethod
    def _fail(self, error: KafkaError, now_ms: float) -> None:
        """Be out of the group until the user has been told an error."""

    @abstractmethod
    def prepared(self, now_ms: float) -> None:
        """`Prepare` is done; ``owned`` is what is left."""

    @abstractmethod
    def take(self, effect: Complete) -> list[TopicPartition] | None:
        """The partitions of an assignment that may be taken over now; None if the membership was lost meanwhile."""

    @abstractmethod
    def completed(self, revoked: bool, now_ms: float) -> None:
        """`Complete` is done; ``revoked``: something had to be given up for it."""

    @abstractmethod
    def metadata_changed(self, cluster: ClusterMetadata, now_ms: float) -> None:
        """Metadata came."""

    # answers

    @abstractmethod
    def answered(self, sent: Sent, answer: Any, now_ms: float) -> None:
        """The answer to a `Send`."""

    @abstractmethod
    def not_answered(self, sent: Sent, error: KafkaError, now_ms: float) -> None:
        """No answer came to a `Send`: the connection broke, or time is over."""

    @abstractmethod
    def request_rejoin(self, reason: str, now_ms: float) -> None:
        """Join again as soon as the step under way is done. The first reason since the last join is told (KIP-800)."""

    @abstractmethod
    def membership_refused(self, value: int, sent: Sent, what: str, now_ms: float) -> None:
        """A heartbeat or commit was told that the membership is over. Ignored if it was sent in another generation."""
