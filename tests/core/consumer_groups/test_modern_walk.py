"""Members that do anything at any time; see `modern_walk`. A failure names its seed."""

from __future__ import annotations

import os
from functools import partial

import pytest

from ottla.broker.core.events import GroupConverted
from tests.core.consumer_groups.modern_walk import STEPS, Walk, play
from tests.sim.mutants import Mutant, failure_of, read_bugs

SEEDS = range(600 if os.environ.get("OTTLA_TESTS") == "long" else 40)
BUG_SEEDS = 60


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_contradicts_itself(seed: int) -> None:
    play(seed)


def trace(seed: int) -> list[str]:
    walk = Walk(seed)
    for _ in range(120):
        walk.step()
    return [f"{event.group_id} {event.cause} {event.summary()}" for event in walk.world.events]


def test_one_seed_gives_one_trace() -> None:
    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_the_walk_gets_around() -> None:
    """What it is meant to see happens in it."""
    kinds: dict[str, int] = {}
    short = 0
    for seed in range(8):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
        walk.converge()
        for person in walk.people[1:3] * 6:
            person.heartbeat()
            walk.check()
        short += walk.world.short_beats
        for event in walk.world.events:
            kind = type(event).__name__
            if isinstance(event, GroupConverted):
                kind += f" to {event.after}" + (", and told to rejoin" if event.told_to_rejoin else "")
            kinds[kind] = kinds.get(kind, 0) + 1
    expected = (
        "MemberReconciled",
        "TargetComputed",
        "TargetDelayed",
        "MemberFenced",
        "StaticMemberAway",
        "MemberReplaced",
        "MemberMustRejoin",
        "MemberSynced",
        "ConversionRefused",
        "GroupConverted to consumer",
        "GroupConverted to consumer, and told to rejoin",
        "GroupConverted to classic",
    )
    for kind in (*expected, "RegexesResolved", "WriteFailed", "GroupRemoved", "ConsumerGroupLoaded"):
        assert kinds.get(kind, 0) > 0, kind
    assert short > 10


@pytest.mark.slow
@pytest.mark.parametrize("bug", read_bugs("consumer_groups"), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    """The walk counts only as long as it finds every one of them."""
    with bug.planted():
        outcomes = ((seed, failure_of(partial(play, seed))) for seed in range(BUG_SEEDS))
        failed = next((outcome for outcome in outcomes if outcome[1] is not None), None)
    assert failed is not None, f"{bug.name}: survived {BUG_SEEDS} seeds"
    seed, error = failed
    print(f"{bug.name}: seed {seed}, {error!r:.150}")
    assert not isinstance(error, (NameError, AttributeError, SyntaxError)), "a bug of the bug"
    assert failure_of(partial(play, seed)) is None, "without the bug it does not hold either"
