"""The asyncio shell of an `Accumulator`: sends its batches to the partitions' leaders and hands back the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ottla.clients.accumulator import Accumulator, Batch
from ottla.clients.client import Client
from ottla.clients.errors import (
    NOT_THE_LEADER,
    STALE_METADATA,
    KafkaError,
    KafkaTimeout,
    UnsupportedByBroker,
    check,
    error_code,
    error_of,
)
from ottla.clients.logs import log
from ottla.clients.options import ProducerOptions
from ottla.clients.partitions import by_topic, label
from ottla.clients.structs import RecordMetadata
from ottla.clients.tasks import set_within
from ottla.clients.transactions import Step, Transaction, verdict
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import NodeEndpoint
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import TimestampType, TopicPartition

ZSTD_SINCE = 7
TRANSACTIONS_V2_SINCE = 12
"""The version of Produce from which the broker adds the partition to the transaction (KIP-890)."""


class Sender:
    """One loop that sends what is ready, and a task for each request in flight.

    ``on_freed`` is called when buffer memory was released.

    Args:
        transaction: whose batches these are, in a transactional producer.
    """

    def __init__(
        self, client: Client[ProducerOptions], accumulator: Accumulator, transaction: Transaction | None = None
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._options = client.options
        self._wake = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._watchers: list[tuple[set[Batch], asyncio.Future[None]]] = []
        self._turn = 0
        self._transaction = transaction
        self._returned = asyncio.Event()
        self.on_freed: Callable[[], None] = lambda: None
        client.on_metadata.append(self.wake)

    def start(self) -> None:
        self._client.tasks.spawn(self._run(), "producer sender")

    def wake(self) -> None:
        """Something changed: look again."""
        self._wake.set()

    async def flush(self) -> None:
        """Wait until everything appended so far is delivered or has failed."""
        batches = set(self._accumulator.unfinished())
        if not batches:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((batches, done))
        self._accumulator.flushing += 1
        self.wake()
        try:
            await done
        finally:
            self._accumulator.flushing -= 1

    async def drain(self, error: KafkaError) -> None:
        """Fail what is not in flight, and wait until nothing is."""
        while True:
            self._returned.clear()
            self.drop(error)
            if not self._accumulator.in_flight:
                return
            await self._returned.wait()

    def drop(self, error: KafkaError) -> None:
        """Fail what is not in flight."""
        for batch in self._accumulator.drop_waiting():
            self._tell(batch, error)

    def abandon(self, error: KafkaError) -> None:
        """Fail everything that is not delivered."""
        for batch in self._accumulator.abandon_all():
            self._fail(batch, error)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self._client.now_ms()
            for batch in self._accumulator.expire(now):
                seconds = self._options.delivery_timeout_ms / 1000
                what = f"{batch.builder.count} records for {label(batch.tp)}"
                self._fail(batch, KafkaTimeout(f"{what}: not delivered in {seconds} s"))
            if (
                self._transaction is None
                and self._accumulator.needs_producer_id
                and any(True for _ in self._accumulator.waiting_partitions())
            ):
                await self._get_producer_id()
                now = self._client.now_ms()
            next_ms = self._send_ready(now)
            expiry_ms = self._accumulator.next_expiry_ms()
            times = [time for time in (next_ms, expiry_ms) if time is not None]
            await set_within(self._wake, max(0.0, min(times) - now) / 1000 if times else None)

    def _send_ready(self, now: float) -> float | None:
        """Send the batches that are ready. Returns the time when the next one will be."""
        by_node: dict[int, list[TopicPartition]] = {}
        later: list[float] = []
        for tp in self._accumulator.waiting_partitions():
            ready_at = self._accumulator.ready_at_ms(tp)
            if ready_at is None:
                continue
            if ready_at > now:
                later.append(ready_at)
            elif (leader := self._client.cluster.leader(tp)) is None:
                self._client.request_refresh()
            else:
                by_node.setdefault(leader, []).append(tp)
        self._turn += 1
        for node_id, tps in by_node.items():
            # Begin with another partition each time, so that a full request does not starve the last ones.
            start = self._turn % len(tps)
            self._send_to(node_id, tps[start:] + tps[:start], now)
        return min(later, default=None)

    def _send_to(self, node_id: int, tps: Iterable[TopicPartition], now: float) -> None:
        while self._in_flight.get(node_id, 0) < self._options.max_in_flight_requests_per_connection:
            batches = self._accumulator.take(tps, self._options.max_request_size, now)
            if not batches:
                return
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            self._client.tasks.spawn(self._produce(node_id, batches), f"produce to {node_id}")

    async def _produce(self, node_id: int, batches: list[Batch]) -> None:
        acks = self._options.acks_on_wire
        low = ZSTD_SINCE if self._options.codec is Codec.ZSTD else 0
        high = 1 << 15
        if self._transaction is not None:
            low, high = (TRANSACTIONS_V2_SINCE, high) if self._transaction.v2 else (low, TRANSACTIONS_V2_SINCE - 1)
        try:
            request = self._request(batches, acks)
            answer = await self._client.send(node_id, request, ProduceResponse, low=low, high=high, answered=acks != 0)
        except KafkaError as error:
            self._client.request_refresh()
            for batch in batches:
                self._not_sent(batch, error)
        except Exception as error:
            log.exception("%s: cannot send a batch", self._client.client_id)
            for batch in batches:
                self._not_sent(batch, KafkaError(f"cannot send a batch: {error!r}", ErrorCode.INVALID_RECORD))
        else:
            self._answered(batches, answer)
        finally:
            self._in_flight[node_id] -= 1
            self._returned.set()
            self.wake()

    def _request(self, batches: list[Batch], acks: int) -> ProduceRequest:
        data = {batch.tp: batch.encode() for batch in batches}
        topics = by_topic(data, lambda tp: PartitionProduceData(index=tp.partition, records=data[tp]))
        return ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=parts) for topic, parts in topics.items()],
        )

    def _not_sent(self, batch: Batch, error: KafkaError) -> None:
        # Whatever broke, the broker may have the batch or not: that is what sequence numbers are for.
        abandoned = batch.abandoned
        if not self._accumulator.failed(batch, error.code, self._client.now_ms()) and not abandoned:
            self._fail(batch, error)

    def _answered(self, batches: list[Batch], answer: ProduceResponse | None) -> None:
        if answer is None:  # acks=0
            for batch in batches:
                self._succeed(batch, None)
            return
        outcomes = {
            TopicPartition(topic.name, partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }
        for batch in batches:
            outcome = outcomes.get(batch.tp)
            if outcome is None:
                self._not_sent(batch, KafkaError("no outcome in the broker's answer", ErrorCode.NETWORK_EXCEPTION))
            elif outcome.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(batch, outcome)
            else:
                self._refused(batch, outcome, answer.node_endpoints)

    def _refused(self, batch: Batch, outcome: PartitionProduceResponse, endpoints: Iterable[NodeEndpoint]) -> None:
        code = error_code(outcome.error_code)
        now = self._client.now_ms()
        subject = f"produce {batch.builder.count} records to {label(batch.tp)}"
        details = [outcome.error_message, *(record.batch_index_error_message for record in outcome.record_errors)]
        error = error_of(outcome.error_code, subject, "; ".join(filter(None, details)), batch.tp.topic)
        if code in STALE_METADATA or code is ErrorCode.NETWORK_EXCEPTION:
            self._client.request_refresh()
        knows_better = code in NOT_THE_LEADER and self._client.cluster.lead(batch.tp, outcome.current_leader, endpoints)
        if code is ErrorCode.MESSAGE_TOO_LARGE and self._accumulator.split(batch, now):
            self._watch_parts(batch)
            return
        abandoned = batch.abandoned
        if self._accumulator.failed(batch, code, now, at_once=knows_better):
            log.info("%s: %s; trying again", self._client.client_id, error)
        elif not abandoned:
            self._fail(batch, error)

    def _watch_parts(self, batch: Batch) -> None:
        """Make flushes wait for the halves of a batch in its place."""
        parts = {part for part in self._accumulator.unfinished() if part.waiters[0] in batch.waiters}
        for watched, _ in self._watchers:
            if batch in watched:
                watched.remove(batch)
                watched |= parts

    def _succeed(self, batch: Batch, outcome: PartitionProduceResponse | None) -> None:
        abandoned = batch.abandoned
        self._accumulator.succeeded(batch)
        if abandoned:
            return
        base_offset = -1 if outcome is None else outcome.base_offset
        append_time = -1 if outcome is None else outcome.log_append_time_ms
        kind = TimestampType.CREATE_TIME if append_time < 0 else TimestampType.LOG_APPEND_TIME
        topic, partition = batch.tp
        for index, (future, timestamp) in enumerate(zip(batch.waiters, batch.timestamps, strict=True)):
            if not future.done():
                offset = -1 if base_offset < 0 else base_offset + index
                when = timestamp if append_time < 0 else append_time
                future.set_result(RecordMetadata(topic, partition, offset, when, kind))
        self._finished(batch)

    def _fail(self, batch: Batch, error: KafkaError) -> None:
        if self._transaction is not None and self._transaction.may_commit:
            error = self._transaction.failed(error, verdict(Step.PRODUCE, error.code))
            self.drop(error)
        self._tell(batch, error)

    def _tell(self, batch: Batch, error: KafkaError) -> None:
        for future in batch.waiters:
            if not future.done():
                future.set_exception(error)
                if self._transaction is not None:
                    future.exception()  # nobody need await it: the transaction's end tells
        self._finished(batch)

    def _finished(self, batch: Batch) -> None:
        self.on_freed()
        for watcher in list(self._watchers):
            watched, done = watcher
            watched.discard(batch)
            if not watched:
                self._watchers.remove(watcher)
                if not done.done():
                    done.set_result(None)

    def _denied(self, code: int) -> str | None:
        """What to ask for where a producer id is denied: whoever may write to any topic is given one (KIP-679)."""
        if code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return None
        topics = sorted({tp.topic for tp in self._accumulator.waiting_partitions()})
        return f"this client may write to no topic: ask for WRITE on {', '.join(map(repr, topics))}"

    async def _get_producer_id(self) -> None:
        """Ask any broker for a producer id. Fails what waits if it is refused for good."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        backoff = self._options.retry_backoff()
        while self._accumulator.needs_producer_id:
            try:
                answer = await self._client.send(self._client.some_nodes()[0], request, InitProducerIdResponse)
                check(answer.error_code, "get a producer id", self._denied(answer.error_code))
            except KafkaError as failure:
                error = failure
            else:
                self._accumulator.set_producer_id(answer.producer_id, answer.producer_epoch)
                return
            if isinstance(error, UnsupportedByBroker) and self._options.enable_idempotence is None:
                log.warning("%s: the broker gives no producer ids: retries may repeat records", self._client.client_id)
                self._accumulator.idempotent = False
                return
            if not error.retriable:
                self.abandon(error)
                return
            log.warning("%s: no producer id yet: %s", self._client.client_id, error)
            self._client.request_refresh()
            await asyncio.sleep(backoff.next_ms() / 1000)
            for batch in self._accumulator.expire(self._client.now_ms()):
                self._fail(batch, KafkaTimeout(f"not delivered in time: {error}"))
