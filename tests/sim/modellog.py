"""The log of one partition of ``__consumer_offsets``, with what can go wrong with it.

Appends become durable in order, some time later, several at once; each may fail. When its broker dies or loses the
partition, what was not durable is lost or not, as a prefix: nobody was told, so both are right.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

APPEND_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class ModelLog:
    """See the module. ``records`` is what a coordinator that takes over reads."""

    def __init__(self, world: World, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.records: list[CoordinatorRecord] = []
        self._rng = world.rng(f"log {partition}")
        self._slowness = self._rng.choice((0.1, 0.3, 0.8))
        self._failure_odds = self._rng.choice((0.05, 0.2, 0.5))
        self._queue: deque[tuple[list[CoordinatorRecord], object, Node]] = deque()
        self._era = 0
        self._busy = False

    def append(self, records: list[CoordinatorRecord], token: object, node: Node) -> None:
        self._queue.append((records, token, node))
        self._work()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def _work(self) -> None:
        if not self._busy and self._queue:
            self._busy = True
            delay = self._rng.choice((0, 1, 2, 5))
            if self.world.fault("slow appends") and self._rng.random() < self._slowness:
                delay = self._rng.choice((50, 500, 3_000, 12_000))
            self.world.after(delay, self._complete, self._era)

    def _complete(self, era: int) -> None:
        if era != self._era:
            return
        self._busy = False
        for _ in range(self._rng.randint(1, len(self._queue))):
            records, token, node = self._queue.popleft()
            error = ErrorCode.NONE
            if self.world.fault("failed appends") and self._rng.random() < self._failure_odds:
                error = self._rng.choice(APPEND_ERRORS)
            else:
                self.records.extend(records)
            self.world.note(f"log {self.partition}: {len(records)} records {error.name}")
            node.appended(token, error)
            if era != self._era:
                return  # the outcome ended the node's ownership
        self._work()

    def cut(self) -> None:
        """Its broker is gone: decide what of the queue is in the log."""
        kept = self._rng.randint(0, len(self._queue))
        for records, _, _ in list(self._queue)[:kept]:
            self.records.extend(records)
            self.world.watch.log.survived(self.partition, records)
        self.world.note(f"log {self.partition}: {kept} of {len(self._queue)} unacknowledged batches survive")
        self._queue.clear()
        self._era += 1
        self._busy = False

    def compact(self) -> None:
        """Keep the last record of each key in a prefix of the log; tombstones there may go, too."""
        upto = self._rng.randint(0, len(self.records))
        last = {record.key: position for position, record in enumerate(self.records[:upto])}
        drops_tombstones = self._rng.random() < 0.5
        head = [
            record
            for position, record in enumerate(self.records[:upto])
            if last[record.key] == position and (record.value is not None or not drops_tombstones)
        ]
        self.world.note(f"log {self.partition}: compacted {upto} records to {len(head)}")
        self.records[:upto] = head
