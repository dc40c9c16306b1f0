"""The orders in which hash tables of Java give their entries, where somebody outside of Kafka can see them.

Kafka leaves some choices to such an order, and clients and recorded groups have come to see it. What is not modelled:
Java turns a bucket of nine keys or more into a tree, which hardly ever happens to a good hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def in_map_order(names: Iterable[str]) -> list[str]:
    """Names as ``HashMap`` gives them that were put into it in this order, each once (R4.15)."""
    listed = list(names)
    size = table_size(len(listed))
    return sorted(listed, key=lambda name: bucket(name, size))


def ids_in_map_order(topic_ids: Iterable[UUID]) -> list[UUID]:
    """Ids of topics as ``HashMap`` gives them that were put into it in this order, each once (R4.17)."""
    listed = list(topic_ids)
    mask = table_size(len(listed)) - 1

    def bucket_of(topic_id: UUID) -> int:
        both = topic_id.int >> 64 ^ topic_id.int & _LOW_64
        unsigned = (both >> 32 ^ both) & 0xFFFFFFFF
        return (unsigned ^ unsigned >> 16) & mask

    return sorted(listed, key=bucket_of)


def copied_set_size(entries: int) -> int:
    """How many buckets Java's ``HashSet`` has that was made of so many entries (R4.18)."""
    return 1 << (max(entries * 4 // 3, _FIRST_TABLE_SIZE - 1)).bit_length()


def in_set_order(numbers: Sequence[int], size: int) -> list[int]:
    """Numbers below 65,536 as a ``HashSet`` of so many buckets gives them that were put into it in this order."""
    return sorted(numbers, key=lambda number: number & (size - 1))


def in_table_order(names: Sequence[str], most: int) -> list[str]:
    """Names as Kafka's own ``TimelineHashMap`` gives them, in which a group has its members (R4.16).

    Args:
        names: in the order in which they came into the table.
        most: how many there have been at once since the table was made; it never shrinks.
    """
    bits = 1
    while (most + 1) * 3 > (4 << bits):
        bits += 1

    def slot(name: str) -> int:
        return (java_hash(name) * _FIBONACCI & _LOW_64) >> (64 - bits)

    newest_first = names[::-1]
    return sorted(newest_first, key=slot)
