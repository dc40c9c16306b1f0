"""Commits are counted in buckets; memory is bounded."""

from __future__ import annotations

import pytest

from ottla.broker.core.events import OffsetsCommitted, StateChanged
from ottla.observe.timeline.model import Flow
from ottla.observe.timeline.traffic import GROUP_BYTES, TIERS, Traffic
from tests.observe.timeline.synthetic import T0
from tests.support.memory import allocations

MINUTE, HOUR = 60_000, 3_600_000


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(1 << 20)


def flow_of(traffic: Traffic, at: int, until: int, group_id: str = "g") -> Flow:
    """What is known of a group from so long after T0 to then."""
    flow = traffic.flow(group_id, T0 + at, T0 + until)
    assert flow is not None
    return flow


def known(traffic: Traffic, *group_ids: str) -> list[str]:
    return [group_id for group_id in group_ids if traffic.flow(group_id, T0, T0 + 100 * HOUR) is not None]


def commit(traffic: Traffic, at: int, group_id: str = "g") -> None:
    traffic(OffsetsCommitted(group_id=group_id, cause=1, wall_ms=T0 + at, member_id="m", partitions=3))


def test_fine_buckets(traffic: Traffic) -> None:
    for at in (0, 100, 4_999, 5_000, 21_000):
        commit(traffic, at)
    traffic.lag("g", 70, T0 + 6_000)
    flow = flow_of(traffic, 0, 30_000)
    assert (flow.start, flow.bucket_ms) == (0, 5_000)
    assert flow.commits == [3, 1, 0, 0, 1]
    assert flow.lag == [-1, 70, 70, 70, 70]


def test_a_commit_of_a_transaction_counts_once(traffic: Traffic) -> None:
    commit(traffic, 0)
    traffic(OffsetsCommitted(group_id="g", cause=1, wall_ms=T0, member_id="", partitions=3, producer_id=7))
    flow = flow_of(traffic, 0, 1_000)
    assert flow.commits == [1]


def test_lag_holds_for_a_while(traffic: Traffic) -> None:
    """Nobody looks at every moment; but what nobody has looked at for long is not known."""
    commit(traffic, 0)
    traffic.lag("g", 9, T0)
    commit(traffic, 60_000)
    flow = flow_of(traffic, 0, 60_000)
    assert flow.lag == [9] * 7 + [-1] * 6


def test_other_events_are_none_of_its_business(traffic: Traffic) -> None:
    traffic(StateChanged(group_id="g", cause=1, wall_ms=T0, before="Empty", after="Stable", generation=1))
    assert traffic.flow("g", T0, T0 + 1) is None


def test_a_long_time_is_shown_in_coarse_buckets(traffic: Traffic) -> None:
    """Every commit of the day is in it."""
    for at in range(0, 20 * HOUR, 10_000):
        commit(traffic, at)
    day = flow_of(traffic, 0, 20 * HOUR)
    assert day.bucket_ms == TIERS[2][0]
    assert sum(day.commits) == 20 * 360
    hour = flow_of(traffic, 19 * HOUR, 20 * HOUR)
    assert hour.bucket_ms == TIERS[1][0]
    assert (hour.start, sum(hour.commits)) == (0, 360)


def test_only_the_time_that_is_asked_for(traffic: Traffic) -> None:
    for at in range(0, 10 * MINUTE, 1_000):
        commit(traffic, at)
    flow = flow_of(traffic, 2 * MINUTE + 7_000, 3 * MINUTE)
    assert flow.start == -2_000, "the bucket in which it begins"
    assert flow.commits == [5] * 11 + [5]
    assert traffic.flow("g", T0 + 11 * MINUTE, T0 + 12 * MINUTE) is None


def test_after_a_long_silence(traffic: Traffic) -> None:
    """Nothing is kept of what no row reaches back to, and nothing is filled with zeros for years."""
    commit(traffic, 0)
    commit(traffic, 400 * 24 * HOUR)
    flow = flow_of(traffic, 400 * 24 * HOUR, 400 * 24 * HOUR + 5_000)
    assert flow.commits == [1]


def test_a_clock_that_goes_back(traffic: Traffic) -> None:
    commit(traffic, 10_000)
    commit(traffic, -HOUR)
    flow = flow_of(traffic, 0, 20_000)
    assert sum(flow.commits) == 2, "counted as the oldest"


def test_of_more_groups_than_there_is_room_for_some_are_known_rather_than_none() -> None:
    traffic = Traffic(10 * GROUP_BYTES)
    for at in range(0, HOUR, 10_000):
        for group in range(15):
            traffic.lag(f"g{group}", 5, T0 + at)
    assert known(traffic, *(f"g{group}" for group in range(15))) == [f"g{group}" for group in range(10)]
    flow = flow_of(traffic, HOUR - MINUTE, HOUR - 10_000, "g0")
    assert flow.lag == [5] * 11
    traffic.lag("later", 7, T0 + HOUR + 5 * MINUTE)
    assert known(traffic, "later", "g0") == ["g0"]
    traffic.lag("later", 7, T0 + HOUR + 11 * MINUTE)
    assert known(traffic, "later", "g0") == ["later"]


def test_memory_is_bounded() -> None:
    """Twice as many groups as fit, each busy for more than a day."""
    budget = 20 * GROUP_BYTES
    traffic = Traffic(budget)
    with allocations() as allocated:
        for at in range(0, 40 * HOUR, 7 * MINUTE):
            for group in range(20):
                commit(traffic, at, f"old-{group}")
                commit(traffic, at + 5_000, f"old-{group}")
        for at in range(40 * HOUR, 80 * HOUR, 7 * MINUTE):
            for group in range(20):
                commit(traffic, at, f"new-{group}")
    names = [[f"{age}-{group}" for group in range(20)] for age in ("old", "new")]
    assert known(traffic, *names[0], *names[1]) == names[1]
    assert allocated.held_bytes <= budget * 1.1
