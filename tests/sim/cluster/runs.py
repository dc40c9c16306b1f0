"""Running the seeds of clusters, and telling what went wrong.

By hand: ``python -m tests.sim.cluster.runs FIRST [LAST] [--trace]``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.cluster.plan import ClusterPlan, draw
from tests.sim.cluster.world import ClusterWorld

TAIL = 60


@dataclass
class Failure:
    """A plan that does not hold."""

    plan: ClusterPlan
    error: Exception
    world: ClusterWorld

    def report(self) -> str:
        trace = self.world.trace()
        return "\n".join(
            [
                f"The simulation of a cluster fails: {self.error!r}",
                f"See it again: python -m tests.sim.cluster.runs {self.plan.seed} --trace",
                self.plan.describe(),
                f"The last {TAIL} lines of {len(trace)}:",
                *(line[:300] for line in trace[-TAIL:]),
            ]
        )


def run(plan: ClusterPlan) -> Failure | None:
    """Simulate a plan; None if all is well."""
    world = ClusterWorld(plan)
    try:
        world.simulate()
    except Exception as error:
        return Failure(plan, error, world)
    return None


def survive(seeds: range) -> None:
    """Let every seed run. Raises an `AssertionError` with a report of the first that does not hold."""
    for seed in seeds:
        failure = run(draw(seed))
        assert failure is None, failure.report()


def first_to_fail(seeds: range, focus: Iterable[str]) -> Failure | None:
    """The first seed that does not hold."""
    return next(filter(None, (run(draw(seed, focus)) for seed in seeds)), None)


def main() -> int:
    first, *last = (int(word) for word in sys.argv[1:] if not word.startswith("--"))
    failed = 0
    for seed in range(first, (last[0] if last else first) + 1):
        world = ClusterWorld(draw(seed))
        try:
            world.simulate()
        except Exception as error:
            failed += 1
            print(Failure(world.plan, error, world).report())
        if "--trace" in sys.argv:
            print("\n".join(world.trace()))
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
