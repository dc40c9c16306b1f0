"""Shared by the load processes: command line, pace of producers, values of records."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.events import Committed, Ended, Generation, Saw, Trouble, tell

PARTITIONS = 3
BURST = 6
PAUSE_S = 0.06
"""A producer sends a burst to its topic, then pauses."""
MIXED = "mixed"
"""The group in which every kind of client is."""
COMES_AND_GOES = "comes-and-goes"
"""A group of two, one of whom leaves it again and again."""
SESSION_MS = 3_000


@dataclass(frozen=True)
class Role:
    """The task of one process.

    Attributes:
        static: its name is also its group.instance.id.
    """

    name: str
    bootstrap: str
    topics: list[str]
    seed: int = 0
    static: bool = False


def value_of(number: int) -> str:
    """The text of a producer's record number ``number``, which goes to partition ``number % PARTITIONS``."""
    return f"v{number}"


def number_of(value: str) -> int:
    return int(value[1:])


def bursts(size: int = BURST) -> Iterator[range]:
    """The numbers of a producer's records, a burst at a time, without end."""
    for start in itertools.count(0, size):
        yield range(start, start + size)


class Member:
    """Tells what a member of a group does; records, places and errors are as the clients in pure Python have them."""

    def __init__(self, group: str, name: str) -> None:
        self._group = group
        self._name = name
        self._known = -1

    def saw(self, batches: Mapping[Any, Sequence[Any]]) -> dict[Any, int]:
        """Records by partition; gives the offsets that are to be committed for them."""
        for tp, records in batches.items():
            tell(*(Saw(self._group, tp.topic, tp.partition, one.offset, one.value.decode()) for one in records))
        return {tp: records[-1].offset + 1 for tp, records in batches.items()}

    @contextlib.contextmanager
    def committing(
        self, ends: Mapping[Any, int], error: type[Exception], lost: tuple[type[Exception], ...]
    ) -> Iterator[None]:
        """A commit; ``lost`` are errors for which nobody is to blame, as the partitions are another member's now."""
        try:
            yield
        except lost:
            return
        except error as failure:
            if not failure.retriable:  # type: ignore[attr-defined]
                tell(Trouble(f"{self._group}: commit: {failure!r}"))
            return
        tell(*(Committed(self._group, tp.topic, tp.partition, offset) for tp, offset in ends.items()))

    def is_in(self, generation: int | None) -> None:
        """The generation of a stable group, or None."""
        if generation is not None and generation != self._known:
            self._known = generation
            tell(Generation(self._group, self._name, generation))


def role_of(arguments: Sequence[str] | None = None) -> Role:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", action="append", default=[], dest="topics")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--static", action="store_true")
    return Role(**vars(parser.parse_args(arguments)))


def until_told() -> threading.Event:
    """An event that is set when the parent closes standard input: finish, and end."""
    told = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        told.set()

    threading.Thread(target=wait, daemon=True).start()
    return told


def run_threads(role: Role, parts: Sequence[Callable[[threading.Event], None]]) -> None:
    """Run each part in a thread of its own until the parent says stop."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # shows where a process hangs
    stopping = until_told()

    def guarded(part: Callable[[threading.Event], None]) -> None:
        try:
            part(stopping)
        except BaseException as error:
            tell(Trouble(f"{role.name}: {part} ended with {error!r}"))
            raise

    threads = [threading.Thread(target=guarded, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(Ended(role.name))


def run_tasks(role: Role, parts: Sequence[Callable[[asyncio.Event], Coroutine[Any, Any, None]]]) -> None:
    """Run each part as a task of one event loop until the parent says stop."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)

    async def main() -> None:
        told = until_told()
        stopping = asyncio.Event()

        async def guarded(part: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
            try:
                await part(stopping)
            except BaseException as error:
                tell(Trouble(f"{role.name}: {part} ended with {error!r}"))
                raise

        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(guarded(part))
            await asyncio.to_thread(told.wait)
            stopping.set()

    asyncio.run(main())
    tell(Ended(role.name))


async def pause(stopping: asyncio.Event, seconds: float = PAUSE_S) -> None:
    """Wait, but not after the stop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
