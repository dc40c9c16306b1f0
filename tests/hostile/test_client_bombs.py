"""What the included consumer makes of batches of few bytes that hold a lot."""

from __future__ import annotations

import pytest

from ottla.clients.errors import RecordCorrupt
from ottla.clients.fetched import MADE_AT_ONCE, FetchedPartition
from ottla.clients.structs import TopicPartition
from ottla.clients.subscription import PartitionState
from ottla.protocol.compression import Codec
from tests.hostile.bombs import SMALLEST, keyed, sealed
from tests.hostile.test_produced_bombs import many_headers
from tests.support.memory import allocations

TP = TopicPartition("orders", 3)


def fetched(data: bytes, **options: int) -> FetchedPartition:
    state = PartitionState(TP)
    state.position = 0
    return FetchedPartition(state, data, **options)


def test_records_are_made_as_they_are_taken() -> None:
    found = fetched(keyed(200_000, codec=Codec.ZSTD))
    with allocations() as allocated:
        for _ in range(20):
            assert len(found.take(500, None, None)[0]) == 500
    assert allocated.bytes < 8 << 20, "the records section has 2 MB, all records 40"
    assert found.next_offset == 10_000


def test_a_batch_above_the_limit_is_named_with_the_setting() -> None:
    found = fetched(sealed(1_000, SMALLEST * 1_000), max_decompressed_bytes=6_999)
    words = "orders-3: .*offset 0 .*raise max_decompressed_batch_bytes, which is 6999"
    for _ in range(2):
        with pytest.raises(RecordCorrupt, match=words) as caught:
            found.take(10, None, None)
    assert caught.value.next_offset == 1_000


def test_damage_in_a_large_batch_is_told_where_it_is() -> None:
    count = MADE_AT_ONCE + 1
    good = keyed(count, codec=Codec.NONE)
    found = fetched(sealed(count, good[61:-1] + b"\x02", Codec.NONE))
    taken, used_up = found.take(count + 1, None, None)
    assert (len(taken), used_up) == (count - 1, False)
    for _ in range(2):
        with pytest.raises(RecordCorrupt, match=f"offset {count - 1} is corrupt") as caught:
            found.take(1, None, None)
    assert caught.value.next_offset == count


def test_a_record_of_many_headers_is_one_record() -> None:
    assert len(fetched(many_headers(1_000)).take(10, None, None)[0][0].headers) == 1_000
