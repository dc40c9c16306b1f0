"""The kinds of random traces. A seed is one trace of one kind, and the kinds take turns."""

from __future__ import annotations

from random import Random

from tests.differential import (
    random_consumers,
    random_frames,
    random_groups,
    random_logins,
    random_logs,
    random_mixed,
    random_permissions,
    random_topics,
    random_transactions,
)
from tests.differential.pairs import Move
from tests.differential.play import Kind

KINDS: dict[str, Kind] = {
    "one": Kind(random_groups.one, groups=True),
    "logs": Kind(random_logs.logs, topics={"t": 2, "u": 2}),
    "uniform": Kind(random_consumers.uniform, topics={"t": 4}, groups=True, transactions=True, probes=True),
    "two": Kind(random_groups.two, groups=True),
    "transactions": Kind(random_transactions.transactions, topics={"t": 2}, groups=True, transactions=True),
    "formed": Kind(random_groups.formed, groups=True),
    "range": Kind(random_consumers.ranges, topics={"t": 3, "u": 2}, groups=True, transactions=True, probes=True),
    "topics": Kind(random_topics.topics),
    "frames": Kind(random_frames.frames, groups=True),
    "timed": Kind(random_groups.timed, groups=True),
    "regexes": Kind(random_consumers.regexes, topics={"t": 3, "u": 2}, groups=True, probes=True, regexes=True),
    "mixed": Kind(random_mixed.mixed, topics={"t": 4}, groups=True, probes=True),
    "migrated": Kind(random_mixed.migrated, topics={"t": 4}, groups=True, probes=True),
    "three": Kind(random_groups.three, groups=True),
    "rules": Kind(random_permissions.rules, topics={"a": 2, "b": 1}, groups=True, secured=True),
    "logins": Kind(random_logins.logins, secured=True),
    "operations": Kind(random_permissions.operations, topics={"a": 2, "b": 1}, groups=True, secured=True),
}


def kind_of(seed: int) -> str:
    return list(KINDS)[seed % len(KINDS)]


def profile_of(seed: int) -> str:
    """With which settings the brokers of a seed are started."""
    return "secured" if KINDS[kind_of(seed)].secured else "prompt"


def moves_of(seed: int) -> list[Move]:
    """The trace of a seed."""
    kind = kind_of(seed)
    return KINDS[kind].generate(Random(f"{kind} {seed}"))
