"""Seeds of the simulated world: none may break an invariant, and each gives one trace."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.kernel import Violation
from tests.sim.mutants import MUTANTS
from tests.sim.plan import BEHAVIOURS, FAULTS, draw
from tests.sim.runs import first_to_fail, make_world, run, shrink, survive

CHUNKS = 4
LONG_CHUNKS = 8
FIRST_OF_MANY = 10_000

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("driven", "size"), [(False, 40), (True, 12)])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_an_invariant(chunk: int, driven: bool, size: int) -> None:
    """In the core alone, and through frames and driver."""
    survive(range(chunk * size, (chunk + 1) * size), driven=driven)


@pytest.mark.slow
@pytest.mark.parametrize(("driven", "share"), [(False, 1), (True, 4)])
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_no_seed_of_many_breaks_an_invariant(chunk: int, driven: bool, share: int, long_seeds: int) -> None:
    end = FIRST_OF_MANY + long_seeds // share
    survive(range(FIRST_OF_MANY + chunk, end, LONG_CHUNKS), driven=driven)


# One seed, one trace


@pytest.mark.parametrize("driven", [False, True])
def test_one_seed_gives_one_trace(driven: bool) -> None:
    for seed in range(3):
        first, second = make_world(draw(seed, driven=driven)), make_world(draw(seed, driven=driven))
        first.simulate()
        second.simulate()
        assert len(first.trace()) > 10
        assert first.trace() == second.trace()
        assert first.trace_hash() == second.trace_hash()


HASHES = """
from tests.sim.plan import draw
from tests.sim.runs import make_world
for driven in (False, True):
    for seed in (2, 9):
        world = make_world(draw(seed, driven=driven))
        world.simulate()
        print(world.trace_hash())
"""


def test_the_trace_does_not_depend_on_hashes() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", HASHES],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4242")
    ]
    assert len(set(printed[0].split())) == 4
    assert printed[0] == printed[1]


# The plans


def test_swarms_differ_and_every_feature_is_met_alone_and_together() -> None:
    plans = [draw(seed) for seed in range(300)]
    for feature in FAULTS | BEHAVIOURS:
        having = [plan for plan in plans if plan.has(feature)]
        assert 10 < len(having) < 290, feature
    assert len({plan.features for plan in plans}) > 290


def test_a_world_without_faults_comes_to_rest_at_once() -> None:
    calm = replace(draw(1), features=frozenset(), clients=(3,), duration_ms=20_000, initial_delay_ms=0)
    world = make_world(calm)
    world.simulate()
    generations = [line for line in world.trace() if "GenerationStarted" in line]
    assert 1 <= len(generations) <= 4, generations


# Reports


def test_a_failure_tells_how_to_see_it_again_and_shrinks() -> None:
    bug = next(bug for bug in MUTANTS if bug.name == "a failed commit is acknowledged")
    with bug.planted():
        failure = first_to_fail(range(60))
        assert failure is not None
        report = failure.report()
        assert f"python -m tests.sim {failure.plan.seed}" in report
        assert failure.rule == "persist, then speak"
        assert failure.trace[-1] in report
        smaller = shrink(failure, most_runs=40)
    assert smaller.rule == failure.rule
    assert len(smaller.plan.features) < len(failure.plan.features)
    assert smaller.plan.has("failed appends"), "what the bug needs is kept"
    assert len(smaller.trace) <= len(failure.trace)
    assert run(smaller.plan) is None, "without the bug the plan holds"


def test_what_is_caught_and_logged_ends_a_run_too() -> None:
    bug = next(bug for bug in MUTANTS if bug.name == "commits are accepted between join and sync")
    with bug.planted():
        failure = first_to_fail(range(60), driven=True)
    assert failure is not None
    assert isinstance(failure.error, Violation)
    assert "--driven" in failure.report()
