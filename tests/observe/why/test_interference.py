"""Faults and pauses beside the stories: what is kept of many, and what is told while a rebalance runs."""

from __future__ import annotations

from msgspec import json

from ottla.observe.timeline.offline import timeline_of
from ottla.observe.why.history import History
from ottla.observe.why.interference import MOST_KEPT, MOST_PAUSES, MOST_TOLD, REACH_MS
from ottla.observe.why.model import Episode
from tests.observe.why.story import GROUP, Story, stable


def lose_a_heartbeat(story: Story, name: str, times: int = 1) -> None:
    for _ in range(times):
        story.interfere(name, "Heartbeat", "dropped the request")


def expire(story: Story, name: str, *others: str) -> Episode:
    """A session runs out."""
    story.forget(name)
    story.wait(46_000, beating=others)
    story.again(*others)
    return story.last


def test_a_fault_that_fires_thousands_of_times_is_one() -> None:
    story = stable()
    lose_a_heartbeat(story, "w2", 5_000)
    assert len(story.history.faults(GROUP)) == 1
    (fault,) = expire(story, "w2", "w1").faults
    assert (fault.times, fault.member_id) == (5_000, story.last.members[story.last.culprit].member_id)


def test_of_many_kinds_the_first_are_named_and_the_others_counted() -> None:
    story = stable()
    story.join("w3")
    for number in range(MOST_KEPT):
        story.interfere("w1", "JoinGroup", "dropped the request", f"fault {number}")
    story.again("w1", "w2")
    story.sync("w3")
    told = story.last
    assert [one.name for one in told.faults] == [f"fault {number}" for number in range(MOST_TOLD)]
    assert told.faults_untold == MOST_KEPT - MOST_TOLD
    assert f"Faults took hold of {MOST_KEPT - MOST_TOLD} requests more, which is not listed." in told.sentences
    story.interfere("w1", "JoinGroup", "dropped the request", "one more")
    assert len(story.history.faults(GROUP)) == MOST_KEPT


def test_what_one_rebalance_came_of_the_next_does_not() -> None:
    story = stable()
    lose_a_heartbeat(story, "w1")
    told = []
    for _ in range(2):
        story.join("w1")
        story.again("w2", "w1")
        told.append((story.last.cause, len(story.last.faults)))
    assert told == [("leader-rejoined", 1), ("leader-rejoined", 0)]
    assert [len(one.faults) for one in story.episodes()] == [0, 1, 0]


def test_what_is_long_ago_explains_nothing() -> None:
    story = stable()
    lose_a_heartbeat(story, "w2")
    story.pause()
    story.wait(REACH_MS + 1, beating=["w1"])
    story.resume()
    assert expire(story, "w2", "w1").faults == []


def test_while_a_group_is_paused_its_limit_does_not_run() -> None:
    story = stable()
    story.join("w3")
    story.wait(1_000, beating=["w1", "w2", "w3"])
    story.pause()
    now_ms = story.world.wall_ms
    for later_ms in (8_000, 80_000):
        story.history.now_ms = lambda at_ms=now_ms + later_ms: at_ms  # type: ignore[misc]
        assert story.last.headline.endswith("waits for w1 and w2, for 4 min 59 s more at most.")
        assert story.culprit() == "", "nobody is late"
        assert any("still was when this was told" in text for text in story.last.sentences)


def test_the_latest_pauses_are_kept() -> None:
    story = stable()
    for _ in range(MOST_PAUSES + 3):
        story.pause()
        story.wait(100)
        story.resume()
    pauses = story.last.pauses
    assert len(pauses) == MOST_PAUSES
    assert pauses[-1].until_ms == story.world.wall_ms


def test_a_pause_whose_beginning_was_not_seen() -> None:
    story = stable()
    story.pause()
    story.wait(5_000)
    story.resume()
    history = History()
    for event in story.seen:
        if type(event).__name__ != "DeadlinesHeld":
            history(event)
    assert history.episodes(GROUP)[-1].pauses == story.last.pauses


def test_a_request_that_names_no_group_is_of_none() -> None:
    story = Story()
    story.interfere("w1", "JoinGroup", "dropped the request")
    history = History()
    for event in story.seen:
        event.group_id = ""
        history(event)
    assert history.group_ids() == []


def test_episodes_without_any_are_written_as_they_always_were() -> None:
    """So that files of older releases are read, and older releases read files."""
    episode = stable().last
    assert not {"faults", "faults_untold", "pauses"} & json.decode(json.encode(episode)).keys()


def test_a_timeline_has_all_faults_on_the_lanes_of_their_members() -> None:
    story = stable()
    lose_a_heartbeat(story, "w2", 3)
    expire(story, "w2", "w1")
    story.wait(1_000, beating=["w1"])
    story.interfere("w1", "OffsetCommit", "dropped the answer", "lost answer")  # no episode tells of this one
    timeline = timeline_of(story.seen, GROUP)
    assert timeline is not None
    found = {lane.client_id: [(one.times, one.words) for one in lane.faults] for lane in timeline.lanes}
    assert found == {
        "w1": [(1, 'a fault dropped the answer to OffsetCommit (fault "lost answer")')],
        "w2": [(3, 'a fault dropped the Heartbeat (fault "deaf")')],
    }
    (fault,) = next(lane.faults for lane in timeline.lanes if lane.client_id == "w1")
    assert timeline.from_ms + fault.at == story.world.wall_ms
