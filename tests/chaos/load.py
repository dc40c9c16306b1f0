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
STEADY = {"steady-classic": "classic", "steady-consumer": "consumer"}
"""Groups whose members stay, and their protocols: once all are there, nothing moves them to another generation."""
STEADY_SESSION_MS = 60_000
"""Longer than any node is away."""
STEADY_MEMBERS = ("confluent", "java", "ottla")


def steady(topics: Sequence[str]) -> list[str]:
    """The topics that steady groups read: those in which each record is once."""
    return [topic for topic in topics if topic.endswith("-once")]


@dataclass(frozen=True)
class Role:
    """The task of one process.

    Attributes:
        static: its name is also its group.instance.id.
        pause_s: between two bursts of a producer.
    """

    name: str
    bootstrap: str
    topics: list[str]
    seed: int = 0
    static: bool = False
    pause_s: float = PAUSE_S


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
    parser.add_argument("--pause-s", type=float, default=PAUSE_S)
    return Role(**vars(parser.parse_args(arguments)))


def told() -> tuple[threading.Event, threading.Event]:
    """Events that are set when the parent writes a line, which ends writers, and when it closes standard input."""
    enough, over = threading.Event(), threading.Event()

    def wait() -> None:
        sys.stdin.buffer.readline()
        enough.set()
        sys.stdin.buffer.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    return enough, over


Thread = Callable[[threading.Event], None]
Task = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


def run_threads(role: Role, parts: Sequence[Thread], writers: Sequence[Thread] = ()) -> None:
    """Run each part in a thread of its own until the parent says stop; writers stop earlier."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # shows where a process hangs
    enough, over = told()

    def guarded(part: Thread, stopping: threading.Event) -> None:
        try:
            part(stopping)
        except BaseException as error:
            tell(Trouble(f"{role.name}: {part} ended with {error!r}"))
            raise

    whole = [*((part, over) for part in parts), *((part, enough) for part in writers)]
    threads = [threading.Thread(target=guarded, args=one) for one in whole]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.wait()  # one who only writes is to be there until then, too
    tell(Ended(role.name))


def run_tasks(role: Role, parts: Sequence[Task], writers: Sequence[Task] = ()) -> None:
    """Run each part as a task of one event loop until the parent says stop; writers stop earlier."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)

    async def main() -> None:
        enough, over = told()
        written, stopping = asyncio.Event(), asyncio.Event()

        async def guarded(part: Task, stopping: asyncio.Event) -> None:
            try:
                await part(stopping)
            except BaseException as error:
                tell(Trouble(f"{role.name}: {part} ended with {error!r}"))
                raise

        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(guarded(part, stopping))
            for part in writers:
                tasks.create_task(guarded(part, written))
            await asyncio.to_thread(enough.wait)
            written.set()
            await asyncio.to_thread(over.wait)
            stopping.set()

    asyncio.run(main())
    tell(Ended(role.name))


async def pause(stopping: asyncio.Event, seconds: float = PAUSE_S) -> None:
    """Wait, but not after the stop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
