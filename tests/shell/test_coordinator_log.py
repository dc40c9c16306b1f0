"""Writes of the coordinator share batches: in their order, with their outcomes, never too large together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.core.effects import Append
from ottla.broker.engine import StorageFull, Unavailable
from ottla.broker.runtime.coordinator_log import FULL_BYTES, CoordinatorLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import decode_batch, parse_header


class World:
    """Partitions with logs that keep what they are given, and a loop that is turned by hand."""

    def __init__(self, max_batch_bytes: int = 1 << 20, *, defers: bool = True) -> None:
        self.soon: list[Any] = []
        self.batches: dict[int, list[bytes]] = {}
        self.transactional: list[tuple[int, bytes]] = []
        self.waiting: list[Any] = []
        self.outcomes: list[tuple[object, ErrorCode]] = []
        self.reports: list[str] = []
        self.refuses: Exception | None = None
        self.log = CoordinatorLog(
            "__consumer_offsets",
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            partition=lambda tp: Partition(self, tp.partition),  # type: ignore[arg-type, return-value]
            max_batch_bytes=max_batch_bytes,
            defer=self.soon.append if defers else None,
            over=lambda log, tokens, error: self.outcomes.extend((token, error) for token in tokens),
            report=self,
        )

    def wall_ms(self) -> int:
        return 1234

    monotonic_ms = wall_ms

    def error(self, event: str, **fields: Any) -> None:
        self.reports.append(event)

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def add(self, partition: int, token: object, *values: bytes, producer_id: int = -1) -> None:
        records = [CoordinatorRecord(b"key of %d" % partition, value) for value in values]
        self.log.append(Append(partition, records, token, producer_id, 0 if producer_id >= 0 else -1))

    def values(self, partition: int) -> list[list[bytes]]:
        return [[record.value or b"" for record in decode_batch(batch)] for batch in self.batches.get(partition, [])]


class Partition:
    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.log = self

    def append(self, batch: bytes, *, count: int, max_timestamp_ms: int, done: Any) -> int:
        if self.world.refuses is not None:
            raise self.world.refuses
        header = parse_header(batch)
        assert (count, max_timestamp_ms) == (header.record_count, header.max_timestamp)
        self.world.batches.setdefault(self.index, []).append(bytes(batch))
        self.world.waiting.append(lambda error=None: done(0, error))
        return 0

    def append_offsets(self, batch: bytes, wall_ms: int, settled: Any, verified: object) -> None:
        self.world.transactional.append((len(self.world.batches.get(self.index, [])), bytes(batch)))
        self.world.waiting.append(lambda error=ErrorCode.NONE: settled(0, error))


def test_writes_of_one_turn_share_a_batch_by_partition() -> None:
    world = World()
    world.add(1, "a", b"1", b"2")
    world.add(2, "b", b"3")
    world.add(1, "c", b"4")
    assert not world.batches
    world.turn()
    assert world.values(1) == [[b"1", b"2", b"4"]]
    assert world.values(2) == [[b"3"]]
    assert not world.outcomes
    for finish in world.waiting:
        finish()
    assert world.outcomes == [("a", ErrorCode.NONE), ("c", ErrorCode.NONE), ("b", ErrorCode.NONE)]


def test_without_a_loop_nothing_waits() -> None:
    world = World(defers=False)
    world.add(1, "a", b"1")
    world.add(1, "b", b"2")
    assert world.values(1) == [[b"1"], [b"2"]]


def test_a_failed_batch_fails_all_its_writes() -> None:
    world = World()
    world.add(1, "a", b"1")
    world.add(1, "b", b"2")
    world.turn()
    world.waiting[0](Unavailable("gone"))
    assert world.outcomes == [("a", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_a_refused_batch_fails_all_its_writes_and_is_told() -> None:
    world = World()
    world.refuses = StorageFull("no room")
    world.add(1, "a", b"1")
    world.add(1, "b", b"2")
    world.turn()
    assert [token for token, error in world.outcomes if error is ErrorCode.COORDINATOR_NOT_AVAILABLE] == ["a", "b"]
    assert len(world.reports) == 1


def test_enough_does_not_wait() -> None:
    world = World()
    world.add(1, "a", bytes(FULL_BYTES - 100))
    assert not world.batches
    world.add(1, "b", bytes(200))
    assert len(world.batches[1]) == 1
    world.turn()
    assert len(world.batches[1]) == 1


def test_what_fits_alone_is_not_refused_for_its_company() -> None:
    world = World(max_batch_bytes=300)
    world.add(1, "a", bytes(150))
    world.add(1, "b", bytes(250))
    world.add(1, "c", bytes(150))
    world.turn()
    assert world.values(1) == [[bytes(150)], [bytes(150)]]
    assert world.outcomes == [("b", ErrorCode.MESSAGE_TOO_LARGE)]


def test_a_transactional_write_is_a_batch_of_its_own_and_overtakes_nobody() -> None:
    world = World()
    world.add(1, "a", b"1")
    world.add(1, "t", b"2", producer_id=7)
    world.add(1, "b", b"3")
    world.turn()
    assert world.values(1) == [[b"1"], [b"3"]]
    ((before, batch),) = world.transactional
    assert before == 1, "the write before it was appended first"
    header = parse_header(batch)
    assert header.is_transactional
    assert header.producer_id == 7


@pytest.mark.parametrize("seed", range(20))
def test_every_write_is_appended_once_in_order(seed: int) -> None:
    rng = random.Random(seed)
    world = World(max_batch_bytes=2000)
    asked: dict[int, list[bytes]] = {}
    for number in range(300):
        partition = rng.randrange(4)
        values = [b"%d " % number * rng.choice([1, 10, 100]) for _ in range(rng.randrange(1, 4))]
        if sum(map(len, values)) < 1500:
            asked.setdefault(partition, []).extend(values)
            world.add(partition, number, *values)
        if rng.random() < 0.2:
            world.turn()
    world.turn()
    for finish in world.waiting:
        finish()
    assert {p: [value for batch in world.values(p) for value in batch] for p in world.batches} == asked
    assert all(len(batch) <= 2000 for batches in world.batches.values() for batch in batches)
    assert not any(error for _, error in world.outcomes)
    assert len({token for token, _ in world.outcomes}) == len(world.outcomes)
