"""Which of the protocols that all members support is used.

Every member votes for its favourite; most votes win. Kafka leaves ties to the order in which a Java hash map gives
its entries, and clients have come to see that order: sticky before range before roundrobin before
cooperative-sticky. It is reproduced here, so that a mixed group settles on the same assignor on either broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.core.hash_order import names_in_order, table_size


def elect(votes: Iterable[str]) -> str | None:
    """The name with the most votes; among equals the one that comes first in Java's iteration order.

    That order is by bucket, and by first vote within a bucket. None if nobody voted.
    """
    counts: dict[str, int] = {}
    for name in votes:
        counts[name] = counts.get(name, 0) + 1
    # Both orders are stable: the map's, which keeps first votes in order within a bucket, and then by count.
    return max(names_in_order(counts, table_size(len(counts))), key=counts.__getitem__, default=None)
