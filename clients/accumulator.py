"""Records on their way out: batches by partition, their order, their sequence numbers, their retries. Pure.

```
append ──► queue (open batch last) ── take ──► in flight ── done ──► finished
                  ▲                               │
                  └────────── put back ◄──────────┘  a retriable error: back to its place in the order
```

**Order and idempotence (KIP-98).** A batch gets its sequence number when it is first taken and keeps it over retries,
so the broker drops what it has already. While a batch that was tried before heads the queue, nothing else of the
partition is in flight: it goes out alone, and what follows waits for it. That keeps the order with several in flight.

**A gap (KIP-360).** When a batch with a sequence number fails for good, or the broker has lost track of the producer,
the numbers that follow would be refused. Then the partition waits until nothing is in flight, moves to the next
producer epoch and begins at sequence 0. Brokers keep producers by partition, so other partitions are not touched.

**Transactions.** The epoch of a transactional producer is its coordinator's: a gap ends the transaction instead, and
the next one begins with what `set_producer_id` is then given. Batches go out only where ``may_send`` allows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.clients.backoff import Backoff
from ottla.clients.given import Headers
from ottla.clients.options import ProducerOptions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import BatchBuilder, TopicPartition, decode_batch, record_size_bound

HALF_OF_THE_NUMBERS = 1 << 30
"""Sequence numbers go round: what is farther ahead than this lies behind."""
MAX_EPOCH = 0x7FFF
NO_SEQUENCE = -1
CONCURRENT_PAUSE_MS = 20
"""The wait for the end of the transaction before: it takes moments, as a rule."""


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one partition that travel together. ``waiters`` are the owner's, one for each record."""

    tp: TopicPartition
    builder: BatchBuilder
    created_ms: float
    deadline_ms: float
    backoff: Backoff
    retry_at_ms: float = 0.0
    reserved: int = 0
    waiters: list[Any] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    order: tuple[int, ...] = ()
    sequence: int = NO_SEQUENCE
    producer_id: int = -1
    producer_epoch: int = -1
    abandoned: bool = False

    @property
    def tried(self) -> bool:
        """It was in flight before, so its place in the order is fixed."""
        return bool(self.order)

    def encode(self) -> bytes:
        return self.builder.build(
            producer_id=self.producer_id, producer_epoch=self.producer_epoch, base_sequence=self.sequence
        )


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one partition, waiting and in flight, and its place in the producer's numbering."""

    queue: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    producer_id: int = -1
    producer_epoch: int = -1
    next_sequence: int = 0
    last_acked_sequence: int = NO_SEQUENCE
    bump_wanted: bool = False
    taken: int = 0

    def put_back(self, batch: Batch) -> None:
        """Put a tried batch back to its place: before all that come later and all that were never tried."""
        earlier = 0
        while earlier < len(self.queue) and self.queue[earlier].tried and self.queue[earlier].order < batch.order:
            earlier += 1
        self.queue.insert(earlier, batch)

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """Begin anew at sequence 0; nothing may be in flight."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.bump_wanted = False
        for batch in self.queue:
            batch.sequence = NO_SEQUENCE


class Accumulator:
    """All partitions' queues.

    Args:
        options: sizes, times and codec. If they make the producer idempotent, batches get sequence numbers; then
            `set_producer_id` must be called before anything can be taken.
        new_backoff: makes the waits between tries of a batch; by default those of the options.

    Attributes:
        batch_size: bytes at which a batch is full.
        linger_ms: the wait of one that is not full.
        may_send: tells whether batches of a partition may be taken now.
    """

    def __init__(self, options: ProducerOptions, new_backoff: Callable[[], Backoff] | None = None) -> None:
        self.batch_size = options.max_batch_size
        self.linger_ms = options.linger_ms
        self.delivery_timeout_ms = options.delivery_timeout_ms
        self.codec = options.codec
        self.idempotent = options.idempotent
        self.transactional = options.transactional_id is not None
        self.may_send: Callable[[TopicPartition], bool] = lambda tp: True
        self._one_at_a_time = options.max_in_flight_requests_per_connection == 1
        self.used_bytes = 0
        self.flushing = 0
        self.producer_id = -1
        self.producer_epoch = -1
        self._new_backoff = new_backoff or options.retry_backoff
        self._partitions: dict[TopicPartition, PartitionQueue] = {}
        self._ratio = 1.0

    # what comes in

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        waiter: Any,
        now_ms: float,
    ) -> bool:
        """Add a record to the partition's open batch, or to a new one. True for a new one: the sender must look."""
        size = record_size_bound(key, value, headers)
        partition = self._partitions.get(tp)
        if partition is None:
            partition = self._partitions[tp] = PartitionQueue()
        batch = partition.queue[-1] if partition.queue else None
        news = batch is None or batch.tried or batch.builder.estimated_size + size > self.batch_size
        if batch is None or news:
            batch = Batch(tp, self._builder(), now_ms, now_ms + self.delivery_timeout_ms, self._new_backoff())
            partition.queue.append(batch)
        batch.builder.append(key, value, timestamp_ms, headers)
        batch.timestamps.append(timestamp_ms)
        batch.waiters.append(waiter)
        batch.reserved += size
        self.used_bytes += size
        return news

    def _builder(self) -> BatchBuilder:
        # The last batch's ratio is the best guess for the next; a little more, since too large is worse than too small.
        return BatchBuilder(
            codec=self.codec,
            is_transactional=self.transactional,
            compression_ratio=min(1.0, self._ratio * 1.05),
        )

    def set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """The identity that InitProducerId gave; partitions without one take it over when they next send.

        A transactional producer's partitions all take it over now, if it is another; nothing may be in flight then.
        """
        changed = (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch)
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        if self.transactional and changed:
            for partition in self._partitions.values():
                partition.restart(producer_id, producer_epoch)

    @property
    def needs_producer_id(self) -> bool:
        return self.idempotent and self.producer_id < 0

    # what goes out

    def waiting_partitions(self) -> Iterator[TopicPartition]:
        """The partitions with batches that are not in flight."""
        return (tp for tp, partition in self._partitions.items() if partition.queue)

    def ready_at_ms(self, tp: TopicPartition) -> float | None:
        """When the partition's next batch may go out; None if there is none, or it waits for one in flight."""
        partition = self._partitions[tp]
        if not partition.queue or self.needs_producer_id or not self.may_send(tp):
            return None
        head = partition.queue[0]
        if partition.in_flight and (
            self._one_at_a_time or head.tried or partition.bump_wanted or self._first(partition)
        ):
            return None  # what is in flight may be so to another node, which led the partition before
        if head.tried:
            return head.retry_at_ms
        full = len(partition.queue) > 1 or head.builder.estimated_size >= self.batch_size
        return head.created_ms if full or self.flushing else head.created_ms + self.linger_ms

    def _first(self, partition: PartitionQueue) -> bool:
        """Tell whether the broker has no batch of the producer's epoch yet.

        It may refuse the first batch, as the topic is new or the transaction before is not ended everywhere; and one
        that knows nothing of the producer would take the second in its place, and the first never again.
        """
        return self.idempotent and partition.last_acked_sequence == NO_SEQUENCE

    def take(self, tps: Iterable[TopicPartition], max_bytes: int, now_ms: float) -> list[Batch]:
        """Put the ready batches of some partitions in flight, one of each, as long as they fit into a request."""
        taken: list[Batch] = []
        size = 0
        for tp in tps:
            ready_at = self.ready_at_ms(tp)
            if ready_at is None or ready_at > now_ms:
                continue
            partition = self._partitions[tp]
            head = partition.queue[0]
            size += head.builder.estimated_size
            if taken and size > max_bytes:
                break
            if self.idempotent and not self._number(partition, head):
                continue
            if not head.tried:
                partition.taken += 1
                head.order = (partition.taken,)
            partition.queue.popleft()
            partition.in_flight.append(head)
            taken.append(head)
        return taken

    def _number(self, partition: PartitionQueue, batch: Batch) -> bool:
        """Give a batch its sequence number unless it has one. False if a new producer id must be fetched first."""
        if partition.bump_wanted:
            if self.transactional:
                return False
            if partition.producer_epoch >= MAX_EPOCH:
                if partition.producer_id == self.producer_id:
                    self.producer_id = -1  # used up; the next id begins at epoch 0 again
                    return False
                partition.restart(self.producer_id, self.producer_epoch)
            else:
                partition.restart(partition.producer_id, partition.producer_epoch + 1)
        elif partition.producer_id < 0:
            partition.restart(self.producer_id, self.producer_epoch)
        if batch.sequence == NO_SEQUENCE:
            batch.sequence = partition.next_sequence
            batch.producer_id, batch.producer_epoch = partition.producer_id, partition.producer_epoch
            partition.next_sequence = (batch.sequence + batch.builder.count) & 0x7FFFFFFF
        return True

    # what comes back

    def succeeded(self, batch: Batch) -> None:
        """The broker has stored the batch."""
        partition = self._partitions[batch.tp]
        partition.in_flight.remove(batch)
        if batch.sequence != NO_SEQUENCE and not partition.bump_wanted:
            partition.last_acked_sequence = (batch.sequence + batch.builder.count - 1) & 0x7FFFFFFF
        self._ratio = batch.builder.achieved_ratio
        self._release(batch)

    def failed(self, batch: Batch, code: ErrorCode, now_ms: float, *, at_once: bool = False) -> bool:
        """The try failed. True: the batch is queued again. False: it failed for good; the owner tells its waiters.

        Args:
            at_once: there is nothing to wait for, as another leader is known.
        """
        partition = self._partitions[batch.tp]
        partition.in_flight.remove(batch)
        numbered = batch.sequence != NO_SEQUENCE
        retriable = code.retriable
        if numbered and code is ErrorCode.UNKNOWN_PRODUCER_ID:
            partition.bump_wanted = True
            retriable = not self.transactional
        elif numbered and code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # One that follows another that failed is simply retried after it. One that should have been next, or was
            # overtaken, tells of a gap that no retry closes.
            retriable = True
            expected = 0 if partition.last_acked_sequence < 0 else (partition.last_acked_sequence + 1) & 0x7FFFFFFF
            if batch.sequence == expected or (batch.sequence - expected) & 0x7FFFFFFF > HALF_OF_THE_NUMBERS:
                partition.bump_wanted = True
                retriable = not self.transactional
        if batch.abandoned or not retriable or now_ms >= batch.deadline_ms:
            partition.bump_wanted = partition.bump_wanted or numbered
            self._release(batch)
            return False
        pause = batch.backoff.next_ms()
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            pause = min(pause, CONCURRENT_PAUSE_MS)
        batch.retry_at_ms = now_ms if at_once else now_ms + pause
        partition.put_back(batch)
        return True

    def split(self, batch: Batch, now_ms: float) -> bool:
        """Queue a batch that the broker finds too large as two halves. False if it is one record, or out of time."""
        if batch.builder.count < 2 or batch.abandoned or now_ms >= batch.deadline_ms:
            return False
        partition = self._partitions[batch.tp]
        partition.in_flight.remove(batch)
        # The numbers given to it are lost, as if it had failed; in a transaction, where that would be the end of it,
        # the halves take them over.
        numbered = batch.sequence != NO_SEQUENCE
        partition.bump_wanted = partition.bump_wanted or (numbered and not self.transactional)
        records = decode_batch(batch.encode(), verify_crc=False)
        middle = len(records) // 2
        self.used_bytes -= batch.reserved
        for half, (low, high) in enumerate(((0, middle), (middle, len(records)))):
            part = Batch(batch.tp, self._builder(), batch.created_ms, batch.deadline_ms, self._new_backoff())
            for record in records[low:high]:
                part.builder.append(record.key, record.value, record.timestamp_ms, record.headers)
                part.reserved += record_size_bound(record.key, record.value, record.headers)
            part.waiters = batch.waiters[low:high]
            part.timestamps = batch.timestamps[low:high]
            part.order = (*batch.order, half)
            if numbered and self.transactional:
                part.sequence = (batch.sequence + low) & 0x7FFFFFFF
                part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            self.used_bytes += part.reserved
            partition.put_back(part)
        return True

    def expire(self, now_ms: float) -> list[Batch]:
        """The batches whose time is over; the owner tells their waiters.

        One that is in flight stays there until its answer comes, so that its outcome is known to the numbering.
        """
        expired: list[Batch] = []
        for partition in self._partitions.values():
            while partition.queue and partition.queue[0].deadline_ms <= now_ms:
                expired.append(self._give_up_first(partition))
            for batch in partition.in_flight:
                if not batch.abandoned and batch.deadline_ms <= now_ms:
                    batch.abandoned = True
                    self._release(batch)
                    expired.append(batch)
        return expired

    def drop_waiting(self) -> list[Batch]:
        """Give up what is not in flight; the owner tells the waiters."""
        dropped: list[Batch] = []
        for partition in self._partitions.values():
            while partition.queue:
                dropped.append(self._give_up_first(partition))
        return dropped

    @property
    def in_flight(self) -> bool:
        """Some batch's outcome is not known yet."""
        return any(partition.in_flight for partition in self._partitions.values())

    @property
    def lost_numbers(self) -> bool:
        """Some partition can go on only with another producer epoch."""
        return any(partition.bump_wanted for partition in self._partitions.values())

    def abandon_all(self) -> list[Batch]:
        """Give up everything; the owner tells the waiters."""
        batches = self.unfinished()
        self._partitions.clear()
        self.used_bytes = 0
        return batches

    def next_expiry_ms(self) -> float | None:
        """When `expire` will next find something, unless it is finished before."""
        return min(
            (
                batch.deadline_ms
                for partition in self._partitions.values()
                for batch in (*list(partition.queue)[:1], *partition.in_flight)
                if not batch.abandoned
            ),
            default=None,
        )

    def unfinished(self) -> list[Batch]:
        """All batches whose waiters were not told yet."""
        return [
            batch
            for partition in self._partitions.values()
            for batch in (*partition.queue, *partition.in_flight)
            if not batch.abandoned
        ]

    def _give_up_first(self, partition: PartitionQueue) -> Batch:
        batch = partition.queue.popleft()
        partition.bump_wanted = partition.bump_wanted or batch.sequence != NO_SEQUENCE
        self._release(batch)
        return batch

    def _release(self, batch: Batch) -> None:
        self.used_bytes -= batch.reserved
        batch.reserved = 0
