"""Homes of partitions: which node each is given to when it is created.

Internal topics and all others are dealt apart, so that nodes have as many coordinators as each other, and as many
partitions of clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, INTERNAL_TOPICS, OFFSETS_TOPIC

FOLLOWERS: Mapping[str, str] = {GROUP_EVENTS_TOPIC: OFFSETS_TOPIC}
"""Topics that have as many partitions as another one, each where that one's is: what is written there comes from it."""


class Dealer:
    """Gives each new partition to the node that has fewest of its kind, the smallest id of several.

    Where nothing was deleted or assigned by hand nodes take turns, and each topic goes on where the last one ended.

    Args:
        held: the topics that there are, by name, and the homes of their partitions.
        nodes: those that get partitions; none in the catalog of a single node, where nothing has a home.
    """

    def __init__(self, held: Iterable[tuple[str, Sequence[int]]], nodes: Sequence[int]) -> None:
        self._homes = dict(held)
        self._nodes = sorted(nodes)
        self._held: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        for name, homes in self._homes.items():
            self._held[name in INTERNAL_TOPICS].update(homes)

    def deal(self, name: str, count: int, wanted: Sequence[int] = ()) -> tuple[int, ...]:
        """The homes of so many new partitions of a topic, which are taken into account from then on.

        Args:
            wanted: given by whoever creates them.
        """
        if not self._nodes:
            return ()
        before = self._homes.get(name, ())
        held = self._held[name in INTERNAL_TOPICS]
        followed = self._homes.get(FOLLOWERS.get(name, ""), ())[len(before) : len(before) + count]
        homes = list(wanted or followed)
        held.update(homes)
        while len(homes) < count:
            homes.append(min(self._nodes, key=lambda node: held[node]))
            held[homes[-1]] += 1
        self._homes[name] = (*before, *homes)
        return tuple(homes)
