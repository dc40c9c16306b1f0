"""The partition of ``__consumer_offsets`` that coordinates a group.

Broker, client and pipeline share this one function: a broker that disagreed with Kafka on it would put a group's
offsets where Kafka's tools do not look for them.
"""

from __future__ import annotations

from operator import mul

DEFAULT_PARTITION_COUNT = 50
"""Kafka's default of ``offsets.topic.num.partitions``."""

_POWERS = [31**exponent & 0xFFFFFFFF for exponent in reversed(range(48))]


def utf16_length(text: str) -> int:
    """The number of UTF-16 code units, which is what Java calls the length of a string."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def utf16_order(text: str) -> bytes:
    """A key to sort strings by as Java compares them: by UTF-16 code unit."""
    return text.encode("utf-16-be")


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, as a signed 32-bit integer.

    A character outside the basic plane counts as its two surrogates.
    """
    value = 0
    if len(text) <= len(_POWERS) and text.isascii():  # nearly all: this takes a fifth of the time
        value = sum(map(mul, text.encode(), _POWERS[-len(text) :])) & 0xFFFFFFFF
        text = ""
    for character in text:
        point = ord(character)
        if point > 0xFFFF:
            point -= 0x10000
            value = (31 * value + 0xD800 + (point >> 10)) & 0xFFFFFFFF
            point = 0xDC00 + (point & 0x3FF)
        value = (31 * value + point) & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def coordinator_partition(group_id: str, partition_count: int = DEFAULT_PARTITION_COUNT) -> int:
    """The partition of ``__consumer_offsets`` that a group belongs to.

    Kafka takes the absolute value of the hash, with 0 for -2^31, whose absolute value an int32 cannot hold.
    """
    value = java_hash(group_id)
    return (0 if value == -0x80000000 else abs(value)) % partition_count
