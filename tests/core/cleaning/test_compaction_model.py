"""Compaction held against a naive model, over random logs and several rounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cleaning.games import play, play_with_little_memory


@pytest.mark.parametrize("seed", range(150))
def test_random_logs(seed):
    play(seed)


@settings(max_examples=150, deadline=None)
@given(st.integers(100_000, 10**12), st.integers(1, 60), st.integers(1, 6))
def test_more_random_logs(seed, steps, rounds):
    play(seed, steps, rounds)


@pytest.mark.parametrize("seed", range(40))
def test_little_memory_takes_more_rounds_and_comes_to_the_same(seed):
    assert play_with_little_memory(seed) >= 3
    assert play_with_little_memory(seed, pause_ms=10) >= 3
