"""The plan of a cluster's seed: what goes wrong in it, what clients and administrators do, and how large it is."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

FAULTS = {
    "connections end": 0.5,
    "late statements": 0.4,
    "half-sent statements": 0.3,
    "stopped backends": 0.3,
    "ended backends": 0.3,
    "cancelled waits": 0.25,
    "stalls": 0.3,
    "crashes": 0.25,
    "fail-over": 0.25,
    "kills": 0.4,
    "pauses": 0.4,
    "a node stays stopped": 0.15,
    "started twice": 0.15,
    "slow connections": 0.4,
    "no connections": 0.15,
}
"""Fault → how probable it is that a seed has it."""

BEHAVIOURS = {
    "hints": 0.5,
    "lost notifications": 0.4,
    "lost messages": 0.3,
    "clock rates": 0.4,
    "wild clocks": 0.1,
    "wrong hints": 0.15,
    "sessions left behind": 0.3,
    "slow database": 0.3,
    "little memory": 0.3,
    "trims": 0.4,
    "compaction": 0.5,
    "snapshots": 0.5,
    "moves": 0.5,
    "drains": 0.3,
    "topics": 0.4,
}

ONLY = "only these faults"
GENTLE = {"stalls", "crashes"}
"""Faults in which no node is ever to be taken for dead."""

DEADLINES_MS = (("M", 5_000), ("R", 5_000), ("L", 5_000), ("F0", 10_000), ("F1", 10_000))


@dataclass(frozen=True)
class ClusterPlan:
    """A world in few numbers; the seed decides the rest. Times are in milliseconds."""

    seed: str
    features: frozenset[str]
    nodes: int
    data_logs: int
    producers: int
    faults_ms: int
    """How long things go wrong."""
    between_ms: int
    """The longest time between two faults."""
    memory: int
    append_memory: int
    page_bytes: int
    statement_rows: int
    settle_ms: int
    beat_deadline_ms: int

    @property
    def deadlines(self) -> tuple[tuple[str, int], ...]:
        """How long each connection waits for an answer before it is let go."""
        return (("H", self.beat_deadline_ms), *DEADLINES_MS)

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def is_strict(self) -> bool:
        """Whether leases can be relied on. Without them records are safe, and answers from memory may be old."""
        return not self.features & {"wild clocks", "wrong hints", "started twice"}

    @property
    def is_gentle(self) -> bool:
        """Whether nothing happens in it that makes a node look dead."""
        return set(self.faults) <= GENTLE and self.is_strict

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of this world, in a fixed order."""
        return tuple(fault for fault in FAULTS if fault in self.features)

    @property
    def administration(self) -> tuple[str, ...]:
        """What its administrators do."""
        wishes = {
            "trims": ("trim", "trim", "sweep"),
            "compaction": ("compact", "compact"),
            "snapshots": ("save", "save"),
            "moves": ("move",),
            "drains": ("drain",),
            "topics": ("topic", "look", "topic", "look", "ids"),
        }
        return tuple(wish for name, some in wishes.items() if name in self.features for wish in some)

    def describe(self) -> str:
        features = ", ".join(sorted(self.features)) or "nothing"
        return (
            f"cluster seed {self.seed}: {self.nodes} nodes, {self.data_logs} logs, {self.producers} producers, "
            f"faults for {self.faults_ms} ms, with {features}"
        )


def draw(seed: int, focus: Iterable[str] = ()) -> ClusterPlan:
    """The plan of a seed; ``focus`` adds features that it must have, and `ONLY` removes all other faults."""
    rng = random.Random(f"cluster {seed}/plan")
    odds = FAULTS | BEHAVIOURS
    features = frozenset(name for name in odds if rng.random() < odds[name])
    if ONLY in focus:
        features -= set(FAULTS)
    features |= set(focus) - {ONLY}
    is_small = "little memory" in features
    return ClusterPlan(
        seed=str(seed),
        features=features,
        nodes=rng.choice((3, 3, 3, 4, 5)),
        data_logs=rng.choice((2, 3, 5)),
        producers=rng.choice((2, 4, 6)),
        faults_ms=rng.choice((6_000, 10_000, 16_000)),
        between_ms=rng.choice((400, 1_000, 2_500)),
        memory=rng.choice((300, 1_500)) if is_small else 1 << 30,
        append_memory=rng.choice((80, 140, 300)) if is_small else 1 << 30,
        page_bytes=rng.choice((100, 300, 2_000)),
        statement_rows=rng.choice((2, 4_000)),
        settle_ms=rng.choice((1_000, 3_000, 10_000)),
        beat_deadline_ms=rng.choice((2_000, 2_000, 5_000)),
    )
