"""Which partitions stood still, and for how long, computed by hand."""

from __future__ import annotations

from tests.observe.why.scenarios import again, cooperative_follow_up, static_group
from tests.observe.why.story import Story


def stable(*names: str, partitions: int = 6) -> Story:
    story = Story({"orders": partitions})
    story.start(*names)
    story.wait(30_000, beating=names)
    return story


def test_eager_members_stop_when_they_rejoin() -> None:
    story = stable("w1", "w2")
    story.join("w3")
    story.wait(1_000)
    story.join("w1")
    story.wait(2_000)
    story.join("w2")
    story.wait(500)
    story.sync("w1", "w2", "w3")
    episode = story.last
    # w1's three from 1.0 s, w2's three from 3.0 s, both until 3.5 s.
    assert episode.stood_ms == 3 * 2_500 + 3 * 500
    assert episode.longest_ms == 2_500
    assert (episode.stopped, episode.unowned) == (6, 0)
    assert [part.stood_ms for part in episode.members] == [7_500, 1_500, 0]
    assert [(part.before, part.after) for part in episode.members] == [(3, 2), (3, 2), (0, 2)]


def test_who_is_silent_stopped_when_it_was_last_heard_of() -> None:
    story = stable("w1", "w2")
    story.wait(48_000, beating=["w1"])
    story.join("w1")
    story.wait(100)
    story.sync("w1")
    episode = story.last
    expired_ms = story.episodes()[-1].started_ms
    # w2's session ran out 45 s after its last heartbeat; w1 rejoined 3 s later and had the assignment 0.1 s after that.
    assert expired_ms == episode.started_ms
    assert [part.stood_ms for part in episode.members] == [3 * 100, 3 * (45_000 + 3_100)]


def test_a_lost_connection_is_later_than_the_last_heartbeat() -> None:
    story = stable("w1", "w2")
    story.wait(2_000)
    story.disconnect("w2")
    story.wait(46_000, beating=["w1"])
    story.join("w1")
    story.wait(10)
    story.sync("w1")
    lost = story.last.members[1]
    assert lost.disconnected_ms - lost.heard_ms == 2_000
    assert lost.stood_ms == 3 * (story.world.wall_ms - lost.disconnected_ms)


def test_who_leaves_stops_at_once() -> None:
    story = stable("w1", "w2")
    story.leave("w2")
    story.wait(1_500)
    story.join("w1")
    story.wait(10)
    story.sync("w1")
    assert [part.stood_ms for part in story.last.members] == [3 * 10, 3 * 1_510]


def test_cooperative_members_go_on_with_what_they_keep() -> None:
    story = cooperative_follow_up()
    first, second = story.episodes()[1:]
    # In the first rebalance nothing stands still; it ends with two partitions of each given up, for the new member.
    assert (first.stood_ms, first.stopped, first.unowned) == (0, 0, 4)
    # They stand still until the second is over.
    gap_ms = second.started_ms + second.duration_ms - (first.started_ms + first.duration_ms)
    assert (second.stood_ms, second.stopped, second.unowned) == (4 * gap_ms, 4, 0)


def test_what_stood_still_is_charged_once_over_several_rebalances() -> None:
    story = stable("w1", "w2")
    story.join("w1", "w2")  # the leader rejoins: everything stops
    story.wait(1_000)
    story.join("w3")  # before anybody has an assignment
    story.join("w1", "w2")
    story.wait(2_000)
    story.sync("w1", "w2", "w3")
    first, second = story.episodes()[-2:]
    assert first.outcome == "superseded"
    assert first.stood_ms == 6 * 1_000
    assert second.stood_ms == 6 * 2_000


def test_nobody_is_left() -> None:
    story = stable("w1")
    story.leave("w1")
    episode = story.last
    assert (episode.outcome, episode.unowned, episode.stood_ms) == ("empty", 6, 0)
    story.wait(3_600_000)
    story.start("w2")
    # A group that nobody was in for an hour did not stand still: nobody wanted anything.
    assert story.last.stood_ms == 0


def test_topics_that_nobody_wants_any_more_do_not_stand_still() -> None:
    story = Story({"orders": 2, "refunds": 2})
    story.new("w1", topics=("orders", "refunds"))
    story.start("w1")
    story.wait(10_000, beating=["w1"])
    story["w1"].topics = ("orders",)
    story.join("w1")
    story.wait(1_000)
    story.sync("w1")
    assert story.last.unowned == 0
    story.wait(9_000, beating=["w1"])
    story.join("w1")
    story.wait(10)
    story.sync("w1")
    assert story.last.stood_ms == 2 * 10


def test_what_is_assigned_and_not_fetched_stands_still() -> None:
    story = Story()
    story.join("w1", "w2")
    story.wait(1)
    story.sync("w1")
    story.wait(7_000, beating=["w1", "w2"])
    story.sync("w2")  # late, but in time
    story.wait(1_000, beating=["w1", "w2"])
    story.join("w1", "w2")
    story.wait(10)
    story.sync("w1", "w2")
    assert story.last.stood_ms == 6 * 10


def test_a_static_member_that_is_away_stands_still_until_it_is_back() -> None:
    story = static_group("w1", "w2")
    story.disconnect("w2")
    story.wait(4_000, beating=["w1"])
    story["w2"].member_id = ""
    story.join("w2")
    assert story.last.kind == "replacement"
    assert (story.last.stood_ms, story.last.stopped) == (3 * 4_000, 3)
    story.wait(5)
    story.sync("w2")
    story.wait(2_000, beating=["w1", "w2"])
    story.join("w3")
    again(story, "w1", "w2", after_ms=10)
    assert story.last.stopped == 6


def test_assignments_that_cannot_be_read_are_called_unknown() -> None:
    story = Story()
    for name in ("c1", "c2"):
        story.new(name, type="connect", assignors=("sessioned",))
    story.start("c1", "c2")
    story.wait(3_000, beating=["c1", "c2"])
    story.leave("c2")
    story.join("c1")
    story.wait(10)
    story.sync("c1")
    episode = story.last
    assert not episode.partitions_known
    assert (episode.stood_ms, episode.moved, episode.moves) == (0, 0, [])
    assert "What stood still is unknown: the members' assignments cannot be read." in episode.sentences
