"""``python -m tests.chaos.postgres.run`` plays faults with three nodes over a PostgreSQL with a standby, under load.

Prints the seed first. A run with the same seed plays the same faults in the same order.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.exactly_once import ExactlyOnce
from tests.chaos.postgres.faults import Gaps, OverPostgres
from tests.chaos.postgres.planted import PLANTED
from tests.chaos.under_load import UnderLoad

LOADS = ("confluent", "ottla", "java")
UNORDERED = ("confluent-acks-1",)
"""librdkafka 2.16, unless idempotent, sends what comes next to a new leader while the old one still owes an answer."""
KINDS = {"load": partial(UnderLoad, unordered=UNORDERED), "exactly-once": ExactlyOnce}


def run(
    rounds: Mapping[str, int], seed: int, loads: Sequence[str] = LOADS, *, quiet: bool = False, **options: Any
) -> Gaps:
    """Run so many rounds of each kind of load; gives how long groups went unanswered.

    Args:
        loads: whose clients are there.
        options: as of `OverPostgres`.

    Raises:
        AssertionError: the message says what was promised and not kept.
    """
    print(f"faults: {dict(rounds)}, seed {seed} (again with --seed {seed})", flush=True)
    began = time.monotonic()
    gaps = Gaps()

    def say(words: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - began:6.1f} {words}", flush=True)

    try:
        for kind, count in rounds.items():
            if count:
                killing_of = partial(OverPostgres, seed, gaps, **options)
                say(f"{kind}: {KINDS[kind](killing_of, say, several=True, loads=loads).run(count)}")
    finally:
        print(f"how long groups went unanswered:\n{gaps.table()}", flush=True)
    print(f"passed: {dict(rounds)} in {time.monotonic() - began:.0f} s", flush=True)
    return gaps


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=200, help="two in three under load, one in three with transactions"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", action="append", default=[], help="this kind of fault; may be said several times")
    parser.add_argument("--load", action="append", default=[], choices=LOADS, help="with these clients alone")
    parser.add_argument("--kind", choices=sorted(KINDS), help="with this kind of load alone")
    parser.add_argument("--logs", type=Path, help="put logs and the primary's directory there at the end")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="a bug of all nodes, which the run is to find")
    parser.add_argument("--quiet", action="store_true", help="no line for each round")
    given = parser.parse_args(arguments)
    half = given.rounds // 3
    rounds = {given.kind: given.rounds} if given.kind else {"load": given.rounds - half, "exactly-once": half}
    options = {"only": given.only, "logs": given.logs, "planted": given.planted}
    try:
        run(rounds, given.seed, given.load or LOADS, quiet=given.quiet, **options)
    except AssertionError as broken:
        print(f"FAILED, seed {given.seed}:\n{broken}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
