"""A membership by the ``consumer`` protocol (KIP-848): one request, the heartbeat, says and hears everything.

```
           subscribe              answered: epoch, interval              another assignment
UNJOINED ────────────► JOINING ───────────────────────────► STABLE ◄──────────────────────► RECONCILING
   ▲                                                          │     Complete is done, and told
   └──────────────────────────────────────────────────────────┘
     FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, the poll interval, unsubscribe
```

*One way up.* The broker names what the member shall own, by topic ids. The shell gives up what is too much and takes
what is new (`Complete`); heartbeats go on beside it. What the member owns is told at once when it has changed, so that
nobody waits an interval for a partition. Names and owned partitions are told only when they are new.

*After doubt, everything.* When an answer was lost, or an error came, or the coordinator is another, the next heartbeat
says everything, and the broker answers with the whole assignment. That also saves a member whose new epoch got lost.

*Losing the epoch.* The member keeps its id, gives up what it held as *lost*, and joins again with epoch 0. It joins
only when it holds nothing any more, since that is what epoch 0 says.

*Leaving* says epoch -1. A static member says -2: the group keeps its partitions for it until its session ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from ottla.clients.assignors import RebalanceProtocol
from ottla.clients.backoff import Backoff
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.errors import COORDINATOR_MOVED, KafkaError, UnsupportedByBroker, error_code, error_of
from ottla.clients.group_effects import Complete, Fail, LookUp, MemberState, Prepare, Send, Sent, Step
from ottla.clients.membership import Membership
from ottla.clients.options import ConsumerOptions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from ottla.protocol.records import TopicPartition

LEAVES = -1
GOES_AWAY = -2
"""The member epochs that say goodbye; the second is a static member's, which comes back."""
EPOCH_LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
NO_SUCH_API = (
    "group_protocol='consumer' needs a broker that has it: Ottla, or Apache Kafka 4.0 or later with the feature "
    "group.version 1; use group_protocol='classic' here"
)
ANSWER_WITHIN_MS = 30_000
"""The longest wait for a heartbeat's answer: a second try still fits into the session, which is 45 s by default."""


class ConsumerMember(Membership):
    """One consumer's membership.

    Args:
        options: the group, and the times that the member keeps.
        member_id: chosen once for the life of the consumer (KIP-1082).
        backoff: the waits before retries; by default those of the options.
    """

    rebalance_protocol = RebalanceProtocol.COOPERATIVE

    def __init__(self, options: ConsumerOptions, member_id: str, backoff: Backoff | None = None) -> None:
        super().__init__(options, backoff)
        self.member_id = member_id
        self.regex: str | None = None
        self.step = Step.IDLE
        self._target: dict[UUID, list[int]] = {}
        self._names: dict[UUID, str] = {}
        self._held_ids: dict[str, UUID] = {}
        self._open: Sent | None = None
        self._due_ms = 0.0
        self._everything = True
        self._said: tuple[frozenset[str] | None, str | None, frozenset[TopicPartition]] | None = None
        self._first = True
        self._looking_up = False
        self._look_up_at_ms = 0.0
        self._look_up_backoff = self._backoff.another()

    # what the shell asks

    @property
    def watched_topics(self) -> set[str]:
        return {self._names[topic_id] for topic_id in self._target if topic_id in self._names}

    @property
    def reader(self) -> Sent | None:
        return None if self.lost or self.topics is None else self._member()

    def next_deadline_ms(self) -> float | None:
        if self.closed:
            return None
        times: list[float | None] = []
        if self._wants_coordinator and not self._lookup.running:
            times.append(self._lookup.not_before_ms)
        if self._may_speak and self.coordinator is not None and self._open is None:
            times.append(self._due_ms)
        if self._unknown and not self._looking_up and self.step is Step.IDLE and self._taking_part:
            times.append(self._look_up_at_ms)
        if self.state is not MemberState.UNJOINED:
            times.append(self._poll.deadline_ms())
        return min((time for time in times if time is not None), default=None)

    # what the user does

    def subscribe(self, topics: Iterable[str], now_ms: float, regex: str | None = None) -> None:
        wanted = frozenset(topics)
        if (wanted, regex) != (self.topics, self.regex):
            if self.topics is None:
                self._poll.restart(now_ms)
                self._due_ms = now_ms
            self.topics, self.regex = wanted, regex
            self._proceed(now_ms)

    def unsubscribe(self, now_ms: float) -> None:
        self._leave("the consumer unsubscribed")
        self.topics = self.regex = None
        self._proceed(now_ms)

    def metadata_changed(self, cluster: ClusterMetadata, now_ms: float) -> None:
        self._learn(cluster)
        self._proceed(now_ms)

    # time

    def advance(self, now_ms: float) -> None:
        if self.closed:
            return
        if self._user_stays_away(now_ms):
            self._leave("consumer poll timeout has expired.")
        self._proceed(now_ms)

    @property
    def _taking_part(self) -> bool:
        """The member is in the group, or on its way into it."""
        return self.topics is not None and not (self._suspended or self._poll.expired or self.fenced or self.closed)

    @property
    def _may_speak(self) -> bool:
        return self._taking_part and (not self.lost or (self.step is Step.IDLE and not self.owned))

    def _proceed(self, now_ms: float) -> None:
        if self.closed:
            return
        self._look_for_coordinator(now_ms)
        if not self._taking_part:
            return
        if self.step is Step.IDLE and self.lost and self.owned:
            self.step = Step.PREPARING
            self._effects.append(Prepare())
        elif self.step is Step.IDLE and not self.lost:
            self._reconcile(now_ms)
        if (
            self._may_speak
            and self.coordinator is not None
            and self._open is None
            and (now_ms >= self._due_ms or (self._has_news and not self._everything))
        ):
            self._send_heartbeat()

    # heartbeats

    @property
    def _has_news(self) -> bool:
        return self._said != (self.topics, self.regex, frozenset(self.owned))

    def _send_heartbeat(self) -> None:
        everything = self.lost or self._everything
        told_topics, told_regex, told_owned = self._said or (None, None, frozenset())
        owned = frozenset(self.owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.options.group,
            member_id=self.member_id,
            member_epoch=max(self.generation_id, 0),
            instance_id=self.options.group_instance_id,
        )
        if everything:
            request.rack_id = self.options.client_rack
            request.rebalance_timeout_ms = self.options.join_timeout_ms
            request.server_assignor = self.options.group_remote_assignor
        if everything or told_topics != self.topics:
            request.subscribed_topic_names = sorted(self.topics or ())
        if everything or told_regex != self.regex:
            request.subscribed_topic_regex = self.regex or ""
        if everything or told_owned != owned:
            request.topic_partitions = self._by_id(sorted(owned))
        self._said = self.topics, self.regex, owned
        if self.lost:
            self.state = MemberState.JOINING
        self._open = sent = self._member(-1)
        timeout_ms = min(self.options.request_timeout_ms, ANSWER_WITHIN_MS)
        # Since version 1 a member chooses its id, and the broker matches regular expressions.
        self._effects.append(Send(request, sent, timeout_ms, low=1))

    def _by_id(self, partitions: Iterable[TopicPartition]) -> list[HeartbeatTopicPartitions]:
        grouped: dict[UUID, list[int]] = {}
        for tp in partitions:
            grouped.setdefault(self._held_ids[tp.topic], []).append(tp.partition)
        return [HeartbeatTopicPartitions(topic_id=one, partitions=numbers) for one, numbers in grouped.items()]

    def answered(self, sent: Sent, answer: Any, now_ms: float) -> None:
        if sent is not self._open or not isinstance(answer, ConsumerGroupHeartbeatResponse):
            return
        self._open = None
        if answer.error_code:
            self._refused(answer, sent, now_ms)
            return
        if self.lost:
            self._first = True
            self._held_ids.clear()
        self.member_id = answer.member_id or self.member_id
        self.generation_id = answer.member_epoch
        self._everything = False
        self._backoff.reset()
        self._due_ms = now_ms + answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self._target = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
            self._look_up_at_ms = now_ms
            self._look_up_backoff.reset()
        if self.state is MemberState.JOINING:
            self.state = MemberState.STABLE
        self._proceed(now_ms)

    def not_answered(self, sent: Sent, error: KafkaError, now_ms: float) -> None:
        if sent is not self._open:
            return
        self._open = None
        if isinstance(error, UnsupportedByBroker):
            error = UnsupportedByBroker(f"{error}; {NO_SUCH_API}")
        if not error.retriable:
            self._fail(error, now_ms)
            return
        self._try_again(now_ms)
        self._lose_coordinator(str(error), now_ms)

    def _try_again(self, now_ms: float) -> None:
        """Say everything after a pause."""
        self._everything = True
        self._due_ms = now_ms + self._backoff.next_ms()

    def _refused(self, answer: ConsumerGroupHeartbeatResponse, sent: Sent, now_ms: float) -> None:
        code = error_code(answer.error_code)
        detail = NO_SUCH_API if code is ErrorCode.UNSUPPORTED_VERSION else answer.error_message
        error = error_of(answer.error_code, f"heartbeat in group {self.options.group!r}", detail)
        if code in EPOCH_LOST:
            self.membership_refused(answer.error_code, sent, "heartbeat", now_ms)
        elif code in COORDINATOR_MOVED:
            self._try_again(now_ms)
            self._lose_coordinator(code.text, now_ms)
        elif code.retriable:
            self._try_again(now_ms)
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._try_again(now_ms)  # the user should know, but access may be given meanwhile
            self._effects.append(Fail(error))
        else:
            self._fail(error, now_ms)

    # the assignment

    @property
    def _unknown(self) -> tuple[UUID, ...]:
        """The topics of the assignment that are not known by name."""
        return tuple(topic_id for topic_id in self._target if topic_id not in self._names)

    def _wanted(self) -> Iterator[tuple[TopicPartition, UUID]]:
        """What the member shall own, as far as it is known by name."""
        for topic_id, numbers in self._target.items():
            name = self._names.get(topic_id)
            # A topic that was made anew under its name is given up before it is taken.
            if name is not None and self._held_ids.get(name, topic_id) == topic_id:
                yield from ((TopicPartition(name, number), topic_id) for number in numbers)

    def _reconcile(self, now_ms: float) -> None:
        """Let the shell give up and take over what the assignment says, if that is not done."""
        if self._looking_up:
            return
        unknown = self._unknown
        if unknown and now_ms >= self._look_up_at_ms:
            self._looking_up = True
            self._look_up_at_ms = now_ms + self._look_up_backoff.next_ms()
            self._effects.append(LookUp(unknown))
            return
        wanted = [tp for tp, _ in self._wanted()]
        if self._first or set(wanted) != set(self.owned):
            self._first = False
            self.step = Step.COMPLETING
            self.state = MemberState.RECONCILING
            self._effects.append(Complete(wanted, self.generation_id, ""))
        else:
            self.state = MemberState.STABLE

    def looked_up(self, cluster: ClusterMetadata, now_ms: float) -> None:
        """`LookUp` is done, as far as the brokers know the topics; others are looked up again."""
        self._looking_up = False
        self._learn(cluster)
        self._proceed(now_ms)

    def _learn(self, cluster: ClusterMetadata) -> None:
        for name, topic in cluster.topics.items():
            if topic.topic_id in self._target:
                self._names[topic.topic_id] = name

    def prepared(self, now_ms: float) -> None:
        self.step = Step.IDLE
        self._proceed(now_ms)

    def take(self, effect: Complete) -> list[TopicPartition] | None:
        """A later answer may have taken partitions away that are not held yet: these are not taken over."""
        if self.lost:
            return None
        wanted: Mapping[TopicPartition, UUID] = dict(self._wanted())
        taken = [tp for tp in effect.partitions if tp in wanted or tp in self.owned]
        self._held_ids = {tp.topic: wanted[tp] if tp in wanted else self._held_ids[tp.topic] for tp in taken}
        return taken

    def completed(self, revoked: bool, now_ms: float) -> None:
        self.step = Step.IDLE
        self._proceed(now_ms)

    # out of the group

    def _lose(self, now_ms: float) -> None:
        self.generation_id = -1
        self.state = MemberState.UNJOINED
        self._target.clear()
        self._names.clear()
        self._open = None
        self._looking_up = False
        self._everything = True
        self._due_ms = now_ms

    def _fail(self, error: KafkaError, now_ms: float) -> None:
        self._lose(now_ms)
        self._due_ms = now_ms + self._backoff.next_ms()
        self._suspend(error)

    def request_rejoin(self, reason: str, now_ms: float) -> None:
        """Say everything in the next heartbeat; there is no rebalance of the whole group to join."""
        self._everything = True
        self._proceed(now_ms)

    def membership_refused(self, value: int, sent: Sent, what: str, now_ms: float) -> None:
        if (sent.generation_id, sent.member_id) != (self.generation_id, self.member_id) or self.topics is None:
            return
        if error_code(value) in EPOCH_LOST:
            self._lose(now_ms)
            self._proceed(now_ms)
        else:
            self._fail(error_of(value, f"{what} in group {self.options.group!r}"), now_ms)

    def _leave(self, reason: str) -> None:
        if self.coordinator is not None and self.state is not MemberState.UNJOINED:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.options.group,
                member_id=self.member_id,
                member_epoch=LEAVES if self.options.group_instance_id is None else GOES_AWAY,
                instance_id=self.options.group_instance_id,
            )
            self._effects.append(Send(request, self._member(), self.options.request_timeout_ms, low=1))
        self._lose(self._due_ms)
