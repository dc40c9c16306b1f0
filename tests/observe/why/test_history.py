"""What is kept, for how long, and how it is asked for."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.core.events import (
    AppendFinished,
    Event,
    GroupRemoved,
    JoinReceived,
    RequestRefused,
    TimerFired,
)
from ottla.observe.why.history import MOST_STRANGERS, History, Running
from ottla.observe.why.model import Episode, MemberPart, Trigger
from ottla.observe.why.store import Kept, Store
from ottla.observe.why.words import verdict
from tests.observe.makers import event_of
from tests.observe.why.stories import played
from tests.observe.why.story import GROUP, Story, stable
from tests.support.memory import allocations


def read(store: Store, group_id: str) -> list[Episode]:
    return [store.decoded(row) for row in store.of_group(group_id)]


def episode(group_id: str, number: int, members: int = 3) -> Episode:
    parts = [MemberPart(f"w{at}-{number:032x}{at:04x}", f"w{at}", "/10.0.0.1", came_ms=number) for at in range(members)]
    return Episode(
        number=number,
        kind="rebalance",
        group_id=group_id,
        started_ms=1_000 * number,
        generation_before=number,
        generation_after=number + 1,
        members=parts,
        triggers=[Trigger("member-joined", 0)],
    )


def test_asking_for_some() -> None:
    history = played("flapping").history
    assert [one.number for one in history.episodes(GROUP)] == [1, 2, 3, 4, 5, 6, 7]
    assert [one.number for one in history.episodes(GROUP, last=2)] == [6, 7]
    assert [one.number for one in history.episodes(GROUP, generation=3)] == [3]
    start = history.episodes(GROUP)[4].started_ms
    assert [one.number for one in history.episodes(GROUP, since_ms=start)] == [5, 6, 7]
    assert [one.number for one in history.episodes(GROUP, since_ms=start + 1, last=1)] == [7]
    assert history.episodes("no such group") == []
    assert history.group_ids() == [GROUP]


def test_a_rebalance_that_runs_is_the_last() -> None:
    story = stable()
    story.join("w3")
    story.wait(2_000, beating=["w1", "w2"])
    story.join("w1")
    running = story.last
    assert running.outcome == "running"
    assert running.duration_ms == -1
    assert story.culprit(running) == "", "the others may still come in time"
    assert running.headline == "w3 joined; the rebalance is running and waits for w2."
    story.history.now_ms = lambda: story.world.wall_ms + 8_000
    assert story.last.headline == (
        "w3 joined; the rebalance has been running for 10.0 s and waits for w2, for 4 min 50 s more at most."
    )
    assert story.culprit() == "w2"
    # What w1 gave up stands still for 8 s, and w2 is late.
    assert [part.blamed_ms for part in story.last.members] == [0, 3 * 8_000, 0]
    assert (story.last.stood_ms, story.last.stopped) == (3 * 8_000, 3)
    assert story.history.running() == [Running(GROUP, running.started_ms, 3 * 8_000)]
    assert (
        "3 partitions stand still, the longest for 8.0 s: 24.0 partition-seconds in which nobody consumes"
        in (story.last.sentences[-1])
    )
    # Asking changes nothing.
    story.join("w2")
    story.sync("w1", "w2", "w3")
    assert [one.number for one in story.episodes()] == [1, 2]
    assert (story.last.outcome, story.last.stood_ms) == ("stable", 0)


def test_episodes_are_told_once_and_explained_when_asked() -> None:
    story = played("group full")
    assert [(one.number, one.cause, one.headline) for one in story.ended] == [
        (1, "group-started", ""),
        (2, "turned-away-group-full", ""),
    ]
    assert story.last.times == 5
    assert story.history.explain(story.ended[0]).headline == story.episodes()[0].headline != ""


def test_refusals_that_differ_are_told_apart() -> None:
    story = stable(group_max_size=2)
    story.join_once("w3")
    story.join_once("w4")
    story.join_once("w3")
    told = [(one.members[0].client_id, one.times) for one in story.episodes()[1:]]
    assert told == [("w3", 2), ("w4", 1)]


def test_what_is_stored_is_what_was_told() -> None:
    story = played("poll loop busy")
    assert story.history.episodes(GROUP) == [story.history.explain(one) for one in story.ended]


def test_no_budget_keeps_nothing() -> None:
    store = Store(0)
    store.keep(episode("a", 1))
    assert read(store, "a") == []
    assert store.size_bytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 40)), min_size=1, max_size=200))
@settings(max_examples=50, deadline=None)
def test_the_budget_holds_and_the_newest_stays(rows: list[tuple[str, int]]) -> None:
    store = Store(20_000)
    counts: dict[str, int] = {}
    for group_id, members in rows:
        counts[group_id] = counts.get(group_id, 0) + 1
        store.keep(episode(group_id, counts[group_id], members))
        assert store.size_bytes <= 20_000
        assert read(store, group_id)[-1].number == counts[group_id]
    for group_id in store.group_ids():
        numbers = [one.number for one in read(store, group_id)]
        assert numbers == list(range(numbers[0], counts[group_id] + 1))
    assert store.size_bytes == sum(kept.size_bytes for kept in store._groups.values())


def test_a_loud_group_does_not_push_out_a_quiet_one() -> None:
    store = Store(50_000)
    for number in range(1, 11):
        store.keep(episode("quiet", number))
    for number in range(1, 2_001):
        store.keep(episode("loud", number))
    assert [one.number for one in read(store, "quiet")] == list(range(1, 11))
    assert len(read(store, "loud")) > 50


def test_two_hundred_members_and_five_hundred_rebalances_fit() -> None:
    budget = 16 * 1024 * 1024
    store = Store(budget)
    gc.collect()
    with allocations() as allocated:
        for number in range(1, 501):
            store.keep(episode("large", number, 200))
    assert len(store.of_group("large")) == 500
    assert store.size_bytes < budget / 2
    assert 0.9 < allocated.held_bytes / store.size_bytes < 1.1


def test_room_is_made_for_many_groups_in_one_look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    class Counted(Kept):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            nonlocal looked
            looked += name == "size_bytes"
            return super().__getattribute__(name)

    monkeypatch.setattr("ottla.observe.why.store.Kept", Counted)
    store = Store(2 << 20)
    kept = 0
    while store.size_bytes <= (2 << 20) - 2_000:
        kept += 1
        store.keep(episode(f"group-{kept}", 1))
    looked = 0
    for number in range(3):
        store.keep(episode(f"later-{number}", 1))
    assert kept > 1_000 and len(store.group_ids()) < kept
    assert looked < 5 * kept


def refused(group_id: str) -> RequestRefused:
    return event_of(RequestRefused, group_id=group_id, api="Heartbeat", error="UNKNOWN_MEMBER_ID")


def test_of_names_that_nobody_has_no_more_is_remembered_than_room_is_for() -> None:
    history = History()
    for number in range(3 * MOST_STRANGERS):
        history(refused(f"nobody-{number}"))
    assert len(history.group_ids()) == MOST_STRANGERS
    assert not history.knows("nobody-1")


def test_a_group_that_is_there_is_not_forgotten_for_names_that_nobody_has() -> None:
    story = stable()
    for number in range(2 * MOST_STRANGERS):
        story.history(refused(f"nobody-{number}"))
    story.join("w3")
    assert verdict(story.last) == "cause member-joined, triggered by w3, no culprit"
    assert len(story.last.members) == 3


def test_who_was_turned_away_by_a_group_that_never_was_is_kept_with_the_others() -> None:
    history = History()
    for number in range(MOST_STRANGERS + 1):
        who: dict[str, Any] = {"group_id": f"nobody-{number}", "member_id": ""}
        history(event_of(JoinReceived, number=number, generation=-1, **who))
        history(RequestRefused(cause=number, api="JoinGroup", error="INVALID_SESSION_TIMEOUT", **who))
    assert [one.cause for one in history.episodes("nobody-0")] == ["invalid-session-timeout"]


def test_events_without_a_group_make_none() -> None:
    history = History()
    events: list[Event] = [
        TimerFired(group_id="", cause=0, number=1, timer="retention", member_id=""),
        AppendFinished(group_id="", cause=0, number=2, what="records", error="NONE"),
    ]
    for one in events:
        history(one)
    assert history.group_ids() == []


def test_a_group_that_is_removed_keeps_its_history_and_its_numbers() -> None:
    story = Story()
    story.start("w1")
    story.leave("w1", reason="the consumer is being closed")
    before = [one.number for one in story.episodes()]
    story.history(GroupRemoved(group_id=GROUP, cause=0, generation=2, reason="deleted", at_ms=story.world.now_ms))
    assert [one.number for one in story.episodes()] == before == [1, 2]
    story["w1"].owned = []
    story.world.restart()
    story.tell()
    story.start("w1")
    assert [one.number for one in story.episodes()] == [1, 2, 3]


def test_departures_are_forgotten_in_time_and_keep_nothing_large() -> None:
    story = stable()
    for _ in range(40):
        story.leave("w2", reason="the consumer is being closed")
        story.new("w2")
        story.join("w2", "w1")
        story.wait(10)
        story.sync("w1", "w2")
        story.wait(60_000, beating=["w1", "w2"])
    recent = story.history._accounts[GROUP].departures.recent
    assert 10 < len(recent) <= 16 + 2 * 2
    assert all(one.known.is_bare for one in list(recent)[:-1])
    assert len(recent[-1].known.departures) <= 16
    assert story.last.cause == "flapping-member"
    assert story.last.moved == 3


def test_a_rebalance_leads_to_every_epoch_that_it_raised() -> None:
    story = Story()
    story.modern_join("a")
    story.modern_join("b")
    story.modern_join("c")
    story.live8(20_000, "a", "b", "c")
    assert [(one.generation_before, one.generation_after) for one in story.episodes()] == [(-1, 2), (2, 4)]
    for epoch, number in ((2, 1), (3, 2), (4, 2)):
        assert [one.number for one in story.history.episodes(GROUP, generation=epoch)] == [number]
