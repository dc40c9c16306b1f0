"""Orders of hash tables. The expected ones were printed by Java 17 and by Kafka 4.3's ``TimelineHashMap``."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest

from ottla.broker.core.hash_order import (
    bucket,
    copied_set_size,
    ids_in_order,
    in_set_order,
    names_in_order,
    table_size,
    table_slot,
)

BUCKETS = {
    "uniform": 1,
    "default": 2,
    "compatible": 2,
    "stream": 5,
    "sticky": 8,
    "range": 9,
    "roundrobin": 10,
    "cooperative-sticky": 15,
    "sessioned": 15,
}
BASE64 = ["JOZvZnkkTSuFPA8Qm7cvQA", "A_kBUhqkQ2GmYw3s0o2f_g", "9sNhRQ2jQHyCH0JcU1PBxA", "qWcVHqLwTuiSn4nVQYB3jQ"]
SHORT = [f"m{number}" for number in range(1, 9)]
NAMES = [*BASE64, *(f"member-{number}" for number in range(1, 6)), *SHORT]


@pytest.mark.parametrize(("name", "number"), BUCKETS.items())
def test_buckets(name: str, number: int) -> None:
    assert bucket(name) == number


def test_the_table_grows_as_javas_does() -> None:
    assert [table_size(count) for count in (0, 1, 12, 13, 24, 25, 48, 49)] == [16, 16, 16, 32, 32, 64, 64, 128]


@pytest.mark.parametrize(
    "names", [["member-1", "member-2", "member-5", "member-3", "member-4"], SHORT, BASE64], ids=lambda names: names[0]
)
def test_names_in_a_map(names: list[str]) -> None:
    """R4.15, R4.19."""
    for shuffled in itertools.islice(itertools.permutations(names), 200):
        assert names_in_order(shuffled, 16) == names


def test_many_names_in_a_map() -> None:
    """R4.15: of 32 buckets."""
    assert names_in_order(NAMES, table_size(len(NAMES))) == [
        *("JOZvZnkkTSuFPA8Qm7cvQA", "m1", "m2", "m3", "m4", "member-5", "m5", "9sNhRQ2jQHyCH0JcU1PBxA", "m6"),
        *("member-3", "m7", "member-4", "m8", "member-1", "member-2", "A_kBUhqkQ2GmYw3s0o2f_g"),
        "qWcVHqLwTuiSn4nVQYB3jQ",
    ]


def test_within_a_bucket_the_first_comes_first() -> None:
    assert names_in_order(["sticky", "default", "compatible"], 16) == ["default", "compatible", "sticky"]
    assert names_in_order(["compatible", "sticky", "default"], 16) == ["compatible", "default", "sticky"]


def in_table(names: list[str], most: int) -> list[str]:
    newest_first = names[::-1]
    return sorted(newest_first, key=lambda name: table_slot(name, most))


def test_names_in_a_groups_table() -> None:
    """R4.16."""
    assert in_table(NAMES, len(NAMES)) == [
        *("m5", "JOZvZnkkTSuFPA8Qm7cvQA", "member-3", "A_kBUhqkQ2GmYw3s0o2f_g", "m2", "m7", "member-5", "m4"),
        *("member-2", "m1", "9sNhRQ2jQHyCH0JcU1PBxA", "m6", "qWcVHqLwTuiSn4nVQYB3jQ", "member-4", "m3", "member-1"),
        "m8",
    ]


def test_a_groups_table_does_not_shrink() -> None:
    """R4.16; whoever comes back is the newest in its slot."""
    names = [f"topic-{number}" for number in (1, 2, *range(4, 13), 3)]
    assert in_table(names, 12) == [
        *("topic-10", "topic-2", "topic-7", "topic-12", "topic-4", "topic-9", "topic-1", "topic-6", "topic-3"),
        *("topic-11", "topic-8", "topic-5"),
    ]
    assert in_table(names, 412) == [
        *("topic-2", "topic-10", "topic-7", "topic-4", "topic-12", "topic-9", "topic-1", "topic-6", "topic-3"),
        *("topic-11", "topic-8", "topic-5"),
    ]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([3, 0, 2, 1], [0, 1, 2, 3]),
        ([0, 16, 1, 17], [0, 16, 1, 17]),
        ([16, 0, 17, 1], [16, 0, 17, 1]),
        ([33, 1, 17, 0, 2], [0, 33, 1, 17, 2]),
        (
            [5, 37, 21, 100, 64, 32, 0, 96, 48, 15, 31, 47, 63],
            [64, 32, 0, 96, 100, 5, 37, 15, 47, 48, 21, 31, 63],
        ),
    ],
)
def test_numbers_in_a_set(numbers: list[int], expected: list[int]) -> None:
    """R4.18."""
    assert in_set_order(numbers, copied_set_size(len(numbers))) == expected


def test_the_size_of_a_copied_set() -> None:
    """R4.18: for so many entries it is twice the size of one that grew."""
    assert [copied_set_size(count) for count in (0, 11, 12, 23, 24, 47, 48)] == [16, 16, 32, 32, 64, 64, 128]


def test_ids_in_a_set() -> None:
    """R4.17."""
    made = [
        UUID(int=(number * 0x123456789ABCDEF << 64) + (~number * 0x1F2E3D4C & 2**64 - 1)) for number in range(1, 21)
    ]
    order = [topic_id.hex[:4] for topic_id in ids_in_order(made, 32)]
    assert order == [
        *("16c1", "0369", "0da7", "147a", "0246", "091a", "0123", "0a3d", "1111", "0eca"),
        *("0c83", "06d3", "0fed", "0b60", "1357", "05b0", "07f6", "1234", "048d", "159e"),
    ]
