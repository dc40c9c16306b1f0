"""Transactions are exactly-once where everything goes wrong, and the simulation sees it where they are not."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.sim.exactly_once_apps import Plan
from tests.sim.exactly_once_world import run
from tests.sim.mutants import PARTITION_MUTANTS, PENDING_MUTANTS, TRANSACTION_MUTANTS, Mutant, failure_of

SEEDS = int(os.environ.get("OTTLA_SIM_SEEDS", "180"))
SEEDS_PER_BUG = 120
CHUNK = 50
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
"""Bugs of single parts that show here, too."""
BUGS = [*TRANSACTION_MUTANTS, *(bug for bug in [*PARTITION_MUTANTS, *PENDING_MUTANTS] if bug.name in SHOWN_HERE)]


def fails(seed: int) -> Exception | None:
    return failure_of(lambda: run(seed))


@cache
def holds(seed: int) -> bool:
    return fails(seed) is None


@pytest.mark.parametrize("seed", [*range(30), *(f"{start}+" for start in range(30, SEEDS, CHUNK))])
def test_transactions_are_exactly_once(seed: int | str) -> None:
    seeds = [seed] if isinstance(seed, int) else range(int(seed[:-1]), min(int(seed[:-1]) + CHUNK, SEEDS))
    for number in seeds:
        if error := fails(number):
            raise AssertionError(f"{Plan.draw(number)}: {error}") from error


def test_worlds_are_worth_looking_at() -> None:
    txns = [txn for seed in range(30) for txn in run(seed).txns]
    assert sum(txn.told == "commit" for txn in txns) > 100
    assert sum(txn.told == "abort" for txn in txns) > 60
    assert sum(txn.told == "commit" and txn.has_offset for txn in txns) > 30
    assert sum(txn.asked_to == "commit" and not txn.told for txn in txns) > 15


def test_no_bug_has_lost_its_name() -> None:
    assert len(BUGS) == len(TRANSACTION_MUTANTS) + len(SHOWN_HERE)


def test_a_seed_is_the_same_world_each_time() -> None:
    first, second = run(5), run(5)
    assert [vars(txn) for txn in first.txns] == [vars(txn) for txn in second.txns]
    assert first.now_ms == second.now_ms


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        found = next(((seed, error) for seed in range(SEEDS_PER_BUG) if (error := fails(seed))), None)
    assert found is not None, f"{bug.name}: survived {SEEDS_PER_BUG} seeds"
    seed, error = found
    print(f"{bug.name}: seed {seed}, {type(error).__name__}: {error}")
    assert holds(seed), "without the bug it does not hold either"
    assert not isinstance(error, (NameError, SyntaxError)), "a bug of the bug"
