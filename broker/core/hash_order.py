"""The orders in which hash tables of Java give their entries, where somebody outside of Kafka can see them.

Kafka leaves some choices to such an order, and clients and recorded groups have come to see it. What is not modelled:
Java turns a bucket of nine keys or more into a tree, which hardly ever happens to a good hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ottla.protocol.groups import java_hash

_FIRST_TABLE_SIZE = 16
_LOAD_FACTOR_PERCENT = 75
_LOW_64 = (1 << 64) - 1
_FIBONACCI = -7046029254386353131 & _LOW_64


def table_size(entries: int) -> int:
    """How many buckets Java's hash map has once it grew to hold so many entries."""
    size = _FIRST_TABLE_SIZE
    while entries * 100 > size * _LOAD_FACTOR_PERCENT:
        size *= 2
    return size


def bucket(name: str, size: int = _FIRST_TABLE_SIZE) -> int:
    """The bucket of a key: the high half of its hash is folded into the low one."""
    unsigned = java_hash(name) & 0xFFFFFFFF
    return (unsigned ^ unsigned >> 16) & (size - 1)


def names_in_order(names: Iterable[str], buckets: int) -> list[str]:
    """Names as a hash table of so many buckets gives them that were put into it in this order (R4.15)."""
    return sorted(names, key=lambda name: bucket(name, buckets))


def ids_in_order(topic_ids: Iterable[UUID], buckets: int) -> list[UUID]:
    """Ids of topics as a hash table of so many buckets gives them that were put into it in this order (R4.17)."""

    def bucket_of(topic_id: UUID) -> int:
        both = topic_id.int >> 64 ^ topic_id.int & _LOW_64
        unsigned = (both >> 32 ^ both) & 0xFFFFFFFF
        return (unsigned ^ unsigned >> 16) & (buckets - 1)

    return sorted(topic_ids, key=bucket_of)


def copied_set_size(entries: int) -> int:
    """How many buckets Java's ``HashSet`` has that was made of so many entries (R4.18)."""
    return set_size(max(entries * 4 // 3 + 1, _FIRST_TABLE_SIZE))


def set_size(capacity: int) -> int:
    """How many buckets Java's ``HashSet`` has that was asked to have so many: the next power of two."""
    return 1 << (capacity - 1).bit_length()


def in_set_order(numbers: Iterable[int], buckets: int) -> list[int]:
    """Numbers below 65,536 as ``HashSet`` gives them that were put in this order into one of so many buckets."""
    return sorted(numbers, key=(buckets - 1).__and__)


def table_slot(name: str, most: int) -> int:
    """The slot of a key in Kafka's own ``TimelineHashMap``, in which a group has its members (R4.16).

    Within a slot the newest comes first.

    Args:
        most: how many keys there have been at once since the table was made; it never shrinks.
    """
    bits = max(1, (((most + 1) * 3 - 1) // 4).bit_length())
    return (java_hash(name) * _FIBONACCI & _LOW_64) >> (64 - bits)
