"""Random transactions through the whole broker but the sockets, and bugs of single parts that show there."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.exactly_once_world import ExactlyOnceWorld
from tests.sim.mutants import Mutant
from tests.sim.partition_mutants import PARTITION_MUTANTS
from tests.sim.pending_mutants import PENDING_MUTANTS

SEEDS = 30
SHOWN_HERE = {
    "aborted transactions are not listed",
    "committed transactions are listed as aborted",
    "what a failed batch has begun stays open",
    "a start takes every batch for the first of a transaction",
    "a start forgets what was aborted",
    "offsets of a transaction count at once",
    "an aborted transaction counts",
    "a transaction that commits does not count",
    "a start takes what is pending for committed",
}
BUGS = [bug for bug in [*PARTITION_MUTANTS, *PENDING_MUTANTS] if bug.name in SHOWN_HERE]


def simulate(seed: int) -> ExactlyOnceWorld:
    world = ExactlyOnceWorld(seed)
    asyncio.run(asyncio.wait_for(world.simulate(), 60))
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_transaction_counts_everywhere_or_nowhere(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    found: Exception | None = None
    with bug.planted():
        for seed in range(SEEDS):
            try:
                simulate(seed)
            except Exception as error:
                found = error
                break
    assert found is not None, f"{bug.name}: survived {SEEDS} seeds"
    assert not isinstance(found, (NameError, AttributeError, SyntaxError)), "a bug of the bug"


def test_there_is_enough_of_everything() -> None:
    assert len(BUGS) == len(SHOWN_HERE)
    made = [one for seed in range(6) for one in simulate(seed).transactions_made]
    fates = [one.committed for one in made]
    assert fates.count(True) > 100 and fates.count(False) > 50 and fates.count(None) > 0
