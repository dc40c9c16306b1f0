"""Transactions are exactly-once where everything goes wrong, and the simulation sees it where they are not."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.core.transactions.txn_apps import Plan
from tests.core.transactions.txn_mutants import MUTANTS
from tests.core.transactions.txn_sim import run
from tests.sim.mutants import Mutant

SEEDS = int(os.environ.get("OTTLA_SIM_SEEDS", "150"))
SEEDS_PER_BUG = 120


def fails(seed: int) -> Exception | None:
    """What is wrong in the world of a seed."""
    try:
        run(Plan.draw(seed))
    except Exception as error:
        return error
    return None


@cache
def holds(seed: int) -> bool:
    return fails(seed) is None


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_transactions_are_exactly_once(start: int) -> None:
    for seed in range(start, min(start + 50, SEEDS)):
        try:
            run(Plan.draw(seed))
        except Exception as error:
            raise AssertionError(f"{Plan.draw(seed)}: {error}") from error


def test_worlds_are_worth_looking_at() -> None:
    worlds = [run(Plan.draw(seed)) for seed in range(20)]
    txns = [txn for world in worlds for txn in world.txns]
    assert sum(txn.told == "commit" for txn in txns) > 80
    assert sum(txn.told == "abort" for txn in txns) > 60
    assert sum(txn.told == "commit" and txn.has_offset for txn in txns) > 30
    assert sum(txn.asked_to == "commit" and not txn.told for txn in txns) > 15


def test_a_seed_is_the_same_world_each_time() -> None:
    first, second = (run(Plan.draw(5)) for _ in range(2))
    assert [vars(txn) for txn in first.txns] == [vars(txn) for txn in second.txns]
    assert first.now == second.now


@pytest.mark.parametrize("bug", MUTANTS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        found = next(((seed, error) for seed in range(SEEDS_PER_BUG) if (error := fails(seed))), None)
    assert found is not None, f"{bug.name}: survived {SEEDS_PER_BUG} seeds"
    seed, error = found
    print(f"{bug.name}: seed {seed}, {type(error).__name__}: {error}")
    assert holds(seed), "without the bug it does not hold either"
    assert not isinstance(error, (NameError, SyntaxError)), "a bug of the bug"
