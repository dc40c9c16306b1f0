"""The plan of a seed: the faults and behaviours in the world, its number of clients and its duration.

Each seed enables a random subset (swarm testing): a world with everything in it drowns rare combinations, and a bug
that needs a calm world would never meet one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

FAULTS = {
    "slow appends": 0.5,
    "failed appends": 0.45,
    "crashes": 0.3,
    "moves": 0.25,
    "compaction": 0.5,
    "slow loading": 0.4,
    "slow network": 0.5,
    "lost requests": 0.3,
    "lost answers": 0.3,
    "late timers": 0.3,
    "wall clock jumps": 0.2,
    "small batches": 0.2,
}
"""Fault → how probable it is that a seed has it."""

BEHAVIOURS = {
    "static members": 0.5,
    "duplicates": 0.35,
    "old versions": 0.5,
    "several protocols": 0.5,
    "misfits": 0.15,
    "naps": 0.4,
    "late leaders": 0.4,
    "silent members": 0.3,
    "late followers": 0.4,
    "new subscriptions": 0.4,
    "eager leaders": 0.3,
    "leaving": 0.5,
    "client crashes": 0.5,
    "restarts": 0.4,
    "visitors": 0.4,
    "impatience": 0.3,
    "forgotten ids": 0.3,
    "strangers": 0.5,
    "administration": 0.5,
    "simple commits": 0.3,
    "topic deletion": 0.25,
    "expiration": 0.35,
    "small groups": 0.25,
    "initial delay": 0.5,
    "generations persisted at join": 0.45,
}

DRIVEN_WITHOUT = ("compaction", "slow loading", "moves")
"""Faults of the model log alone; worlds with the real host and the memory engine go without them."""


@dataclass(frozen=True)
class Plan:
    """A world in few numbers; the seed decides the rest. Times are in milliseconds."""

    seed: str
    features: frozenset[str]
    clients: tuple[int, ...]
    """The number of consumers of each group."""
    partitions: int
    """Of ``__consumer_offsets``."""
    nodes: int
    duration_ms: int
    initial_delay_ms: int
    max_size: int
    driven: bool = False
    """Through frames, connections, dispatcher, handlers, driver and memory engine, not straight into the core."""
    without: frozenset[int] = frozenset()
    """Clients that a shrunk plan leaves out."""

    def has(self, feature: str) -> bool:
        return feature in self.features

    def group_ids(self) -> list[str]:
        return [f"g{index}" for index in range(len(self.clients))]

    def simpler(self) -> Iterator[Plan]:
        """Plans with something left out, the largest pieces first."""
        for share in (0.25, 0.5, 0.75, 0.9):
            yield replace(self, duration_ms=int(self.duration_ms * share))
        for feature in sorted(self.features):
            yield replace(self, features=self.features - {feature})
        for client in range(sum(self.clients)):
            if client not in self.without:
                yield replace(self, without=self.without | {client})

    def describe(self) -> str:
        features = ", ".join(sorted(self.features)) or "nothing"
        left_out = f", without clients {sorted(self.without)}" if self.without else ""
        return (
            f"seed {self.seed}: {len(self.clients)} groups of {self.clients} clients{left_out}, {self.nodes} nodes, "
            f"{self.partitions} partitions, {self.duration_ms} ms, initial delay {self.initial_delay_ms} ms, "
            f"largest group {self.max_size}, with {features}"
        )


def draw(seed: int, *, driven: bool = False, focus: Iterable[str] = ()) -> Plan:
    """The plan of a seed; ``focus`` adds features that it must have."""
    rng = random.Random(f"{seed}/{driven}/plan")
    odds = FAULTS | BEHAVIOURS
    features = {name for name in odds if rng.random() < odds[name]}
    features |= set(focus)
    if driven:
        features -= set(DRIVEN_WITHOUT)
    groups = rng.choice((1, 1, 2, 2, 3))
    clients = tuple(rng.choice((1, 2, 3, 3, 4)) for _ in range(groups))
    return Plan(
        seed=f"driven {seed}" if driven else str(seed),
        features=frozenset(features),
        clients=clients,
        partitions=rng.choice((1, 2, 5)),
        nodes=rng.choice((1, 2)) if "moves" in features else 1,
        duration_ms=rng.choice((20_000, 40_000, 60_000, 90_000)),
        initial_delay_ms=rng.choice((500, 3_000)) if "initial delay" in features else 0,
        max_size=rng.choice((1, 2, 2, 3)) if "small groups" in features else 2_147_483_647,
        driven=driven,
    )
