"""What holds a rebalance up: the join barrier and the sync barrier."""

from __future__ import annotations

from tests.observe.why.story import Story


def test_a_member_that_heartbeats_and_does_not_rejoin_is_named() -> None:
    story = Story()
    story.start("w1", "w2")
    story.wait(60_000, beating=["w1", "w2"])
    story.join("w3")
    story.wait(1_000, beating=["w1", "w2"])
    story.join("w1")
    story.wait(310_000, beating=["w2"])
    story.sync("w1", "w3")

    episode = story.last
    assert episode.cause == "member-joined"
    assert [one.cause for one in episode.triggers] == ["member-joined", "join-barrier-missed"]
    assert story.culprit() == "w2"
    assert [part.fate for part in episode.members] == ["stayed", "dropped", "new"]
    assert episode.advice[0].setting == "max.poll.interval.ms"
    assert episode.advice[0].value == "300000"
    # What w2 had stood still from its last heartbeat on, what w1 had from its JoinGroup on.
    assert episode.stood_ms == 3 * (311_000 - 1_000) + 3 * (311_000 - 298_000)
