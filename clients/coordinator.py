"""The asyncio shell of a membership: performs its effects, keeps its one timer, runs the user's listener."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

from ottla.clients.assignors import Assignor
from ottla.clients.client import GROUP, Client
from ottla.clients.commits import GroupOffsets
from ottla.clients.consumer_member import ConsumerMember
from ottla.clients.errors import KafkaError, KafkaTimeout, TopicAuthorizationFailed
from ottla.clients.gate import UserGate
from ottla.clients.group_effects import (
    Complete,
    CoordinatorLost,
    Effect,
    Fail,
    FindCoordinator,
    Lead,
    LookUp,
    MemberState,
    Prepare,
    Send,
)
from ottla.clients.group_member import GroupMember
from ottla.clients.logs import log
from ottla.clients.membership import Membership
from ottla.clients.options import ConsumerOptions
from ottla.clients.rebalance import Handover
from ottla.clients.subscription import SubscriptionState
from ottla.clients.tasks import set_within
from ottla.clients.wire import api_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

CLOSE_PATIENCE_MS = 5_000
"""The longest time for which leaving the group may delay `stop`."""


class Coordinator:
    """A consumer's side of the group protocol.

    Args:
        client: that of a consumer that has a group_id.
        assignors: in order of preference, for the classic protocol.
        gate: tells whether the user is working on records.
        on_change: called when the assignment, or an error to raise, changed.
    """

    def __init__(
        self,
        client: Client[ConsumerOptions],
        subscription: SubscriptionState,
        assignors: Iterable[Assignor],
        gate: UserGate,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._options = client.options
        self._on_change = on_change
        self.member: Membership = (
            # 22 letters, as Kafka's clients make their member ids (KIP-1082)
            ConsumerMember(client.options, secrets.token_urlsafe(16))
            if client.options.by_broker
            else GroupMember(client.options, assignors)
        )
        self.offsets = GroupOffsets(client, self.member, self.wait_coordinator, self.wait_change, self.settle)
        self.handover = Handover(client, subscription, self.member, self.offsets, gate, on_change)
        self._timer: asyncio.TimerHandle | None = None
        self._step: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._error: KafkaError | None = None
        self._error_raised = False
        self._lookup_error: KafkaError | None = None
        client.on_metadata.append(self._metadata_changed)

    # what the consumer asks

    def start(self) -> None:
        if self._options.enable_auto_commit:
            self._client.tasks.spawn(self._commit_now_and_then(), "auto-commit")

    def subscription_changed(self) -> None:
        """Act on a new subscription, once an `unsubscribe` before it is done."""
        if self._leaving is not None or not self._subscription.auto_assigned:
            return
        self._error = None
        if self._subscription.pattern is not None and not self._client.all_topics:
            self._client.all_topics = True
            self._client.request_refresh()  # what the pattern matches is known only then
            return
        self._match_topics()
        self._watch_topics()
        self._subscribe()
        self.settle()

    def unsubscribe(self) -> asyncio.Task[None]:
        """Commit, tell the listener and leave, in the background."""
        release = self.handover.release(self._options.request_timeout_ms)
        self._leaving = self._client.tasks.spawn(self._leave(release), "leave the group")
        return self._leaving

    async def _leave(self, release: Callable[[], asyncio.Future[None]]) -> None:
        try:
            await self._wait_step()
            await release()
        finally:
            self._leaving = None
            self.member.owned = []
            self.member.unsubscribe(self._client.now_ms())
            self._error = None
            self.settle()
            self.subscription_changed()  # the user may have subscribed anew meanwhile

    def entered_poll(self) -> None:
        now = self._client.now_ms()
        if self._error is not None and self._error_raised:
            self._error, self._error_raised = None, False
            self.member.resume(now)
        self.member.entered_poll(now)
        if self.member.has_effects:
            self.settle()

    def left_poll(self) -> None:
        now = self._client.now_ms()
        self.member.left_poll(now)
        # A timer that fires too early does no harm, so it is not moved for every record.
        if self._timer is None or self._timer.when() * 1000 > now + self._options.max_poll_interval_ms:
            self.settle()

    def raise_error(self) -> None:
        """Raise an error that the user must know, once. The next call tries again.

        Raises:
            KafkaError: the group refuses this member, or the listener failed.
            FencedInstance: for good.
        """
        if self.member.fenced is not None:
            raise self.member.fenced
        if (failure := self.handover.take_failure()) is not None:
            raise failure
        if self._error is not None and not self._error_raised:
            self._error_raised = True
            raise self._error

    async def wait_assigned(self) -> None:
        """Wait until the group has decided what this consumer reads, even if that is nothing."""
        while self.handover.rounds == 0:
            self.raise_error()
            await self.wait_change(None)

    async def wait_coordinator(self, deadline_ms: float) -> int:
        """The coordinator's broker.

        Raises:
            KafkaTimeout: it was not found in time.
            KafkaError: the group cannot have one, e.g. as access is denied.
        """
        while (node_id := self.member.coordinator) is None:
            self.member.want_coordinator(self._client.now_ms())
            self.settle()
            error = self._lookup_error
            if error is not None and not error.retriable:
                raise error
            if self._client.now_ms() >= deadline_ms:
                raise KafkaTimeout(f"no coordinator for group {self.member.options.group!r}: {error or 'no answer'}")
            await self.wait_change(deadline_ms)
        return node_id

    async def wait_change(self, deadline_ms: float | None) -> None:
        """Wait until something about the membership changed, or a deadline."""
        self._changed.clear()
        left_ms = None if deadline_ms is None else max(0.0, deadline_ms - self._client.now_ms())
        await set_within(self._changed, None if left_ms is None else left_ms / 1000)

    async def close(self) -> None:
        """Commit finished records, tell the listener, and leave. Allows CLOSE_PATIENCE_MS beside the listener."""
        await self._wait_step()
        if self._leaving is not None:
            await asyncio.wait([self._leaving])
        if self._subscription.auto_assigned:
            release = self.handover.release(CLOSE_PATIENCE_MS)
            await release()
        elif self._options.enable_auto_commit:
            await self.handover.commit_finished(CLOSE_PATIENCE_MS)
        self.member.close("the consumer is being closed")
        for effect in self.member.take_effects():
            if isinstance(effect, Send) and self.member.coordinator is not None:
                try:
                    async with asyncio.timeout(CLOSE_PATIENCE_MS / 1000):
                        await self._ask(self.member.coordinator, effect)
                except (KafkaError, TimeoutError) as error:
                    log.info("%s: could not leave the group: %s", self._client.client_id, error)
        if self._timer is not None:
            self._timer.cancel()

    async def _wait_step(self) -> None:
        """Wait until the listener is not running."""
        if self._step is not None and self._step is not asyncio.current_task():
            await asyncio.wait([self._step])

    # effects

    def settle(self) -> None:
        """Perform the member's effects, and arm the timer for its next deadline."""
        if self._client.tasks.closed:
            return
        while effects := self.member.take_effects():
            for effect in effects:
                self._perform(effect)
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.member.next_deadline_ms()
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.member.advance(self._client.now_ms())
        self.settle()

    def _perform(self, effect: Effect) -> None:
        spawn = self._client.tasks.spawn
        match effect:
            case FindCoordinator():
                spawn(self._find(), "find the coordinator")
            case CoordinatorLost(node_id=node_id, reason=reason):
                log.info("%s: broker %d is not the coordinator any more: %s", self._client.client_id, node_id, reason)
                self._client.drop(node_id, GROUP)
            case Send():
                spawn(self._send(effect, self.member.coordinator), type(effect.request).__name__)
            case Prepare():
                self._step = spawn(self._prepare(), "prepare a rebalance")
            case Lead():
                assert isinstance(self.member, GroupMember)
                spawn(self._lead(self.member, effect), "divide the partitions")
            case LookUp():
                assert isinstance(self.member, ConsumerMember)
                spawn(self._look_up(self.member, effect), "look up topics")
            case Complete():
                self._step = spawn(self._complete(effect), "complete a rebalance")
            case Fail(error=error):
                log.error("%s: %s", self._client.client_id, error)
                self._error, self._error_raised = error, False
                self._on_change()

    async def _find(self) -> None:
        try:
            found = await self._client.find_coordinator(self.member.options.group, GROUP)
        except KafkaError as error:
            log.info("%s: %s", self._client.client_id, error)
            if error.code is ErrorCode.NETWORK_EXCEPTION:
                self._client.request_refresh()
            self._lookup_error = error
            self.member.coordinator_not_found(error, self._client.now_ms())
        else:
            self._lookup_error = None
            self.member.coordinator_found(found.node_id, self._client.now_ms())
        self.settle()

    async def _send(self, effect: Send, node_id: int | None) -> None:
        try:
            if node_id is None:
                raise KafkaError("the coordinator is not known", ErrorCode.COORDINATOR_NOT_AVAILABLE)
            answer = await self._ask(node_id, effect)
        except KafkaError as error:
            self.member.not_answered(effect.sent, error, self._client.now_ms())
        else:
            self.member.answered(effect.sent, answer, self._client.now_ms())
        self.settle()

    async def _ask(self, node_id: int, effect: Send) -> Message:
        if effect.fresh:
            self._client.drop(node_id, GROUP)
        answer = api_of(type(effect.request)).response
        return await self._client.send(
            node_id, effect.request, answer, role=GROUP, timeout_ms=effect.timeout_ms, low=effect.low
        )

    async def _prepare(self) -> None:
        try:
            await self.handover.prepare()
        finally:
            self._step = None
        self.member.prepared(self._client.now_ms())
        self.settle()

    async def _complete(self, effect: Complete) -> None:
        revoked = False
        try:
            if self._leaving is None and self._subscription.auto_assigned:
                revoked = await self.handover.complete(effect)
        finally:
            self._step = None
        self._watch_topics()
        self.member.completed(revoked, self._client.now_ms())
        self.settle()
        self._on_change()

    async def _lead(self, member: GroupMember, effect: Lead) -> None:
        cluster = self._client.cluster
        self._client.topics.update(effect.topics)
        try:
            if any(cluster.partition_count(topic) is None for topic in effect.topics):
                await self._client.refresh()
            counts = {topic: cluster.partition_count(topic) for topic in effect.topics}
            known = {topic: count for topic, count in counts.items() if count is not None}
            assignments = member.assignors[effect.protocol_name].assign(known, effect.members)
        except Exception as error:
            log.exception("%s: cannot divide the partitions", self._client.client_id)
            failure = error if isinstance(error, KafkaError) else KafkaError(f"the assignor failed: {error!r}")
            member.lead_failed(failure, self._client.now_ms())
        else:
            member.led(assignments, counts, self._client.now_ms())
        self.settle()

    async def _look_up(self, member: ConsumerMember, effect: LookUp) -> None:
        try:
            await self._client.ask_for_ids(effect.topic_ids)
        except KafkaError as error:
            log.info("%s: topics of the assignment are not known yet: %s", self._client.client_id, error)
        member.looked_up(self._client.cluster, self._client.now_ms())
        self.settle()

    # topics

    def _match_topics(self) -> None:
        if self._subscription.pattern is not None:
            self._subscription.topics = self._subscription.match(
                name
                for name, info in self._client.cluster.topics.items()
                if not (info.is_internal and self._options.exclude_internal_topics)
            )

    def _watch_topics(self) -> None:
        """Have metadata kept fresh for what is subscribed, and for what this member divides if it leads."""
        self._client.all_topics = self._subscription.pattern is not None
        if self._subscription.auto_assigned:
            self._client.topics = set(self._subscription.topics) | self.member.watched_topics

    def _metadata_changed(self) -> None:
        if self._leaving is not None or not self._subscription.auto_assigned:
            return
        self._match_topics()
        self._watch_topics()
        self._subscribe()
        self._tell_denied()
        self.member.metadata_changed(self._client.cluster, self._client.now_ms())
        self.settle()

    def _tell_denied(self) -> None:
        """Raise, at the next call, what the user may not read of what he subscribes to; the rest goes on."""
        errors = self._client.cluster.errors
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topics := sorted(topic for topic in self._subscription.topics if errors.get(topic) is denied):
            names = ", ".join(map(repr, topics))
            self._perform(Fail(TopicAuthorizationFailed(f"access to {names} is denied; ask for it", topics=topics)))

    def _subscribe(self) -> None:
        regex = self._subscription.regex
        self.member.subscribe(self._subscription.topics if regex is None else (), self._client.now_ms(), regex)

    # commits

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            if self.member.state is MemberState.STABLE or not self._subscription.auto_assigned:
                await self.handover.commit_finished(self._options.default_api_timeout_ms)
