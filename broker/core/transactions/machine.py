"""The state of the transaction coordinator: the transactional ids, their deadlines, and what they hold in memory.

The modules around this one are functions that take the machine first. Each is about one subject and keeps no state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ottla.broker.core.coordination.machine import CoordinatorMachine, TimerKey
from ottla.broker.core.coordination.shard import Shard, ShardState, Write, append_error
from ottla.broker.core.effects import WriteMarker
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.core.transactions.records import record
from ottla.broker.core.transactions.state import ONGOING, TransactionState
from ottla.broker.core.transactions.transaction import Entry, Snapshot, Waiter
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT
from ottla.protocol.records import TopicPartition

LONG_ID = 1_000
"""An id of more characters is looked for in every shard: that costs less than the hash that tells which."""
RETRY_BACKOFF_MS = 100
"""The wait before a marker or a completion that failed is tried again; doubled for each further failure."""
RETRY_BACKOFF_MAX_MS = 10_000

Note = Callable[..., None]
"""Takes something that operators may want to read of, in Kafka's words where Kafka logs it, and fields."""


def no_note(event: str, **fields: Any) -> None:
    """The observer that observes nothing."""


class Timer(enum.StrEnum):
    """The subject of a deadline."""

    TIMEOUTS = "transactions open for too long"
    EXPIRY = "ids unused for too long"
    RETRY = "a marker or completion that failed"
    WAIT = "a request that waits for what is under way"


class TransactionShard(Shard):
    """The ids of one partition of ``__transaction_state``; markers carry its ``epoch`` as the coordinator's."""

    __slots__ = ("entries",)

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.clear()

    def clear(self) -> None:
        self.entries: dict[str, Entry] = {}


class StateWrite(Write["Machine"]):
    """The next snapshot of one id; ``then`` hears the outcome after memory has followed."""

    __slots__ = ("entry", "snapshot", "then")

    def __init__(self, entry: Entry, snapshot: Snapshot, then: Callable[[ErrorCode], None]) -> None:
        super().__init__(entry.shard)
        self.entry = entry
        self.snapshot = snapshot
        self.then = then

    def done(self, m: Machine, error: ErrorCode) -> None:
        self.entry.pending = None
        if error is ErrorCode.NONE:
            m.follow(self.entry, self.snapshot)
        self.then(append_error(error))
        m.release(self.entry)

    def given_up(self, m: Machine) -> None:
        self.then(ErrorCode.NOT_COORDINATOR)


class Marker:
    """The token of a `WriteMarker`: one attempt for one partition."""

    __slots__ = ("entry", "tp")

    def __init__(self, entry: Entry, tp: TopicPartition) -> None:
        self.entry = entry
        self.tp = tp


class Machine(CoordinatorMachine[TransactionShard]):
    """See the module."""

    tombstone_batch_bytes = 65_536
    """Characters of expired ids that go into one append."""

    def __init__(
        self,
        settings: Settings,
        take_producer_id: Callable[[], int | None],
        partition_count: int = DEFAULT_PARTITION_COUNT,
        note: Note = no_note,
    ) -> None:
        super().__init__(map(TransactionShard, range(partition_count)))
        self.settings = settings
        self.take_producer_id = take_producer_id
        self.note = note
        self.ongoing: dict[Entry, None] = {}
        """Ids with an open transaction, oldest first."""
        self.unwritten: set[TopicPartition] = set()
        """Partitions whose last marker failed, which was told."""
        self.held_bytes = 0
        """Bytes that the ids of all partitions that are served take, roughly."""
        self.started_ms = 0

    def lay_out(self, partition_count: int) -> None:
        """Go by the topic as it is, which may have come to be with another number of partitions."""
        if partition_count != self.partition_count:
            assert all(shard.state is ShardState.ABSENT for shard in self.shards)
            self.shards = [TransactionShard(partition) for partition in range(partition_count)]
            self.partition_count = partition_count

    # Transactional ids

    def find(self, transactional_id: str) -> Entry | ErrorCode:
        """The entry of an id, or why it cannot be had; INVALID_PRODUCER_ID_MAPPING if there is none."""
        if len(transactional_id) > LONG_ID and len({shard.refusal for shard in self.shards}) == 1:
            entries = (shard.entries.get(transactional_id) for shard in self.shards)
            return self.shards[0].refusal or next(filter(None, entries), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        shard = self.shard_of(transactional_id)
        if shard.refusal:
            return shard.refusal
        return shard.entries.get(transactional_id) or ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def has_room(self, more_bytes: int) -> bool:
        """Whether ids and their transactions may take so much more."""
        return self.held_bytes + more_bytes <= self.settings.ottla_transactional_ids_max_bytes

    def follow(self, entry: Entry, snapshot: Snapshot) -> None:
        """A record is durable: memory says what it says."""
        self.held_bytes += snapshot.held_bytes - entry.current.held_bytes
        entry.current = snapshot
        if snapshot.state is not ONGOING:
            self.ongoing.pop(entry, None)
        elif entry not in self.ongoing:
            self.ongoing[entry] = None
            self.arm_timeouts()

    # Waiting

    def wait(self, entry: Entry, waiter: Waiter) -> None:
        """Let a request wait until nothing is under way for an id."""
        entry.waiters.append(waiter)
        key = TimerKey(Timer.WAIT, entry.transactional_id)
        if key not in self.deadlines:
            self.deadlines.set(key, waiter.deadline_ms)

    def release(self, entry: Entry) -> None:
        """Something was under way and is over: whoever waited for it goes on, unless the next thing is under way."""
        while entry.waiters and entry.pending is None:
            entry.waiters.pop(0).again()
        if not entry.waiters:
            self.deadlines.cancel(TimerKey(Timer.WAIT, entry.transactional_id))

    def end_waits(self, entry: Entry) -> None:
        """Tell those that it takes too long."""
        late = [waiter for waiter in entry.waiters if waiter.deadline_ms <= self.now_ms]
        entry.waiters = [waiter for waiter in entry.waiters if waiter.deadline_ms > self.now_ms]
        if entry.waiters:
            first_ms = min(waiter.deadline_ms for waiter in entry.waiters)
            self.deadlines.set(TimerKey(Timer.WAIT, entry.transactional_id), first_ms)
        for waiter in late:
            waiter.late()

    # Effects

    def move(self, entry: Entry, snapshot: Snapshot, then: Callable[[ErrorCode], None]) -> None:
        """Log the next snapshot of an id; until its outcome is known, the id is pending."""
        assert entry.pending is None, "a transition is under way"
        entry.pending = snapshot.state
        self.append(
            StateWrite(entry, snapshot, then),
            [record(entry.transactional_id, snapshot)],
        )

    def write_marker(self, entry: Entry, tp: TopicPartition) -> None:
        """Ask for the marker of a decided transaction in one partition."""
        tx = entry.current
        token = entry.markers[tp] = Marker(entry, tp)
        marker = TransactionMarker(
            producer_id=tx.producer_id,
            producer_epoch=tx.producer_epoch,
            coordinator_epoch=entry.shard.epoch,
            commit=tx.state is TransactionState.PREPARE_COMMIT,
            transaction_version=tx.client_version,
        )
        self.effects.append(WriteMarker(tp, marker, token))

    # Timers

    def next_tick(self, interval_ms: int) -> int:
        """The next whole number of intervals since the start, in the future."""
        return self.started_ms + ((self.now_ms - self.started_ms) // interval_ms + 1) * interval_ms

    def arm_timeouts(self) -> None:
        """See to it that open transactions are looked after."""
        key = TimerKey(Timer.TIMEOUTS)
        if self.ongoing and key not in self.deadlines:
            interval_ms = self.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self.deadlines.set(key, self.next_tick(interval_ms))

    def arm_expiry(self, shard: TransactionShard) -> None:
        """See to it that the unused ids of a partition are looked for."""
        interval_ms = self.settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self.deadlines.set(TimerKey(Timer.EXPIRY, shard.partition), self.next_tick(interval_ms))

    def arm_retry(self, entry: Entry) -> None:
        """Try again after a while that grows with each failure in a row."""
        after_ms = min(RETRY_BACKOFF_MS << min(entry.failures, 20), RETRY_BACKOFF_MAX_MS)
        entry.failures += 1
        self.deadlines.set(TimerKey(Timer.RETRY, entry.transactional_id), self.now_ms + after_ms)
