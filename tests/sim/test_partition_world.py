"""Random lives of a partition with transactions and of groups that commit in them, and the bugs that they must find."""

from __future__ import annotations

import pytest

from tests.sim.mutants import PARTITION_MUTANTS, PENDING_MUTANTS, Mutant, failure_of
from tests.sim.partition_world import PartitionWorld
from tests.sim.pending_world import PendingWorld

WORLDS = {PartitionWorld: range(60), PendingWorld: range(80)}
"""World → seeds."""
BUGS = [
    pytest.param(world, bug, id=bug.name)
    for world, bugs in ((PartitionWorld, PARTITION_MUTANTS), (PendingWorld, PENDING_MUTANTS))
    for bug in bugs
]

World = type[PartitionWorld | PendingWorld]


@pytest.mark.parametrize(("world", "seed"), [(world, seed) for world, seeds in WORLDS.items() for seed in seeds])
def test_it_keeps_its_word(world: World, seed: int) -> None:
    world(seed).simulate()


@pytest.mark.parametrize(("world", "bug"), BUGS)
def test_a_planted_bug_is_found(world: World, bug: Mutant) -> None:
    with bug.planted():
        error = next(filter(None, (failure_of(world(seed).simulate) for seed in WORLDS[world])), None)
    assert error is not None, f"{bug.name}: survived {len(WORLDS[world])} seeds"
    assert not isinstance(error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"


def test_every_life_is_one_of_its_own() -> None:
    worlds = [PartitionWorld(seed) for seed in WORLDS[PartitionWorld]]
    for world in worlds:
        world.simulate()
    lives = {bytes(world.log.read(world.log.log_start_offset, max_bytes=1 << 30)) for world in worlds}
    assert len(lives) == len(worlds)
    assert any(world.trims for world in worlds) and not all(world.trims for world in worlds)
