"""Who is to blame: the rule of docs/why.md, with numbers computed by hand, and what always holds of the accounts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.observe.why.blame import LATE_MS, Late, Still, divide
from ottla.observe.why.model import Episode
from ottla.observe.why.words import verdict
from tests.observe.why.scenarios import SCENARIOS, Scenario, again, cooperative_follow_up, stable, static_group
from tests.observe.why.story import Story

SECOND = 1_000


def blamed(episode: Episode) -> dict[str, int]:
    """The accounts that are not empty, by client id."""
    return {part.client_id: part.blamed_ms for part in episode.members if part.blamed_ms}


def three(*names: str) -> Story:
    """Of six partitions each has two."""
    return stable(*(names or ("w1", "w2", "w3")))


# The rule


def test_the_one_that_all_waited_for_is_the_culprit_and_not_the_one_that_joined() -> None:
    story = stable("w1", "w2")
    story.join("w3")
    story.wait(1 * SECOND)
    story.join("w1")
    story.wait(27_800)
    story.join("w2")
    story.sync("w1", "w2", "w3")
    assert verdict(story.last) == "cause member-joined, triggered by w3, culprit w2"
    # w1's three stood still for 27.8 s.
    assert blamed(story.last) == {"w2": 3 * 27_800}
    assert story.last.sentences[-2] == (
        "3 partitions stood still, the longest for 27.8 s: 83.4 partition-seconds in which nobody consumed, all of "
        "them on the account of w2."
    )


def test_while_others_may_still_come_in_time_nobody_is_the_culprit() -> None:
    story = stable("w1", "w2")
    story.join("w3")
    story.wait(2 * SECOND)
    assert verdict(story.last).endswith("no culprit")
    story.join("w1")
    story.wait(3 * SECOND, beating=["w2"])
    story.join("w4")
    assert story.culprit() == "w2"


def test_one_that_is_busy_until_it_leaves_without_a_word_is_told_to_poll() -> None:
    """librdkafka on a topic without records: nothing was committed, so only the barrier shows that it is busy."""
    story = stable("w1", "w2")
    story.wait(400 * SECOND, beating=["w1", "w2"])
    story.join("w3")
    story.wait(1 * SECOND)
    story.join("w1")
    story.wait(56 * SECOND, beating=["w2"])
    story.leave("w2", version=1)
    story.sync("w1", "w3")
    assert story.last.triggers[1].cause == "left-poll-timeout"
    assert story.culprit() == "w2"
    assert story.last.advice[0].text.startswith("Let w2 call poll() more often")
    assert "the group had waited 57.0 s for it to rejoin, so its application was busy" in " ".join(story.last.sentences)


def test_one_that_comes_and_goes_since_it_is_busy_is_told_to_poll() -> None:
    story = stable("w1", "w2")
    for _ in range(4):
        story.leave("w2", "consumer poll timeout has expired.")
        again(story, "w1")
        story.wait(3_000, beating=["w1"])
        story.join("w2")
        again(story, "w1")
        story.sync("w2")
        story.wait(5_000, beating=["w1", "w2"])
    assert story.last.cause == "flapping-member"
    assert story.last.advice[0].text.startswith("Let w2 call poll() more often")
    story.leave("w2", "the consumer is being closed")
    again(story, "w1")
    story.wait(3_000, beating=["w1"])
    story.join("w1")
    story.sync("w1")
    assert story.last.cause == "leader-rejoined", "nobody came or went"


def test_what_a_connection_tells_later_is_of_that_departure_and_of_no_pattern() -> None:
    """w2 comes and goes; the last time it leaves while it is awaited, and only then its connection is closed."""
    story = stable("w1", "w2")
    for _ in range(3):
        story.leave("w2", "the consumer is being closed")
        again(story, "w1")
        story.join("w2")
        again(story, "w1")
        story.sync("w2")
        story.wait(5_000, beating=["w1", "w2"])
    story.join("w3", "w1")
    story.wait(20 * SECOND, beating=["w2"])
    member_id = story["w2"].member_id
    story.leave("w2", version=1)
    story.sync("w1", "w3")
    assert story.last.cause == "flapping-member"
    story.wait(50)
    story["w2"].member_id = member_id
    story.disconnect("w2")
    assert [one.cause for one in story.last.triggers] == ["member-joined", "left-closed", "flapping-member"]
    assert story.last.cause == "flapping-member"


def test_one_that_is_closed_while_it_is_awaited_was_closed() -> None:
    story = stable("w1", "w2")
    story.join("w3", "w1")
    story.wait(20 * SECOND, beating=["w2"])
    member_id = story["w2"].member_id
    story.leave("w2", version=1)
    story.sync("w1", "w3")
    assert story.last.triggers[1].cause == "left-poll-timeout"
    story.wait(50)
    story["w2"].member_id = member_id
    story.disconnect("w2")
    assert story.last.triggers[1].cause == "left-closed"


def test_whoever_hears_of_it_by_its_next_heartbeat_is_no_culprit() -> None:
    story = three()
    story.join("w4", "w1")
    story.wait(1_500)
    story.join("w2")
    story.wait(1_400)
    story.join("w3")
    story.sync("w1", "w2", "w3", "w4")
    assert verdict(story.last) == "cause member-joined, triggered by w4, culprit w4"
    assert blamed(story.last) == {"w4": story.last.stood_ms}


def test_what_the_only_other_member_does_keeps_nobody_waiting_but_the_one_that_joins() -> None:
    """Nothing is known to stand still: the busy one has all there is."""
    story = stable("w1")
    story.join("w2")
    story.wait(28_800, beating=["w1"])
    story.join("w1")
    story.sync("w1", "w2")
    assert story.last.stood_ms == 0
    assert verdict(story.last) == "cause member-joined, triggered by w2, culprit w1"


def test_two_that_are_late_share_what_stands_still() -> None:
    story = three()
    story.join("w4", "w1")
    story.wait(9_000)
    story.join("w2")
    story.wait(4_000)
    story.join("w3")
    story.sync("w1", "w2", "w3", "w4")
    # Both are late for 9 s, with w1's two; then w3 alone, with w1's and w2's.
    both, alone = 2 * 9_000, 4 * 4_000
    assert blamed(story.last) == {"w2": both // 2, "w3": both // 2 + alone}
    assert story.culprit() == "w3"


def test_who_crashed_is_the_culprit_of_all_that_it_left() -> None:
    story = three()
    story.disconnect("w2")
    story.wait(46_000, beating=["w1", "w3"])
    again(story, "w1", "w3", after_ms=0)
    assert verdict(story.last) == "cause session-expired-connection-lost, triggered by w2, culprit w2"
    assert blamed(story.last) == {"w2": story.last.stood_ms}


def test_who_closes_is_not_the_culprit_if_another_keeps_the_group_waiting() -> None:
    story = three()
    story.leave("w3", "the consumer is being closed")
    story.wait(500)
    story.join("w1")
    story.wait(20_000)
    story.join("w2")
    story.sync("w1", "w2")
    assert verdict(story.last) == "cause left-closed, triggered by w3, culprit w2"
    assert blamed(story.last) == {"w2": 2 * 20_500 + 2 * 20_000}


def test_a_leader_that_sends_no_assignments_keeps_all_others_waiting() -> None:
    story = stable("w1", "w2")
    leader, other = ("w1", "w2") if story["w1"].members else ("w2", "w1")
    story.join("w3", "w1", "w2")
    story.wait(10_000)
    story.sync(other, "w3")
    story.sync(leader)
    assert story.culprit() == leader
    assert blamed(story.last) == {leader: 6 * 10_000}


def test_a_normal_start_has_no_culprit() -> None:
    story = Story(group_initial_rebalance_delay_ms=3_000)
    story.join("w1")
    story.wait(1_500)
    story.join("w2", "w3")
    story.wait(6_000)
    story.sync("w1", "w2", "w3")
    assert verdict(story.last) == "cause group-started, triggered by w1, no culprit"


def test_a_consumer_that_starts_and_is_closed_is_no_culprit() -> None:
    story = stable("w1")
    story.leave("w1", "the consumer is being closed")
    assert verdict(story.last) == "cause left-closed, triggered by w1, no culprit"
    assert story.last.outcome == "empty"


def test_the_last_one_that_crashes_is_a_culprit() -> None:
    story = stable("w1")
    story.wait(60_000)
    assert story.last.outcome == "empty"
    assert verdict(story.last) == "cause session-expired-silent, triggered by w1, culprit w1"


def test_nobody_is_blamed_for_what_an_administrator_did() -> None:
    story = three()
    story.leave("w2", "member was removed by an admin", by="admin")
    story.wait(2_900)
    again(story, "w1", "w3", after_ms=0)
    assert verdict(story.last) == "cause removed-by-admin, triggered by w2, no culprit"
    assert blamed(story.last) == {} and story.last.stood_ms == 2 * 2_920 + 4 * 20


def test_partitions_that_were_given_up_as_told_are_on_nobodys_account() -> None:
    first, second = cooperative_follow_up().episodes()[1:]
    assert first.unowned and second.stood_ms
    assert second.culprit == -1 and blamed(second) == {}


def test_a_static_member_that_was_away_is_the_culprit_of_its_own() -> None:
    story = static_group("w1", "w2")
    story.disconnect("w2")
    story.wait(4_000, beating=["w1"])
    story["w2"].member_id = ""
    story.join("w2")
    assert verdict(story.last) == "cause static-member-replaced, triggered by i2, culprit i2"
    assert blamed(story.last) == {"w2": 3 * 4_000}


def test_a_barrier_that_opens_again_leaves_nobody_more_time() -> None:
    (one,) = [one for one in SCENARIOS if one.cause == "nobody-rejoined"]
    story = one.play()
    # w3's two stood still for 12 s, in which both others were late; then all did for 20 ms.
    assert blamed(story.last) == {"w1": 2 * 12_000 // 2, "w2": 2 * 12_000 // 2, "w3": 6 * 20}


# What always holds


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_the_accounts_of_every_story(one: Scenario) -> None:
    for episode in one.play().episodes():
        assert sum(part.blamed_ms for part in episode.members) <= episode.stood_ms
        began = {trigger.member for trigger in episode.triggers}
        for at, part in enumerate(episode.members):
            if part.fate == "stayed" and 0 <= part.came_ms < LATE_MS and not part.is_leader and at not in began:
                assert not part.blamed_ms, "who only waited has a share"


TIMES = st.integers(0, 30)
STILL = st.builds(Still, TIMES, st.integers(0, 9), st.integers(-1, 3))
WAITS = st.dictionaries(st.integers(0, 5), st.tuples(TIMES, TIMES), max_size=5)


@given(st.lists(STILL, max_size=8), WAITS, TIMES)
def test_the_accounts_are_all_that_stood_still(
    still: list[Still], waits: dict[int, tuple[int, int]], until_ms: int
) -> None:
    """Each millisecond of each partition is put down once: to the late in equal parts, or else to whom it belongs."""
    late = [Late(member, min(pair), max(pair)) for member, pair in waits.items()]
    expected: dict[int, Fraction] = {}
    for row in still:
        for at_ms in range(row.since_ms, until_ms):
            present = [one.member for one in late if one.from_ms <= at_ms < one.until_ms]
            for member in present or [row.account]:
                expected[member] = expected.get(member, Fraction(0)) + Fraction(row.partitions, len(present) or 1)
    accounts = divide(still, late, until_ms).blamed_ms
    stood_ms = sum(row.partitions * max(until_ms - row.since_ms, 0) for row in still)
    assert sum(accounts.values()) == stood_ms - expected.get(-1, 0)
    for member in range(6):
        assert abs(accounts.get(member, 0) - expected.get(member, 0)) < 1
        if not expected.get(member):
            assert not accounts.get(member), "who only waited has no share"


def test_a_large_group_takes_one_pass() -> None:
    """As many moments as members: were each compared with each, this would take minutes."""
    count = 20_000
    still = [Still(at, 3, -1) for at in range(count)]
    late = [Late(at, at, 2 * count) for at in range(count)]
    accounts = divide(still, late, 2 * count).blamed_ms
    assert sum(accounts.values()) == sum(3 * (2 * count - at) for at in range(count))
