"""``python -m tests.chaos.run load`` kills a broker under load; ``exactly-once`` kills applications besides.

Prints the seed first. A run with the same seed kills at the same moments after the same events, as far as two
machines can be alike.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.under_load import Broken, UnderLoad


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["load", "exactly-once"])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--quiet", action="store_true", help="no line for each round")
    given = parser.parse_args(arguments)
    print(f"{given.kind}: {given.rounds} rounds, seed {given.seed} (again with --seed {given.seed})", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-chaos-") as directory:
        say = (lambda words: None) if given.quiet else (lambda words: print(words, flush=True))
        test = UnderLoad(Path(directory) / "data", given.seed, say)
        try:
            test.run(given.rounds)
        except Broken as broken:
            print(f"FAILED, seed {given.seed}:\n{broken}", flush=True)
            return 1
    print(f"passed: {given.rounds} rounds in {time.monotonic() - began:.0f} s; {test.ledger.totals()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
