"""The incidents of the demo, without sockets, without waiting, to the millisecond."""

from __future__ import annotations

import pytest

from ottla.observe.why.model import Episode
from ottla.protocol.errors import ErrorCode
from tests.incidents.crowd import Crowd, told

THREE = ("one", "two", "three")
OTHERS = ("one", "three")


def since(crowd: Crowd, when_ms: int) -> list[Episode]:
    """What is told about the time after."""
    return [episode for episode in crowd.episodes if episode.started_ms >= when_ms]


def formed(**settings: int) -> Crowd:
    crowd = Crowd(settings)
    crowd.form(THREE)
    crowd.live(THREE, 5)
    return crowd


def test_the_first_generation() -> None:
    crowd = formed()
    (first,) = crowd.episodes
    assert told(first) == ("group-started", None)
    assert first.generation_after == 1


@pytest.mark.parametrize("reason", ["consumer poll timeout has expired.", None], ids=["said", "not said"])
def test_slow_poll_loop(reason: str | None) -> None:
    """Clients of librdkafka do not say why they leave; but they stay connected, and heartbeated to the last."""
    crowd = formed()
    when_ms = crowd.now
    crowd.live(THREE, 6, busy="two")
    crowd.leave("two", reason)
    crowd.advance(0.5)
    crowd.rebalance(OTHERS)
    crowd.live(OTHERS, 3)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("left-poll-timeout", "two")
    assert any(advice.setting == "max.poll.interval.ms" and advice.value == "6000" for advice in episode.advice)


def test_who_comes_back_is_told_with_how_it_went() -> None:
    """That is the last that is told of most incidents, so the cause must not be hidden behind it."""
    crowd = formed()
    crowd.live(THREE, 6, busy="two")
    crowd.leave("two")
    crowd.rebalance(OTHERS)
    crowd.live(OTHERS, 4)
    crowd.restarted("two")
    crowd.rebalance(THREE)
    last = crowd.episodes[-1]
    assert told(last) == ("member-returned", "two")
    assert last.headline.startswith("two came back, 4.0 s after it missed its poll deadline")
    assert [advice.setting for advice in last.advice] == ["max.poll.interval.ms"]


def test_a_leader_that_comes_back() -> None:
    crowd = Crowd()
    for name in THREE:
        crowd.join(name, session_ms=30_000)
    crowd.advance(6)
    for name in THREE[1:]:
        crowd.sync(name)
    crowd.advance(6)
    for name in THREE[1:]:
        crowd.join(name)
    crowd.finish(THREE[1:])
    crowd.live(THREE[1:], 2)
    crowd.restarted("one")
    crowd.rebalance(THREE)
    last = crowd.episodes[-1]
    assert last.headline.startswith("one came back, 2.0 s after it was dropped for sending no assignments")
    assert "JoinGroup and SyncGroup" in last.advice[0].text


def test_slow_flush_at_a_rebalance() -> None:
    crowd = formed()
    when_ms = crowd.now
    crowd.join("four")
    for name in OTHERS:
        assert crowd.heartbeat(name) == ErrorCode.REBALANCE_IN_PROGRESS
        crowd.join(name)
    crowd.live(["two"], 6, busy="two")
    crowd.finish([*OTHERS, "four"])
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("join-barrier-missed", "two")
    (wait,) = [wait for wait in episode.waits if wait.barrier == "join"]
    assert wait.closed_ms - wait.opened_ms == 6_000
    assert [episode.members[at].client_id for at in wait.absent] == ["two"]


def test_crash() -> None:
    crowd = formed()
    when_ms = crowd.now
    crowd.disconnect("two")
    crowd.live(OTHERS, 6)
    crowd.rebalance(OTHERS)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("session-expired-connection-lost", "two")
    assert episode.started_ms == when_ms + 6_000


def test_standing_still() -> None:
    """As SIGSTOP, a long collection of garbage, or a machine that swaps."""
    crowd = formed()
    when_ms = crowd.now
    crowd.live(OTHERS, 6)
    crowd.rebalance(OTHERS)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("session-expired-silent", "two")


def test_rolling_restart() -> None:
    crowd = formed()
    for name in THREE:
        others = [one for one in THREE if one != name]
        when_ms = crowd.now
        crowd.close(name)
        crowd.advance(0.4)
        crowd.rebalance(others)
        crowd.live(others, 2)
        crowd.restarted(name)
        crowd.advance(0.3)
        crowd.rebalance(THREE)
        crowd.live(THREE, 2)
        gone, back = since(crowd, when_ms)
        assert told(gone) in [("left-closed", name), ("rolling-restart", name)]
        assert told(back) in [("member-returned", name), ("rolling-restart", name)]
    assert told(crowd.episodes[-1])[0] == "rolling-restart"
    assert any(advice.setting == "group.instance.id" for advice in crowd.episodes[-1].advice)


def test_rolling_restart_of_static_members() -> None:
    crowd = Crowd()
    crowd.form(THREE, instance={name: f"pod-{name}" for name in THREE})
    for name in THREE:
        crowd.advance(1)
        when_ms = crowd.now
        crowd.disconnect(name)
        crowd.live([one for one in THREE if one != name], 2)
        assert crowd.restarted(name) == ErrorCode.NONE
        crowd.sync(name)
        (episode,) = since(crowd, when_ms)
        assert told(episode) in [("static-member-replaced", name), ("rolling-restart", name)]
        assert episode.triggers[0].cause == "static-member-replaced"
        assert episode.kind == "replacement"
    assert [episode.kind for episode in crowd.episodes].count("rebalance") == 1


def test_mixed_assignors() -> None:
    crowd = formed()
    when_ms = crowd.now
    assert crowd.join("four", assignors=("cooperative-sticky",)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("turned-away-assignor-mismatch", "four")
    assert episode.kind == "refusal"
    words = "\n".join([episode.headline, *episode.sentences])
    assert "cooperative-sticky" in words and "range" in words


def test_flapping_member() -> None:
    crowd = formed()
    for _ in range(4):
        when_ms = crowd.now
        crowd.close("two")
        crowd.advance(0.3)
        crowd.restarted("two")
        crowd.rebalance(THREE)
        crowd.live(THREE, 2)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("flapping-member", "two")
    assert episode.headline.startswith("two comes and goes, 4 times within ten minutes: two-")
    assert episode.advice[0].text.startswith("Look at two before anything else")


def test_blocked_leader() -> None:
    crowd = Crowd()
    for name in THREE:
        crowd.join(name, session_ms=30_000)
    crowd.advance(6)
    for name in THREE[1:]:
        assert crowd.sync(name).answer is None
    crowd.advance(3)
    assert crowd.episodes[-1].outcome == "running"
    assert "one" in crowd.episodes[-1].headline + "".join(crowd.episodes[-1].sentences)
    crowd.advance(3)
    for name in THREE[1:]:
        crowd.join(name)
    crowd.finish(THREE[1:])
    assert ("leader-never-synced", "one") in [told(episode) for episode in crowd.episodes]


def test_subscription_change() -> None:
    crowd = formed()
    when_ms = crowd.now
    crowd.join("two", topics=("orders", "archive"))
    crowd.rebalance(THREE)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("subscription-changed", "two")
    assert "archive" in episode.headline + "".join(episode.sentences)


def test_oversized_group() -> None:
    crowd = formed(group_max_size=3)
    when_ms = crowd.now
    for _ in range(5):
        assert crowd.join("four") == ErrorCode.GROUP_MAX_SIZE_REACHED
        crowd.live(THREE, 1)
    (episode,) = since(crowd, when_ms)
    assert told(episode) == ("turned-away-group-full", "four")
    assert episode.times == 5
    assert any(advice.setting == "group.max.size" for advice in episode.advice)
