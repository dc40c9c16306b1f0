"""``python -m tests.chaos.run load`` kills a broker under load; ``exactly-once`` kills applications besides.
With ``--nodes 3`` there are several, which are killed, stopped for a while and restarted.

Prints the seed first. A run with the same seed kills at the same moments after the same events, as far as two
machines can be alike.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.chaos.exactly_once import ExactlyOnce
from tests.chaos.nodes import killing_of
from tests.chaos.under_load import UnderLoad

KINDS = {"load": UnderLoad, "exactly-once": ExactlyOnce}


def run(kind: str, rounds: int, seed: int, nodes: int | None = None, *, quiet: bool = False) -> None:
    """Run so many rounds, against one broker or so many nodes.

    Raises:
        AssertionError: the message says what was promised and not kept.
    """
    who = f"{nodes} nodes" if nodes else "one broker"
    print(f"{kind}: {rounds} rounds with {who}, seed {seed} (again with --seed {seed})", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-chaos-") as directory:

        def say(words: str) -> None:
            if not quiet:
                print(words, flush=True)

        brokers = partial(killing_of, Path(directory) / "data", nodes, seed)
        totals = KINDS[kind](brokers, say, several=nodes is not None).run(rounds)
    print(f"passed: {rounds} rounds in {time.monotonic() - began:.0f} s; {totals}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--nodes", type=int, help="kill, stop and restart one of so many nodes; without it one broker")
    parser.add_argument("--quiet", action="store_true", help="no line for each round")
    given = parser.parse_args(arguments)
    try:
        run(given.kind, given.rounds, given.seed, given.nodes, quiet=given.quiet)
    except AssertionError as broken:
        print(f"FAILED, seed {given.seed}:\n{broken}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
