"""Random lives of a partition with transactions, and the bugs that they must find."""

from __future__ import annotations

import pytest

from tests.sim.mutants import Mutant
from tests.sim.partition_mutants import PARTITION_MUTANTS
from tests.sim.partition_world import PartitionWorld, first_broken

SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_partition_keeps_its_word(seed: int) -> None:
    PartitionWorld(seed).simulate()


@pytest.mark.parametrize("bug", PARTITION_MUTANTS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        error = first_broken(range(SEEDS))
    assert error is not None, f"{bug.name}: survived {SEEDS} seeds"
    assert not isinstance(error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"


def test_every_life_is_one_of_its_own() -> None:
    worlds = [PartitionWorld(seed) for seed in range(SEEDS)]
    for world in worlds:
        world.simulate()
    assert len({bytes(world.log.read(world.log.log_start_offset, max_bytes=1 << 30)) for world in worlds}) == SEEDS
    assert any(world.trims for world in worlds) and not all(world.trims for world in worlds)
