"""The simulation counts only as long as it finds every planted bug, and soon."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import ottla.broker.core
from tests.sim.mutants import MUTANTS, PREPARED_MUTANTS, Mutant
from tests.sim.plan import Plan
from tests.sim.runs import first_to_fail, run

SEEDS = 60


@cache
def holds(plan: Plan) -> bool:
    """True if the right code survives a plan. Kept, as many bugs are found by the same plan."""
    return run(plan) is None


@pytest.mark.parametrize("bug", [*MUTANTS, *PREPARED_MUTANTS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant, record_property: pytest.Recorder) -> None:
    with bug.planted():
        failure = first_to_fail(range(SEEDS), driven=bug in PREPARED_MUTANTS, focus=bug.focus)
    assert failure is not None, f"{bug.name}: survived {SEEDS} seeds"
    record_property("killed by", f"seed {failure.plan.seed}: {failure.error}")
    print(f"{bug.name}: seed {failure.plan.seed}, {failure.error}")
    assert holds(failure.plan), "without the bug it does not hold either"
    assert not isinstance(failure.error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"


def test_planted_bugs_are_taken_out_again() -> None:
    functions = [bug.function() for bug in MUTANTS]
    codes = [function.__code__ for function in functions]
    for bug in MUTANTS:
        with bug.planted():
            assert bug.function().__code__ not in codes
    assert [function.__code__ for function in functions] == codes
    source = Path(next(iter(ottla.broker.core.__path__)))
    assert all(Path(code.co_filename).is_relative_to(source) for code in codes)
