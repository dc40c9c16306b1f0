"""The metadata hash. The numbers are those of the library that Kafka uses."""

from __future__ import annotations

from uuid import UUID

import pytest
import xxhash

from ottla.broker.core.consumer_groups.metadata_hash import group_hash, topic_hash

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
THREE_PARTITIONS = -6728349258408289236
WITH_RACKS = 503848008050416621


def test_the_stream_is_kafkas() -> None:
    """R3.26, R3.29."""
    stream = "000807060504030201100f0e0d0c0b0a0974000100000003000000000000000100000002000000"
    assert topic_hash(TOPIC_ID, "t", [[], [], []]) % 2**64 == xxhash.xxh3_64_intdigest(bytes.fromhex(stream))


def test_vectors_of_topics() -> None:
    """R3.29."""
    assert topic_hash(TOPIC_ID, "t", [[], [], []]) == THREE_PARTITIONS
    assert topic_hash(TOPIC_ID, "t", [["r1", "r2"]]) == WITH_RACKS


def test_vectors_of_groups() -> None:
    """R3.27, R3.29."""
    assert group_hash({}) == 0
    assert group_hash({"t": THREE_PARTITIONS}) == 8179300238714719308
    assert group_hash({"a": THREE_PARTITIONS, "b": WITH_RACKS}) == -2680223877820689659


@pytest.mark.parametrize(
    ("first", "second"), [("a", "b"), ("a", "aa"), ("B", "a"), ("\U0001f600", "\uffee")], ids=ascii
)
def test_topics_are_in_the_order_of_their_utf_16_names(first: str, second: str) -> None:
    """R3.27: a surrogate is below U+FFEE, which is below U+1F600."""
    expected = group_hash({"a": 1, "b": 2})
    assert group_hash({first: 1, second: 2}) == group_hash({second: 2, first: 1}) == expected


def test_the_order_of_replicas_does_not_matter() -> None:
    """R3.28; nor whether there is one without a rack, as it is left out."""
    assert topic_hash(TOPIC_ID, "t", [["r2", "r1"]]) == WITH_RACKS


@pytest.mark.parametrize(
    "changed",
    [
        (UUID(int=TOPIC_ID.int + 1), "t", [["r1", "r2"]]),
        (UUID(int=TOPIC_ID.int + 2**64), "t", [["r1", "r2"]]),
        (TOPIC_ID, "u", [["r1", "r2"]]),
        (TOPIC_ID, "t", [["r1", "r2"], []]),
        (TOPIC_ID, "t", [["r1"]]),
        (TOPIC_ID, "t", [["r1", "r2", "r2"]]),
        (TOPIC_ID, "t", [["r1r2"]]),
        (TOPIC_ID, "t", [[], ["r1", "r2"]]),
    ],
)
def test_everything_else_matters(changed: tuple[UUID, str, list[list[str]]]) -> None:
    """R3.26: duplicate racks, too."""
    assert topic_hash(*changed) != WITH_RACKS


def test_a_topic_of_many_partitions() -> None:
    """Of more than 240 bytes XXH3 goes another way. The number is of Kafka 4.3."""
    racks = [["r1", "r2"] if partition % 2 else ["\U0001f600"] for partition in range(200)]
    assert topic_hash(TOPIC_ID, "orders", racks) == 5948660999808754622
