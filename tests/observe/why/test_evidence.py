"""What is concluded from evidence, and where the evidence is not enough."""

from __future__ import annotations

import pytest

from ottla.observe.why.plain import member_names
from ottla.observe.why.reasons import joining_class, leaving_class, said
from tests.observe.why.story import Story


def left(*, after_ms: int, poll_ms: int = 30_000, closed_ms: int | None = None, rest: bool = True) -> Story:
    """w2 leaves without a reason, so long after its SyncGroup; its connection is lost so long after that."""
    story = Story()
    story.new("w2", poll_ms=poll_ms)
    names = ["w1", "w2"] if rest else ["w2"]
    story.start(*names)
    story.wait(after_ms, beating=names)
    story.leave("w2", version=1)
    if closed_ms is not None:
        story.wait(closed_ms)
        story.disconnect("w2")
    if rest:
        story.again("w1")
    return story


@pytest.mark.parametrize(
    ("after_ms", "closed_ms", "cause"),
    [
        (30_400, None, "left-poll-timeout"),
        (26_000, None, "left-poll-timeout"),  # what it polled last was committed a few seconds later
        (10_000, None, "left-without-reason"),
        (45_000, None, "left-without-reason"),
        (30_400, 100, "left-closed"),  # who closes its connection was closed, whenever that was
        (10_000, 1_900, "left-closed"),
        (10_000, 3_000, "left-without-reason"),
        (30_400, 3_000, "left-without-reason"),
    ],
)
def test_a_departure_without_words(after_ms: int, closed_ms: int | None, cause: str) -> None:
    assert left(after_ms=after_ms, closed_ms=closed_ms).last.cause == cause


def test_a_short_poll_interval_is_no_excuse_to_guess() -> None:
    assert left(after_ms=1_000, poll_ms=5_000).last.cause == "left-without-reason"
    assert left(after_ms=4_900, poll_ms=5_000).last.cause == "left-poll-timeout"


def test_the_last_member_is_looked_at_again_when_its_connection_is_lost() -> None:
    """The group is empty at once, so that the episode is over before anything is known of the connection."""
    story = left(after_ms=10_000, closed_ms=50, rest=False)
    assert story.last.outcome == "empty"
    assert story.last.cause == "left-closed"
    assert left(after_ms=10_000, rest=False).last.cause == "left-without-reason"


def test_members_that_look_alike_are_told_apart() -> None:
    story = Story()
    for name in ("w1", "w2", "w3"):
        story.new(name, host="/10.0.0.1")
    story.start("w1", "w2")
    for one in story.episodes()[0].members:
        assert one.client_host == "/10.0.0.1"
    episode = story.last
    for part in episode.members:
        part.client_id = "consumer"
        part.member_id = f"consumer-{part.member_id[-1]}1234567-89ab"
    assert member_names(episode) == ["consumer-11234567", "consumer-21234567"]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("", "left-without-reason"),
        ("the consumer is being closed", "left-closed"),  # Java
        ("the consumer unsubscribed from all topics", "left-unsubscribed"),
        (
            "consumer poll timeout has expired. This means the time between subsequent calls to poll() …",
            "left-poll-timeout",
        ),
        ("member was removed by an admin: too slow", "removed-by-admin"),
        ("client leaving group per normal operation", "left-closed"),  # franz-go
        ("max.poll.interval.ms exceeded", "left-poll-timeout"),
        ("lunch", "left-with-reason"),
    ],
)
def test_the_words_of_clients_that_leave(words: str, cause: str) -> None:
    assert leaving_class(words) == cause


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (
            "cached metadata has changed from (version2: {t=1}) at the beginning of the rebalance to …",
            "topic-metadata-changed",
        ),
        ("the number of partitions of orders changed", "topic-metadata-changed"),
        ("subscription has changed from [a] at the beginning of the rebalance to [b]", "subscription-changed"),
        ("need to revoke partitions and re-join", "cooperative-follow-up"),
        ("rebalance enforced by user", "rebalance-enforced"),
        ("rebalance failed due to MemberIdRequiredException", "rejoined-after-error"),
        ("encountered RebalanceInProgressException from SYNC_GROUP response", "rejoined-after-error"),
        ("", None),
        ("I felt like it", None),
    ],
)
def test_the_words_of_clients_that_rejoin(words: str, cause: str | None) -> None:
    assert joining_class(words) == cause


def test_words_that_say_nothing_are_left_out() -> None:
    assert said(None) == said("not provided") == said("need to re-join with the given member-id: a-1") == ""
    assert said("group is already rebalancing") == ""
    assert said("rolling out") == "rolling out"
