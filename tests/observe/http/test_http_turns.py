"""Long answers leave turns for everybody else."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from ottla.observe.http.pauses import TURN_S, Pauses
from ottla.observe.timeline.build import build
from ottla.observe.timeline.live import Timelines
from ottla.observe.why.history import History
from tests.observe.http.fakes import FakeView, ManualClock
from tests.observe.timeline.synthetic import Crowd


async def test_a_pause_is_made_when_a_turn_is_over() -> None:
    now, turns = 0.0, 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    pause = Pauses(lambda: now)
    task = asyncio.ensure_future(others())
    for _ in range(100):
        await pause()
    assert turns == 0
    for number in range(1, 11):
        now += TURN_S
        await pause()
        assert turns == number
    task.cancel()


async def test_history_and_timelines_tell_the_same_with_pauses_and_without() -> None:
    history = History()
    for episode in Crowd(20, 30).episodes():
        history.store.keep(episode)
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    for wanted in ({}, {"last": 7}, {"generation": 12}, {"since_ms": history.episodes("billing")[9].started_ms}):
        found = [one async for one in history.each("billing", pause, **wanted)]  # type: ignore[arg-type]
        assert found == history.episodes("billing", **wanted)  # type: ignore[arg-type]
        assert found
    assert pauses >= 30
    clock = ManualClock()
    clock.now_ms = 10_000_000  # after all of it
    timelines = Timelines(history, 1 << 20)
    timelines.begin(FakeView, clock)  # type: ignore[arg-type]
    told = await timelines.told("billing", pause, last=None, since_ms=None)
    whole = build("billing", history.episodes("billing"), state=FakeView().group("billing"), now_ms=clock.wall_ms())
    one, other = msgspec.json.decode(told), msgspec.json.decode(msgspec.json.encode(whole))
    assert [mark["number"] for mark in one["marks"]] == [mark["number"] for mark in other["marks"]]
    assert [lane["client_id"] for lane in one["lanes"]] == [lane["client_id"] for lane in other["lanes"]]


async def test_others_have_their_turns_while_a_long_history_is_told() -> None:
    history = History()
    for episode in Crowd(5, 150).episodes():
        history.store.keep(episode)
    milliseconds, turns = itertools.count(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    pause = Pauses(lambda: next(milliseconds) / 1000)  # an episode takes a millisecond
    assert len([one async for one in history.each("billing", pause)]) == 150
    task.cancel()
    assert turns >= 150 * 0.001 / TURN_S / 2
