"""Fetching: one request in flight to each broker, for the partitions that have nothing buffered.

A partition is fetched again only when what it brought was taken by the user, so memory is bounded by
max_partition_fetch_bytes for each partition. While the user works on records, the next ones are under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.clients.client import Client
from ottla.clients.errors import NOT_THE_LEADER, STALE_METADATA, KafkaError, OffsetOutOfRange, error_code, error_of
from ottla.clients.fetched import FetchedPartition
from ottla.clients.logs import log
from ottla.clients.options import ConsumerOptions
from ottla.clients.partitions import by_topic, label
from ottla.clients.structs import ConsumerRecord, Records
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import NodeEndpoint
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.protocol.records import TopicPartition

_STALE_METADATA = STALE_METADATA | {
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}
Asked = dict[TopicPartition, tuple[PartitionState, int, int]]
"""By partition: its state, its jumps and its position when it was asked for."""


@dataclass(eq=False)
class Fetcher:
    """Keeps a buffer filled for the partitions that are read.

    Args:
        on_news: called when there is something to take, or an error to raise.
        on_reset: called when a position must be looked up.
    """

    _client: Client[ConsumerOptions]
    _subscription: SubscriptionState
    _on_news: Callable[[], None]
    _on_reset: Callable[[], None]
    _buffer: dict[TopicPartition, FetchedPartition] = field(default_factory=dict)
    _errors: dict[TopicPartition, tuple[PartitionState, int, KafkaError]] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    _turn: int = 0
    _retry: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._options = self._client.options
        self._backoff = self._options.retry_backoff()

    def poke(self) -> None:
        """Start the fetches that are due and not under way."""
        if self._client.tasks.closed:
            return
        now = self._client.now_ms()
        by_node: dict[int, list[PartitionState]] = {}
        retry_at: list[float] = []
        for state in self._subscription.states():
            if not state.readable or state.tp in self._errors:
                continue
            fetched = self._buffer.get(state.tp)
            if fetched is not None and fetched.current:
                continue
            if state.not_before_ms > now:
                retry_at.append(state.not_before_ms)
            elif (node_id := self._source(state, now)) is None:
                self._client.request_refresh()
            elif node_id not in self._busy and self._epoch_checked(state):
                by_node.setdefault(node_id, []).append(state)
        for node_id, states in by_node.items():
            self._busy.add(node_id)
            states.sort(key=lambda state: state.turn)
            self._client.tasks.spawn(self._fetch(node_id, states), f"fetch from {node_id}")
        if retry_at and self._retry is None:
            pause = max(0.0, min(retry_at) - now) / 1000
            self._retry = asyncio.get_running_loop().call_later(pause, self._retry_now)

    def _source(self, state: PartitionState, now: float) -> int | None:
        """The broker to fetch from: the nearer replica that the leader named, if any, else the leader."""
        if state.preferred_replica is not None:
            node_id, until = state.preferred_replica
            if now < until and node_id in self._client.cluster.brokers:
                return node_id
            state.preferred_replica = None
        return self._client.cluster.leader(state.tp)

    def _epoch_checked(self, state: PartitionState) -> bool:
        """Tell whether the position was checked against the leader epoch that is known now (KIP-320)."""
        known = max(state.validated_epoch, state.position_epoch)
        if state.position_epoch < 0 or self._client.cluster.leader_epoch(state.tp) <= known:
            return True
        self._on_reset()
        return False

    def _retry_now(self) -> None:
        self._retry = None
        self.poke()

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._buffer.clear()

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        asked: Asked = {state.tp: (state, state.seeks, state.position or 0) for state in states}
        try:
            answer = await self._client.send(
                node_id,
                self._request(asked),
                FetchResponse,
                timeout_ms=self._options.request_timeout_ms + self._options.fetch_max_wait_ms,
            )
        except KafkaError as error:
            log.info("%s: fetch from broker %d failed: %s", self._client.client_id, node_id, error)
            for state in states:
                state.preferred_replica = None
            self._client.request_refresh()
            self._delay(states)
            if not error.retriable:
                self._refuse(states[0], error)
        else:
            if answer.error_code:
                self._delay(states)
            else:
                self._backoff.reset()
            self._take_in(answer, asked)
        finally:
            self._busy.discard(node_id)
        self.poke()

    def _request(self, asked: Asked) -> FetchRequest:
        topics = by_topic(
            asked,
            lambda tp: FetchPartition(
                partition=tp.partition,
                current_leader_epoch=self._client.cluster.leader_epoch(tp),
                fetch_offset=asked[tp][2],
                partition_max_bytes=self._options.max_partition_fetch_bytes,
            ),
        )
        return FetchRequest(
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=int(self._options.read_committed),
            topics=[FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
            rack_id=self._options.client_rack or "",
        )

    def _delay(self, states: list[PartitionState]) -> None:
        until = self._client.now_ms() + self._backoff.next_ms()
        for state in states:
            state.not_before_ms = until

    def _take_in(self, answer: FetchResponse, asked: Asked) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic, partition.partition_index)
                state, seeks, position = asked.get(tp, (None, 0, 0))
                # The consumer may have given the partition up, or jumped, while the request was under way.
                if state is None or self._subscription.get(tp) is not state:
                    continue
                if state.seeks != seeks or state.position != position:
                    continue
                if partition.error_code:
                    self._partition_failed(state, partition, answer.node_endpoints)
                else:
                    self._partition_fetched(state, partition)

    def _partition_fetched(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.preferred_read_replica >= 0:
            until = self._client.now_ms() + self._options.metadata_max_age_ms
            state.preferred_replica = (data.preferred_read_replica, until)
        if not data.records:
            return
        self._turn += 1
        state.turn = self._turn
        aborted = None
        if self._options.read_committed:
            aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        self._buffer[state.tp] = FetchedPartition(
            state,
            data.records,
            aborted=aborted,
            check_crcs=self._options.check_crcs,
            max_decompressed_bytes=self._options.max_decompressed_batch_bytes,
        )
        self._on_news()

    def _partition_failed(self, state: PartitionState, data: PartitionData, endpoints: Iterable[NodeEndpoint]) -> None:
        code = error_code(data.error_code)
        tp = state.tp
        nearer, state.preferred_replica = state.preferred_replica, None
        if nearer is not None:
            return  # whatever is wrong there, the leader knows better
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state)
        elif code in _STALE_METADATA:
            log.info("%s: %s-%d: %s", self._client.client_id, tp.topic, tp.partition, code.text)
            self._client.request_refresh()
            if not (code in NOT_THE_LEADER and self._client.cluster.lead(tp, data.current_leader, endpoints)):
                self._delay([state])
        elif code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.warning("%s: fetch %s-%d: %s", self._client.client_id, tp.topic, tp.partition, code.text)
            self._delay([state])
        else:
            self._refuse(state, error_of(data.error_code, f"fetch {label(tp)}", topic=tp.topic))

    def _out_of_range(self, state: PartitionState) -> None:
        policy = self._options.auto_offset_reset
        if policy == "none":
            self._refuse(state, OffsetOutOfRange({state.tp: state.position or 0}))
            return
        log.warning(
            "%s: offset %s of %s-%d is out of range; resetting to %s",
            self._client.client_id, state.position, state.tp.topic, state.tp.partition, policy,
        )  # fmt: skip
        state.request_reset(self._options.reset_to)
        self._on_reset()

    def _refuse(self, state: PartitionState, error: KafkaError) -> None:
        self._errors[state.tp] = (state, state.seeks, error)
        self._on_news()

    # what the user takes

    def take(self, limit: int, only: frozenset[TopicPartition] | None = None) -> Records:
        """Up to ``limit`` buffered records, the longest buffered first; moves the positions behind them.

        Does not wait, so that a call that is cancelled has taken everything or nothing.

        Raises:
            KafkaError: a partition cannot be read; raised once nothing before it is left to give.
        """
        records: Records = {}
        used: list[TopicPartition] = []
        left = limit
        try:
            for tp, fetched in self._buffer.items():
                if left <= 0:
                    break
                if only is not None and tp not in only:
                    continue
                state = fetched.state
                if self._subscription.get(tp) is not state or not fetched.current:
                    used.append(tp)
                elif state.readable:
                    taken = self._take_from(fetched, left, used)
                    if taken:
                        records[tp] = taken
                        left -= len(taken)
        except KafkaError:
            if not records:
                raise
        finally:
            for tp in used:
                del self._buffer[tp]
        if not records:
            self._raise_error(only)
        if used or not records:
            self.poke()
        return records

    def _take_from(
        self, fetched: FetchedPartition, limit: int, used: list[TopicPartition]
    ) -> list[ConsumerRecord[Any, Any]]:
        state = fetched.state
        try:
            taken, used_up = fetched.take(limit, self._options.key_deserializer, self._options.value_deserializer)
        except KafkaError:
            self._passed_over(fetched)  # what is unreadable may lie behind what is not for the user
            raise
        if used_up:
            used.append(state.tp)
            fetched.check_progress()
        if taken:
            self._subscription.gave(state, fetched.next_offset, fetched.epoch)
        else:
            self._passed_over(fetched)
        return taken

    def _passed_over(self, fetched: FetchedPartition) -> None:
        # Control records and the like need no work, unless the user still has records from before them.
        idle = not fetched.state.unfinished
        fetched.state.moved(fetched.next_offset, fetched.epoch)
        if idle:
            fetched.state.finished()

    def _raise_error(self, only: frozenset[TopicPartition] | None) -> None:
        for tp, (state, seeks, error) in list(self._errors.items()):
            if self._subscription.get(tp) is not state or state.seeks != seeks:
                del self._errors[tp]
            elif only is None or tp in only:
                del self._errors[tp]  # told once; the next fetch tells again if it is still so
                raise error

    def forget(self) -> None:
        """Drop what was buffered for partitions that are not assigned any more."""
        for tp, fetched in list(self._buffer.items()):
            if self._subscription.get(tp) is not fetched.state:
                del self._buffer[tp]
