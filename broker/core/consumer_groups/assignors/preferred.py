"""Which assignor a group uses: the one that most of its members ask for."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS


def preferred_assignor(votes: Mapping[str, int], before: str | None, after: str | None) -> str | None:
    """The assignor that most members ask for after a request; None if nobody asks for one (R2.24).

    Among equals the first in the order of Kafka's hash table wins. There ``uniform`` is before ``range``, but what
    nobody else asks for than the member of the request comes first.

    Args:
        votes: how many members ask for each assignor before the request.
        before: what the member of the request asked for before it, None for nothing or for a new member.
        after: what it asks for now.
    """
    counts = {name: votes[name] for name in ASSIGNORS if votes.get(name)}
    if before is not None:
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
    if after is not None:
        counts = counts | {after: counts[after] + 1} if after in counts else {after: 1} | counts
    return max(counts, key=counts.__getitem__, default=None)
