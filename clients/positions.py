"""Positions: looked up from committed offsets or the reset policy, and checked after an election.

A position that was reached under an older leader may lie behind the end of the new leader's log, when the old one had
records that were not replicated. Before reading on, the new leader is asked where the position's epoch ends (KIP-320).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.clients.client import Client
from ottla.clients.commits import GroupOffsets
from ottla.clients.errors import KafkaError, NoOffsetForPartition, UnsupportedByBroker, error_code, error_of
from ottla.clients.logs import log
from ottla.clients.offsets import OffsetLookup
from ottla.clients.options import ConsumerOptions
from ottla.clients.partitions import by_topic, label
from ottla.clients.structs import OffsetAndMetadata, OffsetAndTimestamp
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.records import TopicPartition


@dataclass(eq=False)
class Positions:
    """Looks positions up in the background, for all partitions that need it together.

    Args:
        group: has the committed offsets; None without a group.
        on_found: called when positions were found.
        on_error: called with an error that the user must know.
    """

    _client: Client[ConsumerOptions]
    _subscription: SubscriptionState
    _group: GroupOffsets | None
    _on_found: Callable[[], None]
    _on_error: Callable[[KafkaError], None]
    _task: asyncio.Task[None] | None = None
    _again: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def poke(self) -> None:
        """Look up the positions that are missing, in the background."""
        if self._client.tasks.closed:
            return
        self._again = True
        if self._task is None and self._pending():
            self._task = self._client.tasks.spawn(self._run(), "position lookup")
            self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._again and not task.cancelled() and task.exception() is None:
            self.poke()

    def raise_if_without(self) -> None:
        """Raise if a partition cannot be read.

        Raises:
            NoOffsetForPartition: partitions have no committed offset, and there is no policy to reset them by.
        """
        without = [state.tp for state in self._subscription.states() if state.without_offset]
        if without:
            raise NoOffsetForPartition(without)

    def _pending(self) -> bool:
        return bool(self._missing() or self._resets() or self._unchecked())

    def _missing(self) -> list[PartitionState]:
        return [
            state
            for state in self._subscription.states()
            if state.position is None and state.reset is None and not state.without_offset
        ]

    def _resets(self) -> list[PartitionState]:
        return [state for state in self._subscription.states() if state.reset is not None]

    def _unchecked(self) -> list[PartitionState]:
        cluster = self._client.cluster
        return [
            state
            for state in self._subscription.states()
            if state.position is not None
            and state.position_epoch >= 0
            and cluster.leader_epoch(state.tp) > max(state.validated_epoch, state.position_epoch)
        ]

    async def _run(self) -> None:
        backoff = self._client.options.retry_backoff()
        while self._pending():
            self._again = False
            failures = await self._round()
            for error in failures:
                log.info("%s: positions not found yet: %s", self._client.client_id, error)
                if not error.retriable:
                    self._on_error(error)
            if failures:
                await asyncio.sleep(backoff.next_ms() / 1000)
            else:
                backoff.reset()
            self._tell()

    async def _round(self) -> list[KafkaError]:
        """Look for everything that is missing, once. What fails does not keep the rest from being found."""
        failures: list[KafkaError] = []
        try:
            await self._look_up_committed(self._missing())
        except KafkaError as error:
            failures.append(error)
        for outcome in await asyncio.gather(
            self._reset(self._resets()), self._check_epochs(self._unchecked()), return_exceptions=True
        ):
            if isinstance(outcome, KafkaError):
                failures.append(outcome)
            elif outcome is not None:
                raise outcome
        return failures

    def _tell(self) -> None:
        self.changed.set()
        self._on_found()

    async def _look_up_committed(self, states: list[PartitionState]) -> None:
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        jumps = {state.tp: state.seeks for state in states}
        if states and self._group is not None:
            found = await self._group.committed(
                [state.tp for state in states], self._client.options.default_api_timeout_ms
            )
        policy = self._client.options.auto_offset_reset
        for state in states:
            if state.seeks != jumps[state.tp]:
                continue  # the user was faster
            committed = found.get(state.tp)
            if committed is not None:
                state.seek(committed.offset, committed.leader_epoch)
                state.committed = committed.offset
            elif policy == "none":
                state.without_offset = True
            else:
                state.request_reset(self._client.options.reset_to)

    async def _reset(self, states: list[PartitionState]) -> None:
        wanted = {state.tp: state.reset for state in states if state.reset is not None}
        if not wanted:
            return
        by_tp = {state.tp: (state, state.seeks) for state in states}

        def found(tp: TopicPartition, where: OffsetAndTimestamp) -> None:
            state, seeks = by_tp[tp]
            if state.seeks == seeks and state.reset is not None:
                state.seek(where.offset, where.leader_epoch)
                state.validated_epoch = self._client.cluster.leader_epoch(tp)
                self._tell()

        lookup = OffsetLookup(self._client, wanted, read_committed=self._client.options.read_committed, on_found=found)
        await lookup.find_leaders()
        if (failure := await lookup.round(self._client.options.request_timeout_ms)) is not None:
            self._client.request_refresh()
            raise failure

    async def _check_epochs(self, states: list[PartitionState]) -> None:
        by_tp = {state.tp: state for state in states}
        groups = self._client.cluster.by_leader(by_tp)
        if groups.pop(None, None):
            self._client.request_refresh()
        asked = (
            self._check_with(node_id, {tp: by_tp[tp] for tp in tps})
            for node_id, tps in groups.items()
            if node_id is not None
        )
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        if failures := [outcome for outcome in outcomes if outcome is not None]:
            raise next((one for one in failures if not isinstance(one, KafkaError)), failures[0])
        if states and not groups:
            raise KafkaError("partitions without a leader", ErrorCode.LEADER_NOT_AVAILABLE)

    async def _check_with(self, node_id: int, by_tp: dict[TopicPartition, PartitionState]) -> None:
        epochs = {tp: self._client.cluster.leader_epoch(tp) for tp in by_tp}
        wanted = by_topic(
            by_tp,
            lambda tp: OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=epochs[tp], leader_epoch=by_tp[tp].position_epoch
            ),
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[OffsetForLeaderTopic(topic=name, partitions=parts) for name, parts in wanted.items()],
        )
        asked = {tp: (state.seeks, state.position_epoch) for tp, state in by_tp.items()}
        try:
            answer = await self._client.send(node_id, request, OffsetForLeaderEpochResponse)
        except UnsupportedByBroker:
            for tp, state in by_tp.items():
                state.validated_epoch = epochs[tp]
            return
        failure: KafkaError | None = None
        for topic in answer.topics:
            for end in topic.partitions:
                tp = TopicPartition(topic.topic, end.partition)
                checked = by_tp.get(tp)
                # It may have jumped, or moved into a later epoch with what was being fetched: then this says nothing.
                if checked is None or (checked.seeks, checked.position_epoch) != asked[tp]:
                    continue
                if end.error_code:
                    self._client.request_refresh()
                    if error_code(end.error_code).retriable:
                        failure = error_of(end.error_code, f"check the position in {label(tp)}", topic=tp.topic)
                        continue
                    # The fetch will tell what is wrong.
                else:
                    self._truncate(checked, end.end_offset, end.leader_epoch)
                checked.validated_epoch = epochs[tp]
        if failure is not None:
            raise failure

    def _truncate(self, state: PartitionState, end_offset: int, epoch: int) -> None:
        if state.position is None or not 0 <= end_offset < state.position:
            return
        tp = state.tp
        log.warning(
            "%s: %s-%d was truncated: position %d lies behind the end of its epoch, %d",
            self._client.client_id, tp.topic, tp.partition, state.position, end_offset,
        )  # fmt: skip
        if self._client.options.auto_offset_reset == "none":
            state.without_offset = True
            state.position = None
        else:
            state.seek(end_offset, epoch)
