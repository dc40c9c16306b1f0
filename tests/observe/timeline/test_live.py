"""Timelines of a broker that runs, and the looks at lag."""

from __future__ import annotations

import asyncio

import msgspec

from ottla.broker.core.events import OffsetsCommitted, StateChanged
from ottla.observe.snapshot import GroupBrief
from ottla.observe.timeline.build import build
from ottla.observe.timeline.live import GROUPS_PER_TURN, ROUND_MS, TURN_MS, Timelines
from ottla.observe.timeline.model import Timeline
from ottla.observe.why.model import Episode
from tests.observe.http.fakes import FakeHistory, FakeView, ManualClock
from tests.observe.timeline.synthetic import T0, Crowd


async def no_pause() -> None:
    """Others need no turn."""


def told(made: Timelines, group_id: str) -> Timeline:
    """What is told of a group."""
    body = asyncio.run(made.told(group_id, no_pause, last=None, since_ms=None))
    return msgspec.json.decode(body, type=Timeline)


def timelines(episodes: list[Episode], clock: ManualClock, view: FakeView, budget: int = 1 << 21) -> Timelines:
    history = FakeHistory()
    history.kept = episodes
    made = Timelines(history, budget)  # type: ignore[arg-type]
    made.begin(lambda: view, clock)  # type: ignore[arg-type]
    return made


def test_it_is_made_with_pauses() -> None:
    """Between any two episodes and any two lanes others have their turn, and it is as if they had not."""
    crowd = Crowd(20, 30)
    episodes, clock, view = crowd.episodes(), ManualClock(), FakeView()
    clock.now_ms = crowd.now - T0
    view.put("billing")
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    made = timelines(episodes, clock, view)
    body = asyncio.run(made.told("billing", pause, last=25, since_ms=None))
    assert pauses >= 25 + 20
    whole = build("billing", episodes[-25:], state=view.group("billing"), now_ms=clock.wall_ms())
    assert msgspec.json.decode(body, type=Timeline) == whole
    assert [mark.number for mark in whole.marks] == list(range(6, 31))
    assert len(whole.lanes) == 20


def test_a_group_to_which_nothing_happened() -> None:
    view = FakeView()
    view.put("billing")
    timeline = told(timelines([], ManualClock(), view), "billing")
    assert (timeline.lanes, timeline.marks, timeline.state) == ([], [], "Stable")


def test_the_lag_of_each_group_is_looked_at_in_turn() -> None:
    """All of them in a round, some in a turn; nobody looks before somebody may want to see it, or after the end."""
    clock, view = ManualClock(), FakeView()
    count = 2 * GROUPS_PER_TURN + 7
    for index in range(count):
        view.put(f"g{index}", lag=index)
    made = timelines([], clock, view)
    clock.advance(3 * ROUND_MS)
    assert view.asked == []
    made.watch()
    made.watch()
    clock.advance(ROUND_MS)
    assert len(view.asked) == GROUPS_PER_TURN
    clock.advance(2 * TURN_MS)
    assert len(view.asked) == count == len(set(view.asked))
    clock.advance(ROUND_MS - 3 * TURN_MS)
    assert len(view.asked) == count
    view.groups.pop("g3")
    clock.advance(10 * TURN_MS)
    assert len(view.asked) == 2 * count - 1
    flow = told(made, "g7").flow
    assert flow is not None
    assert max(flow.lag) == 7
    made.close()
    told(made, "g7")
    clock.advance(10 * ROUND_MS)
    assert len(view.asked) == 2 * count - 1
    assert clock.pending() == []


def test_a_turn_is_over_in_time() -> None:
    clock = ManualClock()

    class Slow(FakeView):
        def brief(self, group_id: str) -> GroupBrief | None:
            clock.now_ms += 2
            return super().brief(group_id)

    view = Slow()
    for index in range(10):
        view.put(f"g{index}")
    timelines([], clock, view).watch()
    clock.advance(ROUND_MS)
    assert len(view.asked) == 3
    clock.advance(5 * TURN_MS)
    assert sorted(view.asked) == sorted(f"g{index}" for index in range(10))


def test_it_observes_commits_only() -> None:
    view, clock = FakeView(), ManualClock()
    made = timelines([], clock, view)
    assert made.traffic is not None
    assert made.traffic.wants(OffsetsCommitted)
    assert not made.traffic.wants(StateChanged)
    view.put("billing")
    made.traffic(OffsetsCommitted(group_id="billing", cause=1, wall_ms=clock.wall_ms(), member_id="m", partitions=1))
    flow = told(made, "billing").flow
    assert flow is not None
    assert sum(flow.commits) == 1
    nothing = timelines([], clock, view, budget=0)
    assert nothing.traffic is None
    assert told(nothing, "billing").flow is None
