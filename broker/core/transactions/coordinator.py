"""The transaction coordinator: the entries that the broker calls.

Every entry is synchronous and takes the time: ``now_ms`` for deadlines, ``wall_ms`` for what is written down. It
returns the answer, or None if the request was parked: its answer then comes as a `Reply` among the effects of some
later entry. After each entry the caller takes the effects (`take_effects`), carries them out in order, and asks when
to call `advance` next (`next_deadline_ms`). Nothing is said that is not durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from ottla.broker.core.effects import Asker
from ottla.broker.core.transactions import initialising, listing, requests, sweeps
from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.core.transactions.effects import Effect
from ottla.broker.core.transactions.machine import Machine, Marker, Note, ShardState, Timer, TimerKey, Write, no_note
from ottla.broker.core.transactions.markers import begin_markers, marker_written, retry
from ottla.broker.core.transactions.records import snapshot
from ottla.broker.core.transactions.state import ONGOING, PREPARED
from ottla.broker.core.transactions.transaction import Entry, Snapshot
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT, coordinator_partition
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH, decode_transaction_key

NOTHING_REFUSED: requests.Refused = {}

TURN_DEADLINES = 100
"""How many deadlines one call of `advance` handles at most; a sweep over a partition ends it, too."""


class TransactionCoordinator:
    """Transactional ids and their transactions.

    Args:
        take_producer_id: gives a producer id that was never given before, or None if there is none at hand yet; the
            request that needed it is answered COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
        partition_count: of ``__transaction_state``; fixed for the life of the topic.
        note: observer of what operators may want to read. Must not call back.

    It owns no partition until `load_started`, `replay` and `loaded` were called for it; requests hear NOT_COORDINATOR.
    """

    def __init__(
        self,
        config: TransactionConfig,
        take_producer_id: Callable[[], int | None],
        partition_count: int = DEFAULT_PARTITION_COUNT,
        note: Note = no_note,
    ) -> None:
        self._m = Machine(config, take_producer_id, partition_count, note)

    def take_effects(self) -> list[Effect]:
        """Take the effects of the entries since the last call, in order."""
        m = self._m
        effects = m.effects
        if effects:
            m.effects = []
        return effects

    # Requests

    def init_producer_id(
        self, request: InitProducerIdRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> InitProducerIdResponse | None:
        """InitProducerId with a transactional id, which is not empty. None if parked."""
        self._m.begin(now_ms, wall_ms)
        return initialising.init_producer_id(self._m, request, ctx)

    def add_partitions(
        self,
        request: AddPartitionsToTxnRequest,
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        refused: requests.Refused = NOTHING_REFUSED,
    ) -> AddPartitionsToTxnResponse | None:
        """AddPartitionsToTxn. None if parked.

        Args:
            refused: partitions that cannot take part, and why; a transaction that names one gets none of its others.
        """
        self._m.begin(now_ms, wall_ms)
        return requests.add_partitions(self._m, request, ctx, refused)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, ctx: Asker, now_ms: int, wall_ms: int, offsets_partition: TopicPartition
    ) -> AddOffsetsToTxnResponse | None:
        """AddOffsetsToTxn, with the partition of ``__consumer_offsets`` that the group is in. None if parked."""
        self._m.begin(now_ms, wall_ms)
        return requests.add_offsets(self._m, request, ctx, offsets_partition)

    def end(self, request: EndTxnRequest, ctx: Asker, now_ms: int, wall_ms: int) -> EndTxnResponse | None:
        """EndTxn. None if parked."""
        self._m.begin(now_ms, wall_ms)
        return requests.end_txn(self._m, request, ctx)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        ctx: Asker,
        now_ms: int,
        wall_ms: int,
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode] | None:
        """Whether partitions take part in the producer's transaction, or let them (``adds``). None if parked."""
        self._m.begin(now_ms, wall_ms)
        who = transactional_id, producer_id, producer_epoch
        return requests.verify_or_add(self._m, *who, list(partitions), ctx, adds=adds)

    def describe(self, request: DescribeTransactionsRequest, now_ms: int) -> DescribeTransactionsResponse:
        """DescribeTransactions."""
        self._m.begin(now_ms)
        asked = request.transactional_ids
        rows = {
            transactional_id: listing.describe(self._m, transactional_id) for transactional_id in dict.fromkeys(asked)
        }
        return DescribeTransactionsResponse(transaction_states=[rows[each] for each in asked])

    def list(self, request: ListTransactionsRequest, now_ms: int, wall_ms: int) -> ListTransactionsResponse:
        """ListTransactions, without a look at its pattern."""
        self._m.begin(now_ms, wall_ms)
        return listing.list_transactions(self._m, request)

    # Outcomes

    def appended(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The records of an `Append` are durable (``NONE``), or failed. Tokens of a shard given up are ignored."""
        assert isinstance(token, Write)
        if token not in token.shard.in_flight:
            return
        self._m.begin(now_ms, wall_ms)
        del token.shard.in_flight[token]
        token.done(self._m, error)

    def marker_written(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The marker of a `WriteMarker` is durable (``NONE``), or failed."""
        assert isinstance(token, Marker)
        self._m.begin(now_ms, wall_ms)
        marker_written(self._m, token, error)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `advance` wants to be called. It may turn out that nothing was due."""
        return self._m.deadlines.next()

    def advance(self, now_ms: int, wall_ms: int) -> None:
        """Handle the deadlines that have passed, as many as one turn of the loop should take."""
        m = self._m
        m.begin(now_ms, wall_ms)
        left = TURN_DEADLINES
        with closing(m.deadlines.expired(now_ms)) as expired:
            for key in expired:
                left -= 1
                self._fire(key)
                if not left or key.timer is Timer.EXPIRY:
                    return

    def _fire(self, key: TimerKey) -> None:
        m = self._m
        if key.timer is Timer.TIMEOUTS:
            sweeps.abort_timed_out(m)
        elif key.timer is Timer.EXPIRY:
            shard = m.shards[int(key.subject)]
            sweeps.remove_expired(m, shard)
            m.arm_expiry(shard)
        else:
            entry = m.find(str(key.subject))
            assert isinstance(entry, Entry)
            if key.timer is Timer.RETRY:
                retry(m, entry)
            else:
                m.end_waits(entry)

    # Ownership

    def start(self, now_ms: int) -> None:
        """Set the moment from which the intervals of the sweeps count."""
        self._m.begin(now_ms)
        self._m.started_ms = now_ms

    def load_started(self, partition: int) -> None:
        """This broker takes a partition over; its ids answer COORDINATOR_LOAD_IN_PROGRESS until `loaded`."""
        shard = self._m.shards[partition]
        assert shard.state is ShardState.ABSENT
        shard.become(ShardState.LOADING)

    def replay(self, partition: int, record: CoordinatorRecord) -> None:
        """Apply a record of the log of a partition that is being loaded.

        Raises:
            MalformedFrame: it cannot be read. To serve without it could end a transaction in two ways.
        """
        shard = self._m.shards[partition]
        transactional_id = decode_transaction_key(record.key)
        if transactional_id is None:
            return
        if coordinator_partition(transactional_id, self._m.partition_count) != partition:
            raise MalformedFrame(f"transactional id {transactional_id!r} does not belong into partition {partition}")
        if record.value is None:
            shard.entries.pop(transactional_id, None)
        else:
            shard.entries[transactional_id] = Entry(transactional_id, shard, snapshot(record.value))

    def loaded(self, partition: int, epoch: int, now_ms: int, wall_ms: int) -> None:
        """All records were replayed: serve the partition, and finish what was decided.

        Args:
            epoch: the leader epoch of the partition.
        """
        m = self._m
        m.begin(now_ms, wall_ms)
        shard = m.shards[partition]
        shard.epoch = epoch
        shard.become(ShardState.ACTIVE)
        for entry in shard.entries.values():
            m.held_bytes += entry.held_bytes
            if entry.current.state is ONGOING:
                m.ongoing[entry] = None
            elif entry.current.state in PREPARED:
                begin_markers(m, entry)
        m.arm_timeouts()
        m.arm_expiry(shard)

    def unload(self, partition: int, now_ms: int, wall_ms: int) -> None:
        """Give a partition up; everything that waits hears NOT_COORDINATOR."""
        m = self._m
        m.begin(now_ms, wall_ms)
        shard = m.shards[partition]
        if shard.state is ShardState.ACTIVE:
            m.held_bytes -= sum(entry.held_bytes for entry in shard.entries.values())
        shard.become(ShardState.ABSENT)
        writes, shard.in_flight = list(shard.in_flight), {}
        for entry in shard.entries.values():
            entry.markers.clear()
            m.ongoing.pop(entry, None)
            m.deadlines.cancel(TimerKey(Timer.RETRY, entry.transactional_id))
            m.deadlines.cancel(TimerKey(Timer.WAIT, entry.transactional_id))
        waiters = [waiter for entry in shard.entries.values() for waiter in entry.waiters]
        m.deadlines.cancel(TimerKey(Timer.EXPIRY, partition))
        shard.entries = {}
        for write in writes:
            write.given_up(m)
        for waiter in waiters:
            waiter.again()  # and finds that the partition is gone

    def durable_state(self) -> dict[str, Snapshot]:
        """What a coordinator that replays the log must arrive at, but for ``last_producer_epoch``."""
        return {
            entry.transactional_id: entry.current
            for shard in self._m.shards
            for entry in shard.entries.values()
            if entry.current.producer_epoch != NO_PRODUCER_EPOCH
        }
