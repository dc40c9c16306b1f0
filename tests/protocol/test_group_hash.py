"""The partition of a group is Kafka's, to the letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.groups import coordinator_partition, java_hash, utf16_length

VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 47, 1),
    ("foo", 101574, 24, 0),
    ("test", 3556498, 48, 1),
    ("my-group", -1906497762, 12, 0),
    ("group-id", 506313513, 13, 0),
    ("my_consumer_group", 1013342185, 35, 1),
    ("connect-cluster", 1440343063, 13, 1),
    ("polygenelubricants", -2147483648, 0, 0),
    ("测试组", 28029978, 28, 0),
    ("😀", 1772899, 49, 1),
]


@pytest.mark.parametrize(("group_id", "value", "of_50", "of_3"), VECTORS)
def test_known_hashes(group_id: str, value: int, of_50: int, of_3: int) -> None:
    assert java_hash(group_id) == value
    assert coordinator_partition(group_id) == of_50
    assert coordinator_partition(group_id, 3) == of_3


def textbook_hash(text: str) -> int:
    """The sum that the documentation of java.lang.String gives, over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    total: int = sum(unit * 31 ** (len(units) - 1 - index) for index, unit in enumerate(units))
    return (total + 2**31) % 2**32 - 2**31


@given(st.text())
def test_hash_is_the_documented_sum(text: str) -> None:
    assert java_hash(text) == textbook_hash(text)


@given(st.text(), st.integers(1, 1000))
def test_partition_is_in_range(text: str, count: int) -> None:
    assert 0 <= coordinator_partition(text, count) < count


@given(st.text())
def test_length_counts_utf16_units(text: str) -> None:
    assert utf16_length(text) == len(text.encode("utf-16-be", "surrogatepass")) // 2
