"""Partitions change hands in a rebalance: finished work is committed, the listener told, the assignment changed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ottla.clients.assignors import RebalanceProtocol
from ottla.clients.client import Client
from ottla.clients.commits import GroupOffsets
from ottla.clients.errors import CommitFailed, KafkaError
from ottla.clients.gate import UserGate
from ottla.clients.group_effects import Complete
from ottla.clients.listener import ConsumerRebalanceListener
from ottla.clients.logs import log
from ottla.clients.membership import Membership
from ottla.clients.options import ConsumerOptions
from ottla.clients.structs import OffsetAndMetadata
from ottla.clients.subscription import SubscriptionState
from ottla.protocol.records import TopicPartition


@dataclass(eq=False)
class Handover:
    """Gives partitions up and takes them over.

    Attributes:
        listener: the user's.
        rounds: the number of assignments taken over since the last subscription.
        on_committed: called with offsets that were committed.
    """

    _client: Client[ConsumerOptions]
    _subscription: SubscriptionState
    _member: Membership
    _offsets: GroupOffsets
    _gate: UserGate
    _on_change: Callable[[], None]
    _failure: Exception | None = None
    listener: ConsumerRebalanceListener | None = None
    rounds: int = 0
    on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None] = field(default=lambda offsets: None)

    def take_failure(self) -> Exception | None:
        """The exception that the listener raised, once."""
        failure, self._failure = self._failure, None
        return failure

    async def prepare(self) -> None:
        """Before joining: an eager member gives up everything, a cooperative one what it no longer subscribes to.

        A member that has lost its generation has lost everything.
        """
        subscription = self._subscription
        if subscription.assigned():
            await self._gate.wait()
            giving_up = self._to_give_up()
            subscription.mark_revoking(giving_up)
            if not self._member.lost:
                await self._commit_before_rebalance()
            giving_up = self._to_give_up()  # the commit may have told that the generation is lost
            await self._give_up(giving_up)
        self._member.owned = subscription.assigned()

    def _to_give_up(self) -> list[TopicPartition]:
        held = self._subscription.assigned()
        if self._member.lost or self._member.rebalance_protocol is RebalanceProtocol.EAGER:
            return held
        return [tp for tp in held if tp.topic not in self._subscription.topics]

    async def complete(self, effect: Complete) -> bool:
        """After joining: take over the assignment. True if something had to be given up for it."""
        subscription, member = self._subscription, self._member
        held, given = set(subscription.assigned()), list(dict.fromkeys(effect.partitions))
        taken_away = sorted(held - set(given))
        if taken_away:
            await self._gate.wait()
            subscription.mark_revoking(taken_away)
            if not member.lost:
                await self._commit_before_rebalance()
            await self._give_up(taken_away)
        member.owned = subscription.assigned()
        taken = member.take(effect)
        if taken is None:
            return bool(taken_away)
        given = list(dict.fromkeys(taken))
        subscription.set_assignment(given, settling=True)
        member.owned = subscription.assigned()
        if self.listener is not None:
            await self._tell(self.listener.on_partitions_assigned, set(given) - held)
        subscription.settle()
        self.rounds += 1
        return bool(taken_away)

    def release(self, timeout_ms: float) -> Callable[[], asyncio.Future[None]]:
        """Give up everything at once. Await the returned function's result to commit, for at most ``timeout_ms``, and
        to tell the listener."""
        offsets = self._finished()
        held = self._subscription.release()
        listener = self.listener
        self.rounds = 0
        self._gate.look_again()

        async def finish() -> None:
            if self._client.options.enable_auto_commit and not self._member.lost:
                await self._commit(offsets, timeout_ms)
            if held and listener is not None:
                await self._tell_gone(listener, set(held))
            self._subscription.released.clear()

        return lambda: asyncio.ensure_future(finish())

    async def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        if gone and self.listener is not None:
            await self._tell_gone(self.listener, gone)
        self._subscription.set_assignment(tp for tp in self._subscription.assigned() if tp not in gone)
        self._on_change()

    async def _tell_gone(self, listener: ConsumerRebalanceListener, gone: set[TopicPartition]) -> None:
        await self._tell(listener.on_partitions_lost if self._member.lost else listener.on_partitions_revoked, gone)

    async def _tell(self, method: Callable[..., object], partitions: set[TopicPartition]) -> None:
        try:
            outcome = method(partitions)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            log.exception("%s: the rebalance listener failed", self._client.client_id)
            self._failure = error  # raised out of the user's next call; the rebalance goes on

    # commits

    def _finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            tp: OffsetAndMetadata(offset, "", epoch) for tp, (offset, epoch) in self._subscription.to_commit().items()
        }

    async def _commit_before_rebalance(self) -> None:
        if self._client.options.enable_auto_commit:
            # Others wait for this member meanwhile, but not longer than the rebalance timeout.
            patience = min(self._client.options.request_timeout_ms, self._client.options.join_timeout_ms / 2)
            await self._commit(self._finished(), patience)

    async def commit_finished(self, timeout_ms: float) -> None:
        """Commit finished records. A failure is only logged, as the next commit makes up for it."""
        await self._commit(self._finished(), timeout_ms)

    async def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: float) -> None:
        try:
            await self._offsets.commit(offsets, timeout_ms, wait=False)
        except CommitFailed as error:
            log.info("%s: auto-commit: %s", self._client.client_id, error)
        except KafkaError as error:
            log.warning("%s: auto-commit failed: %s", self._client.client_id, error)
        else:
            self.committed(offsets)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take note of committed offsets: the records before them are finished."""
        for tp, offset in offsets.items():
            state = self._subscription.get(tp)
            if state is not None:
                state.committed = offset.offset
                if state.position is not None and offset.offset >= state.position:
                    state.finished()
        self._gate.look_again()
        if offsets:
            self.on_committed(offsets)
