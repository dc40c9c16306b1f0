"""Run random traces, many at a time, and reduce those that differ."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.differential.compare import leaders_only, report, signature
from tests.differential.kinds import KINDS, kind_of, moves_of
from tests.differential.pairs import Move, Pair
from tests.differential.play import play
from tests.differential.shrink import shrunk

AT_ONCE = 40
ATTEMPTS = 3
SHRUNK = 6
"""So many traces that differ are reduced; it takes a while."""
REPORT_EVERY_S = 5.0

_fresh = itertools.count()


class Result(NamedTuple):
    """What came of a seed. ``signature`` says what differs, without ids."""

    seed: int
    answers: int
    text: str = ""
    signature: str = ""
    unsteady: str = ""  # what differed before it agreed
    ambiguous: bool = False


async def play_seed(ports: tuple[int, int], seed: int, moves: Sequence[Move], patience: int = 0) -> Pair:
    """Play the moves of a seed, or some of them, under a name that was never used."""
    kind = kind_of(seed)
    pair = Pair(ports, f"{kind}{seed}.{next(_fresh)}.", patience)
    await play(pair, KINDS[kind], moves)
    return pair


def verdict(pair: Pair) -> str:
    """What a pair differs in; empty if it does not, or only in what is arbitrary."""
    if pair.at is None or leaders_only(pair.ours.transcript, pair.theirs.transcript, pair.at):
        return ""
    return signature(pair.ours.transcript, pair.theirs.transcript, pair.at)


async def run_seed(ports: tuple[int, int], seed: int, keep: Sequence[int] | None = None) -> Result:
    """Play a seed, up to three times if it differs, each more patiently."""
    moves = moves_of(seed)
    if keep is not None:
        moves = [moves[index] for index in keep]
    answers = 0
    before = ""
    pair: Pair
    for attempt in range(ATTEMPTS):
        pair = await play_seed(ports, seed, moves, attempt)
        answers += pair.theirs.answers
        if pair.at is None:
            return Result(seed, answers, unsteady=before)
        if not verdict(pair):
            return Result(seed, answers, ambiguous=True)
        before = verdict(pair)
    return Result(seed, answers, describe(pair, seed), verdict(pair))


def describe(pair: Pair, seed: int) -> str:
    assert pair.at is not None
    return report(f"{kind_of(seed)} {seed}", pair.ours.transcript, pair.theirs.transcript, pair.at, alone=True)


async def run_seeds(ports: tuple[int, int], seeds: Iterable[int], *, until_first: bool = False) -> list[Result]:
    """Play seeds, many at a time; with ``until_first`` no more once one differs."""
    left = iter(seeds)
    found: list[Result] = []
    stop = asyncio.Event()

    async def work() -> None:
        for seed in left:
            result = await run_seed(ports, seed)
            found.append(result)
            if result.text:
                print(f"differs: seed {seed} ({kind_of(seed)}): {result.signature}", flush=True)
                if until_first:
                    stop.set()
            if stop.is_set():
                return

    started = time.monotonic()
    ticker = asyncio.create_task(_tell(found, started))
    try:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    finally:
        ticker.cancel()
    return found


async def _tell(found: list[Result], started: float) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        seconds = time.monotonic() - started
        differing = sum(bool(result.text) for result in found)
        answers = sum(result.answers for result in found)
        print(
            f"{seconds:6.0f} s: {len(found)} seeds, {answers} answers, {len(found) / seconds:.1f} seeds a second, "
            f"{differing} differ",
            flush=True,
        )


async def reduce(ports: tuple[int, int], results: Sequence[Result]) -> None:
    """Print the differing traces, one for each thing that differs, in their shortest form."""
    firsts: dict[str, Result] = {}
    for result in sorted(results):
        if result.text:
            firsts.setdefault(result.signature, result)
    for number, result in enumerate(firsts.values()):
        if number >= SHRUNK:
            print(result.text)
            print(f"  again: python -m tests.differential.run --seed {result.seed}\n", flush=True)
            continue
        await _print_shortest(ports, result)


async def _print_shortest(ports: tuple[int, int], result: Result) -> None:
    moves = moves_of(result.seed)

    async def still_differs(keep: Sequence[int]) -> bool:
        pair = await play_seed(ports, result.seed, [moves[index] for index in keep], 1)
        return verdict(pair) == result.signature

    keep = await shrunk(len(moves), still_differs)
    pair = await play_seed(ports, result.seed, [moves[index] for index in keep], 1)
    print(describe(pair, result.seed) if pair.at is not None else result.text)
    for index in keep:
        print(f"    [{index}] {moves[index]}")
    kept = ",".join(str(index) for index in keep)
    print(f"  again: python -m tests.differential.run --seed {result.seed} --keep {kept}\n", flush=True)
