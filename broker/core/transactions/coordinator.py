"""The transaction coordinator: the entries that the broker calls.

`ottla.broker.core.coordination.machine` says what every coordinator has in common. Of the times, ``now_ms`` is for
deadlines and ``wall_ms`` for what is written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker
from ottla.broker.core.transactions import initialising, listing, requests, sweeps
from ottla.broker.core.transactions.machine import Machine, Marker, Timer, TransactionShard
from ottla.broker.core.transactions.markers import begin_markers, marker_written, retry
from ottla.broker.core.transactions.records import snapshot
from ottla.broker.core.transactions.state import ONGOING, PREPARED
from ottla.broker.core.transactions.transaction import Entry
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import decode_transaction_key

NOTHING_REFUSED: requests.Refused = {}


class TransactionCoordinator(Machine):
    """Transactional ids and their transactions.

    Args:
        take_producer_id: gives a producer id that was never given before, or None if there is none at hand yet; the
            request that needed it is answered COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
        partition_count: of ``__transaction_state``; fixed for the life of the topic.
        note: observer of what operators may want to read. Must not call back.
    """

    turn_deadlines = 100
    sweeps = frozenset({Timer.EXPIRY})

    def start(self, now_ms: int) -> None:
        """Set the moment from which the intervals of the sweeps count."""
        self.begin(now_ms)
        self.started_ms = now_ms

    # Requests

    def init_producer_id(
        self, request: InitProducerIdRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> InitProducerIdResponse | None:
        """InitProducerId with a transactional id, which is not empty. None if parked."""
        self.begin(now_ms, wall_ms)
        return initialising.init_producer_id(self, request, ctx)

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
        self.begin(now_ms, wall_ms)
        return requests.add_partitions(self, request, ctx, refused)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, ctx: Asker, now_ms: int, wall_ms: int, offsets_partition: TopicPartition
    ) -> AddOffsetsToTxnResponse | None:
        """AddOffsetsToTxn, with the partition of ``__consumer_offsets`` that the group is in. None if parked."""
        self.begin(now_ms, wall_ms)
        return requests.add_offsets(self, request, ctx, offsets_partition)

    def end(self, request: EndTxnRequest, ctx: Asker, now_ms: int, wall_ms: int) -> EndTxnResponse | None:
        """EndTxn. None if parked."""
        self.begin(now_ms, wall_ms)
        return requests.end_txn(self, request, ctx)

    def verify(self, question: requests.Question, ctx: Asker, now_ms: int, wall_ms: int) -> requests.Results | None:
        """Whether partitions take part in the producer's transaction, or let them. None if parked.

        The codes are those that AddPartitionsToTxn answers: TRANSACTION_ABORTABLE for one that takes no part.
        """
        self.begin(now_ms, wall_ms)
        return requests.verify_or_add(self, question, ctx)

    def describe(
        self, request: DescribeTransactionsRequest, ctx: Asker, now_ms: int, wall_ms: int
    ) -> DescribeTransactionsResponse:
        """DescribeTransactions."""
        self.begin(now_ms, wall_ms)
        asked = request.transactional_ids
        rows = {transactional_id: listing.describe(self, transactional_id) for transactional_id in dict.fromkeys(asked)}
        return DescribeTransactionsResponse(transaction_states=[rows[each] for each in asked])

    def list(self, request: ListTransactionsRequest, ctx: Asker, now_ms: int, wall_ms: int) -> ListTransactionsResponse:
        """ListTransactions, without a look at its pattern."""
        self.begin(now_ms, wall_ms)
        return listing.list_transactions(self, request)

    # Outcomes

    def marker_written(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The marker of a `WriteMarker` is durable (``NONE``), or failed."""
        assert isinstance(token, Marker)
        self.begin(now_ms, wall_ms)
        marker_written(self, token, error)

    def leaders_changed(self, now_ms: int, wall_ms: int) -> None:
        """Partitions may have other leaders, or leaders again: markers that found no way are tried at once."""
        self.begin(now_ms, wall_ms)
        for shard in self.shards:
            for entry in shard.entries.values():
                key = TimerKey(Timer.RETRY, entry.transactional_id)
                if entry.complete is not None and key in self.deadlines:
                    entry.failures = 0
                    self.deadlines.set(key, now_ms)

    # What the machine leaves to its coordinator

    def put_off_sweeps(self, until_ms: int, now_ms: int, wall_ms: int) -> None:
        super().put_off_sweeps(until_ms, now_ms, wall_ms)
        sweeps.put_off_timeouts(self, until_ms, now_ms, wall_ms)

    def _sweeping(self) -> Iterator[TimerKey]:
        return (TimerKey(Timer.EXPIRY, partition) for partition in range(self.partition_count))

    def _fire(self, key: TimerKey) -> None:
        m = self
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

    def _apply(self, shard: TransactionShard, record: CoordinatorRecord, producer_id: int) -> None:
        transactional_id = decode_transaction_key(record.key)
        if transactional_id is None:
            return
        if self.shard_of(transactional_id) is not shard:
            text = f"transactional id {transactional_id!r} does not belong into partition {shard.partition}"
            raise MalformedFrame(text)
        if record.value is None:
            shard.entries.pop(transactional_id, None)
        else:
            shard.entries[transactional_id] = Entry(transactional_id, shard, snapshot(record.value))

    def _activate(self, shard: TransactionShard) -> Iterable[None]:
        """Finish what was decided."""
        for entry in shard.entries.values():
            self.held_bytes += entry.held_bytes
            if entry.current.state is ONGOING:
                self.ongoing[entry] = None
            elif entry.current.state in PREPARED:
                begin_markers(self, entry)
        self.arm_timeouts()
        self.arm_expiry(shard)
        return ()

    def _give_up(self, shard: TransactionShard) -> None:
        self.deadlines.cancel(TimerKey(Timer.EXPIRY, shard.partition))
        waiters = []
        for entry in shard.entries.values():
            self.held_bytes -= entry.held_bytes
            entry.markers.clear()
            self.ongoing.pop(entry, None)
            self.deadlines.cancel(TimerKey(Timer.RETRY, entry.transactional_id))
            self.deadlines.cancel(TimerKey(Timer.WAIT, entry.transactional_id))
            waiters += entry.waiters
        for waiter in waiters:
            waiter.again()  # and finds that the partition is gone
