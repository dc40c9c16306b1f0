"""Large Fetch requests that come in one turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.core.fetches import TURN_BYTES, TurnReads
from ottla.protocol.records import iter_batches


def test_a_turn_reads_so_much() -> None:
    turns: list[Callable[[], None]] = []
    reads = TurnReads(turns.append)
    reads.took(1_000)
    assert reads.room_bytes > 1 << 40 and not turns, "little is not worth counting"
    reads.took(TURN_BYTES // 2)
    assert reads.room_bytes == TURN_BYTES // 2
    reads.took(TURN_BYTES)
    assert reads.room_bytes == 0
    (begin,) = turns
    begin()
    assert reads.room_bytes > 1 << 40
    reads.took(TURN_BYTES)
    assert len(turns) == 2


async def test_whoever_comes_when_the_turn_has_read_enough_is_given_one_batch_at_once(world, topic, make_batch):
    for value in (b"a", b"b", b"c"):
        world.produced(make_batch(value))
    world.services.reads = TurnReads([].append)
    world.services.reads.took(TURN_BYTES)
    exchange = world.fetch(0, min_bytes=1 << 20, max_wait_ms=60_000)
    assert len(list(iter_batches(exchange.row.records))) == 1
    assert world.fetch(3, min_bytes=1, max_wait_ms=60_000).response is None, "where there is nothing it is waited for"
