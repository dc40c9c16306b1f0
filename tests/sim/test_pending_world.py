"""Random lives of groups that commit in transactions, and the bugs that they must find."""

from __future__ import annotations

import pytest

from tests.sim.mutants import Mutant
from tests.sim.pending_mutants import PENDING_MUTANTS
from tests.sim.pending_world import PendingWorld, first_broken

SEEDS = 80


@pytest.mark.parametrize("seed", range(SEEDS))
def test_pending_offsets_keep_their_word(seed: int) -> None:
    PendingWorld(seed).simulate()


@pytest.mark.parametrize("bug", PENDING_MUTANTS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        error = first_broken(range(SEEDS))
    assert error is not None, f"{bug.name}: survived {SEEDS} seeds"
    assert not isinstance(error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"
