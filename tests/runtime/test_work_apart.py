"""Long work that no single request owns: it is done beside everything else, and comes back once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ottla.broker.logger import Silent
from ottla.broker.runtime.long_work import WorkApart
from ottla.protocol.steps import Steps


class Log(Silent):
    def __init__(self) -> None:
        self.events: list[str] = []

    def error(self, event: str, **fields: Any) -> None:
        self.events.append(event)


@pytest.fixture
def log() -> Log:
    return Log()


async def outcome_of(steps: Steps[Any], work: WorkApart) -> Any:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    work(steps, done.set_result)
    return await done


async def test_heavy_parts_are_done_in_another_thread_and_others_have_their_turn(log: Log) -> None:
    turns: list[str] = []

    def steps() -> Steps[tuple[int, int]]:
        here = threading.get_ident()
        asyncio.get_running_loop().call_soon(turns.append, "another")
        yield None
        assert turns == ["another"]
        there = yield threading.get_ident
        return here, there

    work = WorkApart("test", log)
    here, there = await outcome_of(steps(), work)
    assert here == threading.get_ident() != there
    await work.stop()


async def test_a_failure_is_told_and_comes_back_as_nothing(log: Log) -> None:
    def steps() -> Steps[int]:
        yield None
        raise ZeroDivisionError

    work = WorkApart("test", log)
    assert await outcome_of(steps(), work) is None
    assert log.events == ["Cannot do what takes long"]
    await work.stop()


async def test_what_is_not_done_at_the_end_is_left_undone(log: Log) -> None:
    came: list[Any] = []
    begun = asyncio.Event()

    def steps() -> Steps[int]:
        while True:
            begun.set()
            yield None

    work = WorkApart("test", log)
    work(steps(), came.append)
    await begun.wait()
    await work.stop()
    assert came == [] and log.events == []
