"""Run seeds by hand: ``python -m tests.sim FIRST [LAST] [--driven] [--trace] [--shrink]``."""

from __future__ import annotations

import argparse
import sys

from tests.sim.plan import draw
from tests.sim.runs import make_world, run, shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate the group coordinator.")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--driven", action="store_true", help="through frames, dispatcher, driver and engine")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--shrink", action="store_true", help="look for the least that still fails")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, (options.first if options.last is None else options.last) + 1):
        plan = draw(seed, driven=options.driven)
        if options.trace:
            world = make_world(plan)
            try:
                world.simulate()
            finally:
                print("\n".join(world.trace()))
        elif failure := run(plan):
            failed += 1
            print((shrink(failure) if options.shrink else failure).report())
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
