"""What groups have cost: the sums of their episodes, without reading one."""

from __future__ import annotations

from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.observe.why.store import Cost
from tests.observe.why.scenarios import flapping, group_full, poll_loop_busy
from tests.observe.why.story import GROUP


def total(episodes: list[Episode]) -> Cost:
    """What these have cost, read in full."""
    cost = Cost(GROUP)
    for one in episodes:
        cost.add(one)
    return cost


def test_costs_are_the_sums_of_what_is_told() -> None:
    for story in (flapping(), group_full(), poll_loop_busy()):
        history: History = story.history
        assert history.costs(0) == [total(history.episodes(GROUP))]


def test_somebody_who_is_turned_away_again_and_again_counts_each_time() -> None:
    history = group_full().history
    refusals = [one for one in history.episodes(GROUP) if one.kind == "refusal"]
    [cost] = history.costs(0)
    assert cost.refused == sum(one.times for one in refusals) > 0
    last_ms = max(one.last_ms for one in refusals)
    assert history.costs(last_ms)[0].refused > 0
    assert history.costs(last_ms + 1) == []


def test_the_costliest_is_first_and_what_is_too_old_is_left_out() -> None:
    history = History()
    store = history._store
    for number, (group_id, stood_ms) in enumerate([("a", 5), ("b", 70), ("a", 20), ("c", 0)], 1):
        store.keep(Episode(number, "rebalance", group_id, 1_000 * number, 10, stood_ms=stood_ms))
    assert [(one.group_id, one.stood_ms, one.rebalances) for one in history.costs(0)] == [
        ("b", 70, 1),
        ("a", 25, 2),
        ("c", 0, 1),
    ]
    assert [(one.group_id, one.stood_ms, one.last_ms) for one in history.costs(3_000)] == [
        ("a", 20, 3_000),
        ("c", 0, 4_000),
    ]
    store.replace(Episode(3, "rebalance", "a", 3_000, 10, stood_ms=90))
    assert history.costs(0)[0].stood_ms == 95
