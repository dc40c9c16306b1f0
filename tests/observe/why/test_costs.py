"""What groups have cost: the sums of their episodes, without reading one."""

from __future__ import annotations

import asyncio

import pytest

from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.observe.why.store import Cost, Kept, Row
from tests.observe.why.stories import played
from tests.observe.why.story import GROUP, stable


async def at_once() -> None:
    """No pause."""


def costs(history: History, since_ms: int) -> list[Cost]:
    """What groups have cost since then."""
    return asyncio.run(history.costs(since_ms, at_once, most=100))


def total(episodes: list[Episode]) -> Cost:
    """What these have cost, read in full."""
    cost = Cost(GROUP)
    for one in episodes:
        cost.add(one)
    return cost


def test_costs_are_the_sums_of_what_is_told() -> None:
    for title in ("flapping", "group full", "poll loop busy"):
        history = played(title).history
        assert costs(history, 0) == [total(history.episodes(GROUP))]


def test_somebody_who_is_turned_away_again_and_again_counts_each_time() -> None:
    history = played("group full").history
    refusals = [one for one in history.episodes(GROUP) if one.kind == "refusal"]
    [cost] = costs(history, 0)
    assert cost.refused == sum(one.times for one in refusals) > 0
    last_ms = max(one.last_ms for one in refusals)
    assert costs(history, last_ms)[0].refused > 0
    assert costs(history, last_ms + 1) == []


def test_a_rebalance_that_runs_costs_what_it_has_cost_so_far() -> None:
    story = stable()
    story.clock()
    before = costs(story.history, 0)
    story.join("w1")
    assert costs(story.history, 0) == before, "nothing has stood still so far"
    story.wait(8_000, beating=["w2"])
    [cost] = costs(story.history, story.world.wall_ms)
    assert (cost.stood_ms, cost.rebalances) == (3 * 8_000, 1)
    story.again("w2", after_ms=0)
    assert story.history.running() == []
    assert costs(story.history, 0) == [total(story.history.episodes(GROUP))]


def test_the_costliest_is_first_and_what_is_too_old_is_left_out() -> None:
    history = History()
    store = history.store
    for number, (group_id, stood_ms) in enumerate([("a", 5), ("b", 70), ("a", 20), ("c", 0)], 1):
        store.keep(Episode(number, "rebalance", group_id, 1_000 * number, 10, stood_ms=stood_ms))
    assert [(one.group_id, one.stood_ms, one.rebalances) for one in costs(history, 0)] == [("b", 70, 1), ("a", 25, 2)]
    assert [(one.group_id, one.stood_ms, one.last_ms) for one in costs(history, 3_000)] == [("a", 20, 3_000)]
    store.replace(Episode(3, "rebalance", "a", 3_000, 10, stood_ms=90))
    assert costs(history, 0)[0].stood_ms == 95


def test_what_nobody_felt_costs_nothing_and_is_not_counted() -> None:
    history = History()
    store = history.store
    store.keep(Episode(1, "loaded", "quiet", 1_000, 0))
    store.keep(Episode(2, "rebalance", "quiet", 2_000, 10))
    store.keep(Episode(1, "rebalance", "busy", 1_000, 10, stood_ms=40))
    store.keep(Episode(2, "rebalance", "busy", 2_000, 10))
    store.keep(Episode(3, "refusal", "shut", 3_000, 0, times=2, last_ms=3_500))
    assert costs(history, 0) == [Cost("busy", 40, 1, 0, 1_000), Cost("shut", 0, 0, 2, 3_500)]


@pytest.mark.parametrize("groups", [1, 20_000])
def test_others_have_their_turns_while_costs_are_summed(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pauses only so many episodes are looked at, whether one group has them or many."""
    history, looked, between, add = History(), 0, [], Cost.add

    def look(cost: Cost, episode: Episode | Row) -> None:
        nonlocal looked
        looked += 1
        add(cost, episode)

    async def pause() -> None:
        nonlocal looked
        between.append(looked)
        looked = 0

    monkeypatch.setattr(Cost, "add", look)
    row = history.store._row(Episode(1, "rebalance", "a", 1_000, 10, stood_ms=1))
    for number in range(20_000):
        history.store._groups.setdefault(f"group-{number % groups}", Kept()).episodes.append(row)
    found = asyncio.run(history.costs(0, pause, most=10))
    assert sum(between) + looked == 20_000
    assert max(between) <= 1_000
    assert len(found) == min(groups, 10)


def test_costs_are_summed_while_episodes_come_and_go() -> None:
    history = History(100_000)
    for number in range(1, 300):
        history.store.keep(Episode(number, "rebalance", f"group-{number % 3}", 1_000, 10, stood_ms=1))

    async def pause() -> None:
        for number in range(300, 800):
            history.store.keep(Episode(number, "rebalance", f"group-{number}", 1_000, 10, stood_ms=1))

    found = {one.group_id: one.stood_ms for one in asyncio.run(history.costs(0, pause, most=100))}
    assert found["group-1"] == 100
