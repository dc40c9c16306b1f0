"""Retention: how far a log is to be trimmed, as Kafka decides it.

Segments go from the oldest on, and only as a whole: those of which too many bytes follow (``retention.bytes``), then
those whose youngest record is too old (``retention.ms``), up to the first that stays. A segment whose records have no
timestamps has no age and stays. When everything is to go, the segment that is written has to be ended first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.engine import SegmentInfo


class Expired(NamedTuple):
    """Trim to ``offset``; ``roll`` first where the segment that is written goes as well."""

    offset: int
    roll: bool
    too_large: int
    """Segments that go because of the size of the log."""
    too_old: int


def expired(
    segments: Sequence[SegmentInfo], config: TopicConfig, *, high_watermark: int, log_start_offset: int, wall_ms: int
) -> Expired | None:
    """The part of a log to remove, or None. Nothing goes unless ``cleanup.policy`` says delete."""
    if not config.deletes:
        return None
    too_large = _too_large(segments, config.retention_bytes)
    too_old = 0
    if config.retention_ms >= 0:
        for segment in segments[too_large:]:
            age_ms = wall_ms - segment.max_timestamp_ms
            if segment.max_timestamp_ms < 0 or age_ms <= config.retention_ms:
                break
            too_old += 1
    gone = too_large + too_old
    # What is not durable yet stays: nobody has seen it.
    while gone and segments[gone - 1].next_offset > high_watermark:
        gone -= 1
    if not gone or segments[gone - 1].next_offset <= log_start_offset:
        return None
    last = segments[gone - 1]
    return Expired(last.next_offset, not last.is_closed, min(too_large, gone), max(gone - too_large, 0))


def _too_large(segments: Sequence[SegmentInfo], retention_bytes: int) -> int:
    """The number of segments to remove so that the rest still has at least ``retention_bytes``."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count
