"""Run random traces, many at a time, and reduce those that differ."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.differential.compare import leaders_only, report, signature
from tests.differential.kinds import KINDS, kind_of, moves_of
from tests.differential.pairs import Move, Pair
from tests.differential.play import play
from tests.differential.shrink import shrunk
from tests.differential.users import SLOTS

AT_ONCE = 40
FEW_AT_ONCE = 6
ATTEMPTS = 3
SHRUNK = 6
"""So many traces that differ are reduced; it takes a while."""
REPORT_EVERY_S = 5.0

_fresh = itertools.count()
_slots = list(range(SLOTS))


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
    slot = _slots.pop()
    try:
        pair = Pair(ports, f"{kind}{seed}.{next(_fresh)}.", patience, slot)
        await play(pair, KINDS[kind], moves)
    finally:
        _slots.append(slot)
    return pair


def verdict(pair: Pair) -> str:
    """What a pair differs in; empty if it does not, or only in what is arbitrary."""
    if pair.at is None or leaders_only(pair.ours.transcript, pair.theirs.transcript, pair.at):
        return ""
    return signature(pair.ours.transcript, pair.theirs.transcript, pair.at)


async def attempt(ports: tuple[int, int], seed: int, number: int, moves: Sequence[Move] | None = None) -> Result:
    """Play a seed once; the more patiently the higher the number."""
    pair = await play_seed(ports, seed, moves_of(seed) if moves is None else moves, number)
    answers = pair.theirs.answers
    if pair.at is None:
        return Result(seed, answers)
    differs = verdict(pair)
    return Result(seed, answers, describe(pair, seed), differs) if differs else Result(seed, answers, ambiguous=True)


def followed(result: Result, again: Result) -> Result:
    """A result and that of the next attempt, as one."""
    answers = result.answers + again.answers
    unsteady = "" if again.text or again.ambiguous else result.signature
    return again._replace(answers=answers, unsteady=unsteady)


async def run_seed(ports: tuple[int, int], seed: int, keep: Sequence[int] | None = None) -> Result:
    """Play a seed, or some of its moves, up to three times if it differs, each more patiently."""
    moves = moves_of(seed)
    if keep is not None:
        moves = [moves[index] for index in keep]
    result = await attempt(ports, seed, 0, moves)
    for number in range(1, ATTEMPTS):
        if not result.text:
            break
        result = followed(result, await attempt(ports, seed, number, moves))
    return result


def describe(pair: Pair, seed: int) -> str:
    assert pair.at is not None
    return report(f"{kind_of(seed)} {seed}", pair.ours.transcript, pair.theirs.transcript, pair.at, alone=True)


async def first_to_differ(ports: tuple[int, int], seeds: Iterable[int]) -> tuple[Result | None, int]:
    """Play seeds, many at a time, until one differs, alone too; also how many were played."""
    left = iter(seeds)
    played = 0
    while True:
        found: list[Result] = []

        async def work(found: list[Result] = found) -> None:
            while not any(result.text for result in found) and (seed := next(left, None)) is not None:
                found.append(await run_seed(ports, seed))

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        played += len(found)
        differing = [result.seed for result in found if result.text]
        for seed in differing:
            if (result := await run_seed(ports, seed)).text:
                return result, played
        if not differing:
            return None, played


async def run_seeds(ports: tuple[int, int], seeds: Iterable[int]) -> list[Result]:
    """Play seeds, many at a time; then those that differ again, with few beside them, and at last alone."""
    results = await _at_once(ports, seeds, 0, AT_ONCE, {})
    for number, at_once in ((1, FEW_AT_ONCE), (2, 1)):
        again = [seed for seed, result in results.items() if result.text]
        results |= await _at_once(ports, again, number, at_once, results)
    return list(results.values())


async def _at_once(
    ports: tuple[int, int], seeds: Iterable[int], number: int, at_once: int, before: Mapping[int, Result]
) -> dict[int, Result]:
    """An attempt at each of the seeds, so many at a time."""
    left = iter(seeds)
    found: dict[int, Result] = {}

    async def work() -> None:
        for seed in left:
            result = await attempt(ports, seed, number)
            found[seed] = followed(before[seed], result) if seed in before else result
            if found[seed].text and number == ATTEMPTS - 1:
                print(f"differs: seed {seed} ({kind_of(seed)}): {result.signature}", flush=True)

    ticker = asyncio.create_task(_tell(found, number, time.monotonic()))
    try:
        await asyncio.gather(*(work() for _ in range(at_once)))
    finally:
        ticker.cancel()
    return found


async def _tell(found: Mapping[int, Result], number: int, started: float) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        seconds = time.monotonic() - started
        differing = sum(bool(result.text) for result in found.values())
        answers = sum(result.answers for result in found.values())
        again = f", attempt {number + 1}" if number else ""
        print(f"{seconds:6.0f} s{again}: {len(found)} seeds, {answers} answers, "
              f"{len(found) / seconds:.1f} seeds a second, {differing} differ", flush=True)  # fmt: skip


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
