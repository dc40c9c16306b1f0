"""Acknowledged means recovered, however often and wherever the process or the machine dies.

A test's parameter is its first seed: run it again with ``-k`` and everything dies at the same place.
"""

import pytest

from tests.storage.crash_world import run

SAMPLE = 60
SEEDS_AT_A_TIME = 100
SEEDS = 2_000
CRASH_POINTS = 10_000


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_acknowledged_means_recovered(seed):
    run(seed)


@pytest.mark.parametrize("seed", range(20))
def test_having_nothing_to_open_files_with_ends_nothing(seed):
    ends, _ = run(seed, focus=("handles",))
    assert "failed" not in ends


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_AT_A_TIME))
def test_acknowledged_means_recovered_at_length(first):
    deaths = 0
    for seed in range(first, first + SEEDS_AT_A_TIME):
        ends, _ = run(seed)
        deaths += sum(end != "closed" for end in ends)
    # As many of these tests as there are make ten thousand.
    assert deaths * SEEDS >= 0.95 * CRASH_POINTS * SEEDS_AT_A_TIME


def test_the_runs_reach_what_they_are_meant_to_reach():
    """Crashes, clean ends and fatal errors all happen, and damage too, or the tests above say little."""
    ends = []
    damages = 0
    for seed in range(60):
        how, damaged = run(seed)
        ends += how
        damages += damaged
    assert {end: ends.count(end) >= 5 for end in set(ends)} == dict.fromkeys(
        ("crashed", "closed", "failed", "killed"), True
    )
    assert damages >= 5
