"""Retention: the offset that a log is trimmed to, and whether its active segment has to roll."""

import pytest

from ottla.broker.core.cleaning.retention import Expired, expired
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.engine import SegmentInfo

NOW = 10_000


def log(*rows):
    """Rows are (records, bytes, largest timestamp); the last segment is written."""
    segments, offset = [], 0
    for index, (records, size, newest) in enumerate(rows, 1):
        segments.append(SegmentInfo(offset, offset + records, size, newest, index < len(rows)))
        offset += records
    return segments


def decide(segments, *, log_start_offset=0, high_watermark=None, **config):
    config = {"retention_ms": -1} | config
    end = segments[-1].next_offset if segments else 0
    return expired(
        segments,
        TopicConfig(**config),
        high_watermark=end if high_watermark is None else high_watermark,
        log_start_offset=log_start_offset,
        wall_ms=NOW,
    )


THREE = log((5, 100, 1000), (5, 100, 2000), (5, 50, 3000))


@pytest.mark.parametrize(
    ("retention_ms", "offset", "roll"),
    [
        (9000, None, False),  # exactly as old as allowed
        (8999, 5, False),
        (8000, 5, False),
        (7999, 10, False),
        (7000, 10, False),
        (6999, 15, True),
        (0, 15, True),
        (-1, None, False),
    ],
)
def test_by_time(retention_ms, offset, roll):
    found = decide(THREE, retention_ms=retention_ms)
    assert (found and (found.offset, found.roll)) == (offset and (offset, roll))


@pytest.mark.parametrize(
    ("retention_bytes", "offset"),
    [(-1, None), (251, None), (250, None), (151, None), (150, 5), (51, 5), (50, 10), (1, 10), (0, 15)],
)
def test_by_size_the_rest_is_at_least_that_large(retention_bytes, offset):
    found = decide(THREE, retention_bytes=retention_bytes)
    assert (found and found.offset) == offset


def test_by_both():
    assert decide(THREE, retention_bytes=150, retention_ms=7999) == Expired(10, False, 1, 1)
    # The older segments go for the size of the log, and the next is looked at for its age.
    assert decide(log((5, 100, 9999), (5, 100, 1), (5, 100, 9999)), retention_bytes=200, retention_ms=500).offset == 10


def test_an_older_segment_behind_a_younger_one_stays():
    assert decide(log((5, 100, 9000), (5, 100, 1), (5, 100, 1)), retention_ms=2000) is None


def test_records_without_a_time_have_no_age():
    assert decide(log((5, 100, -1), (5, 100, 1), (5, 100, 1)), retention_ms=0) is None


def test_only_where_the_policy_says_delete():
    assert decide(THREE, deletes=False, compacted=True, retention_ms=0, retention_bytes=0) is None
    assert decide(THREE, compacted=True, retention_ms=0).offset == 15


def test_nothing_goes_that_is_not_durable():
    assert decide(THREE, retention_ms=0, high_watermark=12) == Expired(10, False, 0, 2)
    assert decide(THREE, retention_ms=0, high_watermark=4) is None


def test_nothing_to_do():
    assert decide([], retention_ms=0, retention_bytes=0) is None
    assert decide(THREE[:2], retention_ms=8999, log_start_offset=5) is None
    assert decide(THREE, retention_ms=7999, log_start_offset=7).offset == 10
