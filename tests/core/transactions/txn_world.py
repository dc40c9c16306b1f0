"""A transaction coordinator with its log, partitions and time in the hands of a test."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.broker.core.effects import WriteMarker
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.records import record
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.records import TopicPartition
from tests.core.durable import durable_transactions
from tests.core.world import CoordinatorWorld, Ctx
from tests.support.requests import Producer, add_partitions_fields, init_producer_fields, of_transaction


@dataclass
class World(CoordinatorWorld):
    """Markers are held back as appends are."""

    config: Settings = field(default_factory=Settings)
    tombstone_batch_bytes: int = Machine.tombstone_batch_bytes
    partition_count: int = 3
    markers: deque[WriteMarker] = field(default_factory=deque)
    asked_markers: list[WriteMarker] = field(default_factory=list)
    """Those that were asked for since somebody looked."""
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    next_id: int = 100
    ids_left: int = 1_000_000
    coordinator: TransactionCoordinator = field(init=False)

    leader_epoch = 5

    def new_coordinator(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(self.config, self.take_id, self.partition_count, self.note)
        coordinator.tombstone_batch_bytes = self.tombstone_batch_bytes
        coordinator.start(self.now_ms)
        return coordinator

    def new_replica(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.config, lambda: None, self.partition_count)

    def durable_differences(self, replica: TransactionCoordinator) -> object:
        state = durable_transactions(self.coordinator)
        mine = {name: replace(tx, last_producer_epoch=-1) for name, tx in state.items()}
        return mine.items() ^ durable_transactions(replica).items()

    def check_log(self) -> None:
        super().check_log()
        served = [shard for shard in self.coordinator.shards if not shard.refusal]
        assert self.coordinator.held_bytes == sum(e.held_bytes for shard in served for e in shard.entries.values())

    def restart(self) -> None:
        self.markers.clear()
        super().restart()

    def take_id(self) -> int | None:
        if not self.ids_left:
            return None
        self.ids_left -= 1
        self.next_id += 1
        return self.next_id

    def note(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def deliver(self, ctx: Ctx, answer: Any) -> None:
        if isinstance(answer, Mapping):  # of a `Question`, which no client asks
            assert ctx.answer is None, "answered twice"
            ctx.answer = answer
            self.answered.append(ctx)
        else:
            super().deliver(ctx, answer)

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, WriteMarker):
            self.markers.append(effect)
            self.asked_markers.append(effect)
        else:
            super().carry_out(effect)

    def finish_one(self) -> bool:
        if super().finish_one():
            return True
        if self.markers:
            self.mark(self.markers[0].tp)
            return True
        return False

    def mark(self, tp: TopicPartition, error: ErrorCode = ErrorCode.NONE) -> WriteMarker:
        """The marker of a partition is written, or fails."""
        marker = next(each for each in self.markers if each.tp == tp)
        self.markers.remove(marker)
        self.marked(marker, error)
        return marker

    def marked(self, marker: WriteMarker, error: ErrorCode = ErrorCode.NONE) -> None:
        self.coordinator.marker_written(marker.token, error, self.now_ms, self.wall_ms)

    def snapshot(self, name: str) -> Snapshot:
        return durable_transactions(self.coordinator)[name]

    def rewrite(self, name: str, **changes: Any) -> None:
        """Let the log say of an id what would take long to reach."""
        changed = record(name, replace(self.snapshot(name), **changes))
        self.log.append((coordinator_partition(name, self.partition_count), changed))
        self.restart()

    # Requests

    def init(self, name: str, **options: Any) -> Any:
        """The answer to InitProducerId."""
        fields = init_producer_fields(name, **options)
        return self.send(name, ApiKey.INIT_PRODUCER_ID, 5, fields).answer

    def add(self, name: str, who: Producer, places: Iterable[tuple[str, int]]) -> list[int]:
        """The codes that AddPartitionsToTxn answers."""
        fields = add_partitions_fields(of_transaction(name, who), places)
        answer = self.send(name, ApiKey.ADD_PARTITIONS_TO_TXN, 3, fields).answer
        return [row.partition_error_code for topic in answer.results_by_topic_v3_and_below
                for row in topic.results_by_partition]  # fmt: skip
