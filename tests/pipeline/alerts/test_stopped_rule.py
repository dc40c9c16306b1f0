"""Stopped groups, by the rule alone: samples are the clock."""

import msgspec
import pytest

from ottla.pipeline.alerts.stopped import COMMITS_KEPT, Reader, StoppedLimits, check, commit, forget, forgotten

LIMITS = StoppedLimits()
T0 = 1_760_000_000_000


def ms(at_s: float) -> int:
    return round(T0 + at_s * 1000)


def reads(reader: Reader, at_s: float, offset: int | None, partition: int = 0) -> list[str]:
    return [one.state for one in commit(reader, "g", "orders", [ms(at_s)], {partition: offset})]


def sees(reader: Reader, at_s: float, end: int, limits: StoppedLimits = LIMITS) -> list[str]:
    return [one.state for one in check(reader, "g", "orders", {0: end, 9: 10**9}, ms(at_s), limits)]


def busy(until_s: int = 100, every_s: int = 5) -> Reader:
    """A group that reads 10 records a second and commits regularly, seen every 10 s."""
    reader = Reader()
    for at in range(0, until_s + 1, every_s):
        assert reads(reader, at, at * 10) == []
        if at % 10 == 0:
            assert sees(reader, at + 1, at * 10 + 10) == []
    return reader


def test_a_group_that_stops_is_raised_once_and_resolved_by_its_next_commit() -> None:
    reader = busy()
    said = {at: sees(reader, at, at * 10) for at in range(110, 400, 10)}
    assert [at for at, states in said.items() if states] == [170], "60 s after more was written than at its last sample"
    resolved = commit(reader, "g", "orders", [ms(405)], {0: 4050})[0]
    assert (resolved.state, resolved.since_ms, resolved.silent_ms) == ("resolved", ms(100), 305_000)


def test_the_alert_says_since_when_how_often_usually_and_how_much_is_unread() -> None:
    reader, found = busy(), []
    for at in range(110, 400, 10):
        found += check(reader, "g", "orders", {0: at * 10}, ms(at), LIMITS)
    (alert,) = found
    assert (alert.kind, alert.group, alert.topic) == ("stopped", "g", "orders")
    assert (alert.since_ms, alert.ts_ms, alert.silent_ms) == (ms(100), ms(170), 70_000)
    assert (alert.usual_ms, alert.unread, alert.partitions) == (5000, 700, 1)
    assert "'orders'" in alert.text and "every 5 s" in alert.text and "700 records" in alert.text


def test_a_group_at_rest_in_a_topic_at_rest_is_not_stopped() -> None:
    reader = busy()
    assert [sees(reader, at, 1000) for at in range(110, 5000, 10)] == [[]] * 489


def test_a_backlog_that_does_not_grow_is_not_what_is_asked_for() -> None:
    reader = busy()
    reads(reader, 105, 1010)
    assert not any(sees(reader, at, 1500) for at in range(110, 5000, 10))


def test_records_after_a_long_rest_give_the_group_its_time_to_read_them() -> None:
    reader = busy()
    for at in range(110, 3000, 10):
        assert sees(reader, at, 1000) == []
    assert sees(reader, 3000, 1100) == []
    assert [at for at in range(3010, 3200, 10) if sees(reader, at, at)] == [3060]


def test_slow_commits_are_given_ten_times_their_interval() -> None:
    reader = busy(until_s=1200, every_s=60)
    assert [at for at in range(1210, 3000, 10) if sees(reader, at, at * 10)] == [1810]


def test_a_group_that_committed_once_has_no_usual_interval() -> None:
    reader = Reader()
    reads(reader, 0, 5)
    assert not any(sees(reader, at, 10 + at) for at in range(10, 5000, 10))


def test_other_partitions_do_not_matter() -> None:
    reader = busy()
    assert not any(check(reader, "g", "orders", {0: 1000, 1: at * 99}, ms(at), LIMITS) for at in range(110, 900, 10))


def test_deleted_offsets_resolve_and_the_group_is_forgotten() -> None:
    reader = busy()
    assert ["raised"] in [sees(reader, at, at * 10) for at in range(110, 300, 10)]
    assert reads(reader, 301, None) == ["resolved"]
    assert forgotten(reader, ms(302), LIMITS)


def test_commits_that_come_late_reset_the_silence() -> None:
    """The sample of a batch may be ahead of commits that the next batch brings."""
    reader = busy()
    for at in range(110, 160, 10):
        assert sees(reader, at, at * 10) == []
    assert reads(reader, 112, 1120) == []
    assert sees(reader, 165, 1650) == []
    assert reader.waiting_ms is None


def test_a_recreated_topic_raises_nothing_by_its_shorter_log() -> None:
    reader = busy()
    assert sees(reader, 110, 20) == []
    assert (reader.waiting_ms, reader.raised_ms) == (None, None)


def test_a_sampler_that_stood_still_raises_nothing_by_itself() -> None:
    reader = busy()
    assert sees(reader, 90_000, 900_000) == [], "the first sample after a commit only says where the end was"


def test_what_is_forgotten_is_resolved() -> None:
    reader = busy()
    assert ["raised"] in [sees(reader, at, at * 10) for at in range(110, 300, 10)]
    day = 24 * 3600
    assert not forgotten(reader, ms(100 + day), LIMITS)
    assert forgotten(reader, ms(101 + day), LIMITS)
    assert [one.state for one in forget(reader, "g", "orders", ms(101 + day), LIMITS)] == ["resolved"]


@pytest.mark.parametrize(("intervals", "after_s", "at"), [(2, 1, 120), (2, 30, 140), (20, 1, 210)])
def test_thresholds_are_options(intervals: float, after_s: int, at: int) -> None:
    reader, limits = busy(), StoppedLimits(intervals, after_s * 1000)
    assert next(t for t in range(110, 400, 10) if sees(reader, t, t * 10, limits)) == at


def test_state_is_small_and_survives_its_encoding() -> None:
    reader = busy(until_s=5000)
    assert len(reader.instants_ms) == COMMITS_KEPT
    assert msgspec.json.decode(msgspec.json.encode(reader), type=Reader) == reader
    assert len(msgspec.json.encode(reader)) < 400
