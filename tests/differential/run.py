"""Run traces against Apache Kafka and Ottla and say where they differ: ``python -m tests.differential.run --help``."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import itertools
import sys
import time
from collections import Counter

from tests.differential.beside import brokers
from tests.differential.kinds import KINDS, kind_of, moves_of, profile_of
from tests.differential.real_kafka import NoJava, version
from tests.differential.seeds import Result, reduce, run_seed, run_seeds
from tests.differential.written import Case, Outcome, cases, run_cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of written traces, with * and ?; all without any")
    parser.add_argument("--seeds", type=int, default=300, help="how many random traces")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--random", action="store_true", help="random traces only")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="random traces of this kind only")
    parser.add_argument("--seed", type=int, help="one random trace")
    parser.add_argument("--keep", help="with --seed: the moves that are left of it")
    parser.add_argument("--nodes", type=int, metavar="N", help="have Ottla be so many nodes")
    parser.add_argument("--all", action="store_true", help="print whole transcripts of Kafka")
    options = parser.parse_args()
    try:
        if options.seed is not None:
            keep = [int(part) for part in options.keep.split(",")] if options.keep else None
            return asyncio.run(_one(options.seed, keep, options.nodes))
        return _run(options)
    except NoJava as missing:
        print(f"SKIPPED: {missing}")
        return 0


async def _one(seed: int, keep: list[int] | None, nodes: int | None) -> int:
    moves = moves_of(seed)
    for index in keep or range(len(moves)):
        print(f"    [{index}] {moves[index]}")
    with brokers(profile_of(seed), nodes) as ports:
        result = await run_seed(ports, seed, keep)
    print(result.text or "no difference")
    return int(bool(result.text))


def _wanted(patterns: list[str]) -> list[Case]:
    return [
        case
        for case in cases()
        if (not patterns and not case.name.startswith("slow-"))
        or any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)
    ]


def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    written: list[Outcome] = []
    seeded: list[Result] = []
    if not options.random:
        written = run_cases(_wanted(options.patterns), options.all, options.nodes)
        print(f"{len(written)} written traces took {time.monotonic() - started:.0f} s", flush=True)
    if not options.patterns and options.seeds:
        wanted = (seed for seed in itertools.count(options.first) if kind_of(seed) in (options.kind or KINDS))
        seeded = asyncio.run(_seeds(list(itertools.islice(wanted, options.seeds)), options.nodes))
    differences = sum(bool(item.difference) for item in written) + sum(bool(item.text) for item in seeded)
    both = [*written, *seeded]
    for what, times in Counter(item.unsteady for item in seeded if item.unsteady).most_common():
        print(f"    {times} agreed only when run again: {what}")
    print(f"Apache Kafka {version()}: {len(written)} written traces, {len(seeded)} seeds, "
          f"{sum(item.answers for item in both)} answers compared in {time.monotonic() - started:.0f} s, "
          f"{differences} differences, {sum(item.ambiguous for item in both)} ended by an arbitrary leader, "
          f"{sum(bool(item.unsteady) for item in both)} traces that agreed only when run again")  # fmt: skip
    return int(differences > 0)


async def _seeds(seeds: list[int], nodes: int | None) -> list[Result]:
    found: list[Result] = []
    for profile in ("prompt", "secured"):
        if wanted := [seed for seed in seeds if profile_of(seed) == profile]:
            with brokers(profile, nodes) as ports:
                results = await run_seeds(ports, wanted)
                await reduce(ports, results)
            found += results
    return found


if __name__ == "__main__":
    sys.exit(main())
