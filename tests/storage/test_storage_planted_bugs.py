"""The crash suite counts only as long as it finds every planted bug, and soon."""

from functools import cache

import pytest

from tests.sim.mutants import read_bugs
from tests.storage.crash_world import run

SEEDS = 150


@cache
def holds(seed, focus):
    """Whether the right code survives a seed; many bugs are found by the same."""
    run(seed, focus)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("bug", read_bugs("storage"), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug, record_property):
    found = None
    with bug.planted():
        for seed in range(SEEDS):
            try:
                run(seed, bug.focus)
            except Exception as error:
                found = seed, error
                break
    assert found is not None, f"{bug.name}: survived {SEEDS} seeds"
    seed, error = found
    record_property("killed by", f"seed {seed}: {error}")
    assert holds(seed, bug.focus), "without the bug it does not hold either"
    assert not isinstance(error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"
