"""Partitioning: murmur2 as Kafka's, and keyless records that stick to a partition for a batch's worth."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.clients.partitioner import DefaultPartitioner, murmur2, partition_for_key


@given(st.binary(max_size=200))
def test_murmur2_is_kafka_pythons(data: bytes) -> None:
    assert murmur2(data) == kafka_python_murmur2(data)


# From the tests of Kafka's own clients, as signed 32-bit integers.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_as_java_has_it(data: bytes, expected: int) -> None:
    value = murmur2(data)
    assert (value - (1 << 32) if value >= 1 << 31 else value) == expected


def test_the_sign_does_not_make_a_negative_partition() -> None:
    assert murmur2(b"21") >= 1 << 31
    assert partition_for_key(b"21", 12) == (murmur2(b"21") & 0x7FFFFFFF) % 12


def first(choices: Sequence[int]) -> int:
    return choices[0]


def test_keys_go_to_the_same_partition_whatever_is_available() -> None:
    partitioner = DefaultPartitioner(100, first)
    chosen = {partitioner.partition("t", b"k", 10, range(7), available) for available in ([], [1], [0, 1, 2])}
    assert chosen == {partition_for_key(b"k", 7)}


def test_keyless_records_stick_for_a_batch_then_move() -> None:
    partitioner = DefaultPartitioner(100, first)
    chosen = [partitioner.partition("t", None, 40, range(3), [0, 1, 2]) for _ in range(7)]
    assert chosen == [0, 0, 0, 1, 1, 1, 0]


def test_topics_stick_on_their_own() -> None:
    partitioner = DefaultPartitioner(100, first)
    assert [partitioner.partition(topic, None, 60, range(2), [0, 1]) for topic in "aabab"] == [0, 0, 0, 1, 0]


def test_a_partition_without_a_leader_is_left() -> None:
    partitioner = DefaultPartitioner(1000, first)
    assert partitioner.partition("t", None, 1, range(3), [0, 1, 2]) == 0
    assert partitioner.partition("t", None, 1, range(3), [1, 2]) == 1
    assert partitioner.partition("t", None, 1, range(3), []) == 1, "with no leader at all any partition will do"


def test_a_single_partition_is_chosen_again() -> None:
    partitioner = DefaultPartitioner(10, first)
    assert [partitioner.partition("t", None, 10, range(1), [0]) for _ in range(3)] == [0, 0, 0]
