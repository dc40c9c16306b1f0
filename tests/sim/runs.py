"""Running seeds, and telling what went wrong: which seed, how to see it again, the least that still shows it."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.driven import DrivenWorld
from tests.sim.kernel import Violation
from tests.sim.plan import Plan, draw
from tests.sim.world import World

TAIL = 60


@dataclass(slots=True)
class Failure:
    """A plan that does not hold."""

    plan: Plan
    error: Exception
    world: World

    @property
    def trace(self) -> list[str]:
        return self.world.trace()

    @property
    def rule(self) -> str:
        return self.error.rule if isinstance(self.error, Violation) else type(self.error).__name__

    def report(self) -> str:
        trace = self.trace
        driven = " --driven" if self.plan.driven else ""
        number = self.plan.seed.removeprefix("driven ")
        return "\n".join(
            [
                f"The simulation fails: {self.error!r}",
                f"See it again: python -m tests.sim {number}{driven}",
                self.plan.describe(),
                f"The last {TAIL} lines of {len(trace)}:",
                *(line[:300] for line in trace[-TAIL:]),
            ]
        )


def make_world(plan: Plan) -> World:
    return DrivenWorld(plan) if plan.driven else World(plan)


def run(plan: Plan) -> Failure | None:
    """Simulate a plan; None if all is well."""
    world = make_world(plan)
    try:
        world.simulate()
    except Exception as error:
        while isinstance(error, ExceptionGroup):  # of the storage, whose callbacks are told on one by one
            error = error.exceptions[0]
        return Failure(plan, error, world)
    return None


def shrink(failure: Failure, most_runs: int = 150) -> Failure:
    """Leave out what is not needed for the same rule to be broken."""
    runs, best, goes_on = 0, failure, True
    while goes_on:
        goes_on = False
        for plan in best.plan.simpler():
            runs += 1
            found = run(plan) if runs <= most_runs else None
            if found is not None and found.rule == best.rule:
                best, goes_on = found, True
                break
    return best


def survive(seeds: range, *, driven: bool = False) -> None:
    """Let every seed run, and fail with a report of the first that does not hold.

    Raises:
        AssertionError: with the seed, and a smaller plan that breaks the same rule.
    """
    for seed in seeds:
        failure = run(draw(seed, driven=driven))
        if failure is not None:
            smaller = shrink(failure)
            raise AssertionError(f"{failure.report()}\n\nThe least that still shows it:\n{smaller.report()}")
        gc.collect(0)


def first_to_fail(seeds: range, *, driven: bool = False, focus: Iterable[str] = ()) -> Failure | None:
    """The first seed that does not hold."""
    for seed in seeds:
        if (failure := run(draw(seed, driven=driven, focus=focus))) is not None:
            return failure
    return None
