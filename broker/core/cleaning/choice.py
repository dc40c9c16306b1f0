"""The choice of what to compact: the log, the offset to stop at, and the segments to merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.engine import SegmentInfo
from ottla.broker.settings import INT32_MAX


class Dirt(NamedTuple):
    """The part of a log that has not been compacted yet.

    ``from_offset`` to ``upto_offset`` has not been seen by compaction and may be now. ``ratio`` is its share of what
    would be read; ``overdue`` says that ``max.compaction.lag.ms`` is over, whatever the ratio.
    """

    from_offset: int
    upto_offset: int
    dirty_bytes: int
    ratio: float
    overdue: bool


def cleanable_from(cleaned_offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """The offset where dirt begins. A mark that cannot be right, as after a crash, is ignored."""
    return cleaned_offset if log_start_offset <= cleaned_offset <= log_end_offset else log_start_offset


def cleanable_upto(
    segments: Sequence[SegmentInfo], config: TopicConfig, *, from_offset: int, stable_offset: int, wall_ms: int
) -> int:
    """The offset where compaction has to stop: the end of a closed segment.

    Nothing at or above ``stable_offset`` is touched: it is not known yet whether it counts. And nothing of a segment
    with a record that is younger than ``min.compaction.lag.ms``, or of what follows.
    """
    upto_offset = segments[0].base_offset if segments else from_offset
    for segment in segments:
        too_young = segment.max_timestamp_ms > wall_ms - config.min_compaction_lag_ms
        if not segment.is_closed or segment.next_offset > stable_offset:
            break
        if config.min_compaction_lag_ms > 0 and too_young and segment.next_offset > from_offset:
            break
        upto_offset = segment.next_offset
    return upto_offset


def dirt_of(
    segments: Sequence[SegmentInfo],
    config: TopicConfig,
    *,
    from_offset: int,
    upto_offset: int,
    first_dirty_ms: int | None,
    wall_ms: int,
) -> Dirt | None:
    """The part to compact, None if there is nothing or too little.

    Args:
        first_dirty_ms: the time of the first record that compaction has not seen, if that is known.
    """
    clean_bytes = dirty_bytes = 0
    for segment in segments:
        if segment.next_offset > upto_offset:
            break
        if segment.next_offset <= from_offset:
            clean_bytes += segment.size_bytes
        else:
            dirty_bytes += segment.size_bytes
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    overdue = first_dirty_ms is not None and 0 <= first_dirty_ms < wall_ms - config.max_compaction_lag_ms
    if not overdue and ratio <= config.min_cleanable_dirty_ratio:
        return None
    return Dirt(from_offset, upto_offset, dirty_bytes, ratio, overdue)


def joins(first: SegmentInfo, segment: SegmentInfo, written_bytes: int, segment_bytes: int) -> bool:
    """True if a segment may be merged with those from ``first`` on, of which ``written_bytes`` have stayed."""
    fits = written_bytes + segment.size_bytes <= segment_bytes
    return fits and segment.next_offset - first.base_offset <= INT32_MAX
