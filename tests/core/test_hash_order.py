"""Orders of Java's hash tables. The expected ones were printed by Java 17 and Kafka 4.3."""

from __future__ import annotations

import itertools

import pytest

from ottla.broker.core.hash_order import bucket, in_map_order, table_size

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


@pytest.mark.parametrize(("name", "number"), BUCKETS.items())
def test_buckets(name: str, number: int) -> None:
    assert bucket(name) == number


def test_the_table_grows_as_javas_does() -> None:
    assert [table_size(count) for count in (0, 1, 12, 13, 24, 25, 48, 49)] == [16, 16, 16, 32, 32, 64, 64, 128]


@pytest.mark.parametrize(
    "names",
    [
        ["member-1", "member-2", "member-5", "member-3", "member-4"],
        [f"m{number}" for number in range(1, 9)],
        ["JOZvZnkkTSuFPA8Qm7cvQA", "A_kBUhqkQ2GmYw3s0o2f_g", "9sNhRQ2jQHyCH0JcU1PBxA", "qWcVHqLwTuiSn4nVQYB3jQ"],
    ],
)
def test_the_order_of_a_map(names: list[str]) -> None:
    """R4.19."""
    for shuffled in itertools.islice(itertools.permutations(names), 200):
        assert in_map_order(shuffled) == names


def test_within_a_bucket_the_first_comes_first() -> None:
    assert in_map_order(["sticky", "default", "compatible"]) == ["default", "compatible", "sticky"]
    assert in_map_order(["compatible", "sticky", "default"]) == ["compatible", "default", "sticky"]
