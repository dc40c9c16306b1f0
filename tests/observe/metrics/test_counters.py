"""Events and episodes, counted."""

from __future__ import annotations

from ottla.broker.core.events import (
    BarrierClosed,
    Event,
    GroupRemoved,
    MemberAdded,
    MemberLeft,
    OffsetsCommitted,
    SessionExpired,
    StateChanged,
)
from ottla.observe.metrics.counters import CHANGES, Counters
from ottla.observe.why.history import Running
from ottla.observe.why.model import Episode, MemberWait
from tests.observe.makers import event_of


def committed(group_id: str, partitions: int) -> OffsetsCommitted:
    return OffsetsCommitted(group_id=group_id, cause=1, member_id="m", partitions=partitions)


def episode(
    group_id: str,
    cause: str,
    *,
    started_ms: int = 0,
    duration_ms: int = 2_000,
    stood_ms: int = 0,
    kind: str = "rebalance",
) -> Episode:
    return Episode(1, kind, group_id, started_ms, duration_ms=duration_ms, cause=cause, stood_ms=stood_ms)


def test_commits_and_their_offsets_are_counted_together_and_by_group() -> None:
    counters = Counters(10)
    for one in (committed("a", 3), committed("b", 1), committed("a", 2)):
        counters(one)
    assert (counters.commits, counters.committed) == (3, 6)
    assert counters.group_committed == {"a": 5, "b": 1}


def test_a_commit_of_a_transaction_is_counted_once() -> None:
    counters = Counters(10)
    counters(committed("a", 3))
    ended = committed("a", 3)
    ended.producer_id = 0
    counters(ended)
    assert (counters.commits, counters.committed, counters.group_committed) == (1, 3, {"a": 3})


def test_a_revocation_that_outlasts_an_episode_is_counted_once() -> None:
    counters = Counters(10)
    first, second = episode("a", "member-joined"), episode("a", "left-closed")
    first.member_waits = [MemberWait("still-owns", since_ms=0, until_ms=10_000, goes_on=True)]
    second.member_waits = [MemberWait("still-owns", since_ms=-10_000, until_ms=20_000)]
    for one in (first, second):
        counters.on_episode(one)
    assert (sum(counters.revocations.counts), counters.revocations.total_ns) == (1, 30_000_000_000)


def test_what_becomes_of_members_is_counted() -> None:
    counters = Counters(10)
    happens = [
        event_of(MemberAdded, was_pending=True),
        event_of(MemberAdded, was_pending=True),
        event_of(MemberLeft),
        event_of(MemberLeft, was_pending=True),
        event_of(SessionExpired, last_heard_ms=0, is_new=False),
        event_of(BarrierClosed, barrier="join", absent=["x", "y"]),
        event_of(BarrierClosed, barrier="sync", absent=["z"]),
        event_of(BarrierClosed, barrier="no member rejoined", absent=["s"]),
        event_of(BarrierClosed, barrier="join", absent=[]),
    ]
    for one in happens:
        counters(one)
    assert counters.members == {"joined": 2, "left": 1, "expired": 1, "missed_join": 2, "missed_sync": 1}
    assert counters.members.keys() <= set(CHANGES)


def test_rebalances_are_counted_by_cause_and_refusals_are_none() -> None:
    counters = Counters(10)
    counters.on_episode(episode("a", "member-left", stood_ms=4_000))
    counters.on_episode(episode("a", "member-left"))
    counters.on_episode(episode("b", "member-joined", stood_ms=500))
    counters.on_episode(episode("b", "group-full", kind="refusal"))
    assert counters.rebalances == {"member-left": 2, "member-joined": 1}
    assert counters.group_rebalances == {"a": 2, "b": 1}
    assert counters.group_stood_ms == {"a": 4_000, "b": 500}
    assert counters.stood_ms == 4_500
    assert (sum(counters.durations.counts), counters.durations.total_ns) == (3, 6_000_000_000)


def test_what_runs_is_counted_while_it_does_and_not_again_when_it_is_over() -> None:
    counters = Counters(10)
    counters.on_episode(episode("a", "member-left", stood_ms=100))
    counters.running([Running("a", 5_000, 3_000), Running("b", 6_000, 0)])
    assert (counters.stood_ms, counters.group_stood_ms) == (3_100, {"a": 3_100})
    counters.running([Running("a", 5_000, 4_000), Running("b", 6_000, 700)])
    counters.running([Running("a", 5_000, 3_900), Running("b", 6_000, 700)])
    assert counters.group_stood_ms == {"a": 4_100, "b": 700}, "it never goes down"
    counters.on_episode(episode("b", "group-full", kind="refusal", started_ms=6_000))
    counters.on_episode(episode("a", "member-left", stood_ms=4_500, started_ms=5_000))
    counters.on_episode(episode("b", "member-left", stood_ms=600, started_ms=6_000))
    assert (counters.stood_ms, counters.group_stood_ms) == (5_300, {"a": 4_600, "b": 700})
    counters.running([Running("a", 9_000, 1_000)])
    assert counters.group_stood_ms["a"] == 5_600


def test_only_so_many_groups_have_counts_of_their_own_and_none_that_is_gone() -> None:
    counters = Counters(2)
    for name in ("a", "b", "c"):
        counters(committed(name, 1))
        counters.on_episode(episode(name, "member-left", stood_ms=1))
    assert (
        list(counters.group_committed) == list(counters.group_rebalances) == list(counters.group_stood_ms) == ["a", "b"]
    )
    assert counters.committed == 3
    counters(GroupRemoved(group_id="a", cause=1, generation=1, reason=""))
    counters(committed("c", 1))
    assert counters.group_committed == {"b": 1, "c": 1}
    assert list(counters.group_stood_ms) == ["b"]


def test_it_asks_only_for_what_it_counts() -> None:
    counters = Counters(10)
    wanted: list[type[Event]] = [OffsetsCommitted, MemberLeft]
    assert all(counters.wants(kind) for kind in wanted)
    assert not counters.wants(StateChanged)


def test_what_was_not_counted_is_not_called_none() -> None:
    counters = Counters(2)
    counters(committed("a", 3))
    table = counters.group_committed
    assert [counters.of_group(table, name) for name in ("a", "b")] == [3, 0]
    counters(committed("b", 1))
    counters(committed("c", 1))
    assert [counters.of_group(table, name) for name in ("a", "b", "c")] == [3, 1, None]
