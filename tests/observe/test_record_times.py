"""Points that say when records came: exact for the newest, bounded, and never wrong."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.observe.record_times import POINTS, AppendTimes
from ottla.protocol.records import TopicPartition

TP = TopicPartition("t", 0)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5_000)), max_size=4 * POINTS))
def test_a_record_came_between_the_times_that_are_told(appends: list[tuple[int, int]]) -> None:
    times = AppendTimes(10)
    times.begin(TP, 7, 1_000)
    truth: list[tuple[int, int]] = []
    offset, now_ms = 7, 1_000
    for count, passed_ms in appends:
        now_ms += passed_ms
        truth += [(at, now_ms) for at in range(offset, offset + count)]
        offset += count
        times.note(TP, offset, now_ms)
    assert times.between(TP, 6) is None
    assert times.between(TP, offset) is None
    for at, came_ms in truth[::17]:
        told = times.between(TP, at)
        assert told is not None
        assert told[0] <= came_ms <= told[1]


def test_the_newest_are_exact_and_memory_is_bounded() -> None:
    times = AppendTimes(10)
    times.begin(TP, 0, 0)
    for number in range(1, 20 * POINTS):
        times.note(TP, number, number * 10)
    points = times._points[TP]
    assert len(points.offsets) <= POINTS
    newest = 20 * POINTS - 1
    for offset in range(newest - POINTS // 4, newest):
        assert times.between(TP, offset) == ((offset + 1) * 10, (offset + 1) * 10)
    oldest = times.between(TP, 0)
    assert oldest is not None and oldest[0] == 0 < oldest[1]
    assert all(before < after for before, after in pairwise(points.offsets))


def test_a_partition_that_is_new_is_known_from_its_first_record() -> None:
    times = AppendTimes(10)
    times.note(TP, 3, 500)
    assert times.between(TP, 0) == (500, 500)


def test_of_too_many_partitions_the_one_written_to_the_longest_ago_is_forgotten() -> None:
    times = AppendTimes(2)
    for number in range(3):
        times.note(TopicPartition("t", number), 1, 100 + number)
    assert len(times) == 2
    assert times.between(TopicPartition("t", 0), 0) is None
    # It was there before, so what it has already is of unknown age.
    times.note(TopicPartition("t", 0), 5, 900)
    assert times.between(TopicPartition("t", 0), 0) is None
    times.note(TopicPartition("t", 0), 6, 950)
    assert times.between(TopicPartition("t", 0), 5) == (950, 950)


def test_forgetting_takes_no_longer_where_there_are_many_partitions() -> None:
    compared = 0

    class Counted(TopicPartition):
        """Counts how often a partition is looked up, or compared with others."""

        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal compared
            compared += 1
            return super().__hash__()

    times = AppendTimes(500)
    for number in range(2_000):
        times.begin(Counted("t", number), 0, number)
    for number in range(2_000):
        times.note(Counted("t", number), 1, 5_000 + number)
    assert len(times) == 500
    assert compared < 10 * 4_000


def test_a_clock_that_is_set_back_does_not_make_records_older_than_those_before() -> None:
    times = AppendTimes(2)
    times.begin(TP, 0, 0)
    times.note(TP, 1, 1_000)
    times.note(TP, 2, 400)
    assert times.between(TP, 1) == (1_000, 1_000)


def test_a_log_that_is_gone_is_forgotten() -> None:
    times = AppendTimes(2)
    times.note(TP, 1, 1_000)
    times.forget(TP)
    assert times.between(TP, 0) is None
