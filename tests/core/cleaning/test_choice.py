"""Which log is dirty enough, up to where it may be compacted, and which segments become one."""

import pytest

from ottla.broker.core.cleaning.choice import cleanable_from, cleanable_upto, dirt_of, joins
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.engine import SegmentInfo

NOW = 10_000
SEGMENTS = [SegmentInfo(base, base + 10, 100, base * 100, base < 40) for base in range(0, 50, 10)]


def upto(stable_offset=50, from_offset=0, segments=SEGMENTS, **config):
    return cleanable_upto(
        segments, TopicConfig(**config), from_offset=from_offset, stable_offset=stable_offset, wall_ms=NOW
    )


@pytest.mark.parametrize(("stable_offset", "expected"), [(50, 40), (40, 40), (39, 30), (10, 10), (9, 0), (0, 0)])
def test_never_the_segment_that_is_written_and_nothing_unstable(stable_offset, expected):
    assert upto(stable_offset) == expected


@pytest.mark.parametrize(("lag_ms", "expected"), [(0, 40), (7000, 40), (7001, 30), (9001, 10), (10_001, 0)])
def test_records_that_are_too_young_stay_out(lag_ms, expected):
    assert upto(min_compaction_lag_ms=lag_ms) == expected


def test_what_was_compacted_does_not_hold_up_the_rest_for_its_age():
    segments = [SEGMENTS[0]._replace(max_timestamp_ms=NOW), *SEGMENTS[1:]]
    assert upto(segments=segments, min_compaction_lag_ms=5000) == 0
    assert upto(segments=segments, min_compaction_lag_ms=5000, from_offset=10) == 40


def test_an_empty_log_has_nothing():
    assert upto(segments=[], from_offset=7) == 7


@pytest.mark.parametrize(
    ("cleaned", "start", "end", "expected"), [(5, 0, 9, 5), (5, 6, 9, 6), (10, 3, 9, 3), (0, 0, 0, 0)]
)
def test_a_mark_that_cannot_be_right_is_not_believed(cleaned, start, end, expected):
    assert cleanable_from(cleaned, start, end) == expected


def dirt(from_offset, upto_offset=40, first_dirty_ms=None, **config):
    return dirt_of(
        SEGMENTS,
        TopicConfig(**config),
        from_offset=from_offset,
        upto_offset=upto_offset,
        first_dirty_ms=first_dirty_ms,
        wall_ms=NOW,
    )


@pytest.mark.parametrize(
    ("from_offset", "ratio"), [(0, 1.0), (10, 0.75), (15, 0.75), (20, None), (30, None), (40, None)]
)
def test_more_than_half_must_be_new_by_default(from_offset, ratio):
    found = dirt(from_offset)
    assert (found and found.ratio) == ratio


def test_the_ratio_of_the_topic():
    assert dirt(30, min_cleanable_dirty_ratio=0.25) is None
    assert dirt(30, min_cleanable_dirty_ratio=0.24).dirty_bytes == 100
    assert dirt(40, min_cleanable_dirty_ratio=0.0) is None


@pytest.mark.parametrize(("first_dirty_ms", "overdue"), [(7999, True), (8000, False), (-1, False), (None, False)])
def test_after_the_longest_lag_the_ratio_does_not_matter(first_dirty_ms, overdue):
    found = dirt(30, first_dirty_ms=first_dirty_ms, max_compaction_lag_ms=2000)
    assert bool(found) == overdue
    if found:
        assert found.overdue


def test_neighbours_become_one_as_far_as_they_fit():
    assert joins(SEGMENTS[0], SEGMENTS[1], 50, 150)
    assert not joins(SEGMENTS[0], SEGMENTS[1], 51, 150)


def test_offsets_of_a_segment_fit_into_32_bits():
    first = SegmentInfo(5, 10, 1, 0, True)
    assert joins(first, SegmentInfo(10, 2**31 + 4, 1, 0, True), 0, 100)
    assert not joins(first, SegmentInfo(10, 2**31 + 5, 1, 0, True), 0, 100)
