"""Even homes: which partitions of several nodes have to go where, so that each node has as many as the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ottla.broker.core.topics.homes import FOLLOWERS
from ottla.protocol.internal_topics import INTERNAL_TOPICS

Homes = Mapping[str, Sequence[int]]
"""The node of each partition, by topic."""


def even(homes: Homes, node_ids: Sequence[int]) -> dict[str, list[int]]:
    """Homes at these nodes alone, even for each topic and in all; internal topics and others are counted apart.

    Homes that are even already stay, and of others no more is moved than a topic's own share takes.
    """
    found: dict[str, list[int]] = {}
    for is_internal in (True, False):
        kind = {
            name: one
            for name, one in sorted(homes.items())
            if (name in INTERNAL_TOPICS) == is_internal and name not in FOLLOWERS
        }
        found |= {name: [*one] for name, one in kind.items()} if _is_even(kind, node_ids) else _dealt(kind, node_ids)
    for name, followed in FOLLOWERS.items():
        if name in homes:
            leading = found.get(followed, ())
            found[name] = [*leading[: len(homes[name])], *homes[name][len(leading) :]]
    return found


def _is_even(homes: Homes, node_ids: Sequence[int]) -> bool:
    spread = [Counter(one) for one in homes.values()]
    return all(_differ_by_one(one, node_ids) for one in [*spread, sum(spread, Counter())])


def _differ_by_one(held: Mapping[int, int], node_ids: Sequence[int]) -> bool:
    counts = [held.get(one, 0) for one in node_ids]
    return sum(counts) == sum(held.values()) and max(counts) - min(counts) <= 1


def _dealt(homes: Homes, node_ids: Sequence[int]) -> dict[str, list[int]]:
    held: Counter[int] = Counter()
    found = {}
    for name, before in homes.items():
        own = Counter(before)
        each, more = divmod(len(before), len(node_ids))
        # Who has least in all gets one more; of several those who have it already.
        order = sorted(node_ids, key=lambda one: (held[one], -own[one], one))
        room = {one: each + (place < more) for place, one in enumerate(order)}
        found[name] = _kept(before, room)
        held.update(found[name])
    return found


def _kept(before: Sequence[int], room: dict[int, int]) -> list[int]:
    """Every partition where it is as long as there is room, and the others where there is some left."""
    homes: list[int | None] = []
    for one in before:
        stays = room.get(one, 0) > 0
        homes.append(one if stays else None)
        room[one] = room.get(one, 0) - stays
    free = _free(room)
    return [next(free) if one is None else one for one in homes]


def _free(room: Mapping[int, int]) -> Iterator[int]:
    left = dict(room)
    while any(one > 0 for one in left.values()):
        for node_id in sorted(left):
            if left[node_id] > 0:
                left[node_id] -= 1
                yield node_id
