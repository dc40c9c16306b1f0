"""Bugs planted in compaction, each of which the model has to find within some games."""

import pytest

from ottla.broker.core.cleaning import compaction
from ottla.protocol.records import BatchError
from tests.core.cleaning.games import play, play_with_little_memory
from tests.sim.mutants import read_bugs

GAMES = 60


def survives():
    try:
        for seed in range(GAMES):
            play(seed, rounds=7)
            play_with_little_memory(seed)
            play_with_little_memory(seed, pause_ms=10)
    except (AssertionError, BatchError, ValueError, KeyError):
        return False
    return True


@pytest.mark.parametrize("bug", read_bugs("compaction"), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    with bug.planted():
        assert not survives()


def test_nothing_is_found_where_nothing_is_planted(monkeypatch):
    monkeypatch.setattr(compaction, "STEP_RECORDS", 2)
    assert survives()
