"""Which of the protocols that all members support is used.

Every member votes for its favourite; most votes win. Kafka leaves ties to the order in which a Java hash map gives
its entries, and clients have come to see that order: sticky before range before roundrobin before
cooperative-sticky. It is reproduced here, so that a mixed group settles on the same assignor on either broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.groups import java_hash

_FIRST_TABLE_SIZE = 16
_LOAD_FACTOR_PERCENT = 75


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


def elect(votes: Iterable[str]) -> str | None:
    """The name with the most votes; among equals the one that comes first in Java's iteration order.

    That order is by bucket, and by first vote within a bucket. None if nobody voted.
    """
    counts: dict[str, int] = {}
    for name in votes:
        counts[name] = counts.get(name, 0) + 1
    size = table_size(len(counts))
    # Both sorts are stable: by bucket, keeping the order of first votes, and then by count.
    ordered = sorted(counts, key=lambda name: bucket(name, size))
    return max(ordered, key=counts.__getitem__, default=None)
