"""The topics and partitions to read, as they are now."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ottla.clients.errors import OptionError
from ottla.clients.partitions import labels
from ottla.clients.structs import EARLIEST, LATEST
from ottla.pipeline.source.logs import Bounds, SourceError, Topic
from ottla.pipeline.source.options import Options, Place
from ottla.pipeline.source.rows import Logs
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition


def subscribed(options: Options, logs: Logs) -> dict[str, Topic]:
    """The topics that options name and that exist. One that does not is empty: it may come.

    Raises:
        SourceError: the cluster or the directory cannot be read.
    """
    if options.topics:
        return logs.topics(options.topics)
    found = logs.topics(None)
    if options.pattern:
        pattern = re.compile(options.pattern)
        return {name: topic for name, topic in found.items() if pattern.fullmatch(name)}
    return {name: topic for name, topic in found.items() if not topic.is_internal and name != OFFSETS_TOPIC}


def partitions_of(options: Options, topics: dict[str, Topic]) -> list[TopicPartition]:
    """The partitions of topics that are wanted."""
    found = (TopicPartition(topic.name, one) for topic in topics.values() for one in topic.partitions)
    return [tp for tp in found if options.wants(tp)]


def resolve(
    place: Place, bounds: dict[TopicPartition, Bounds], logs: Logs, *, strict: bool = False
) -> dict[TopicPartition, int]:
    """The offsets that a place means.

    Raises:
        OptionError: ``strict``, and a partition has nothing of that time or later.
        SourceError: the cluster or the directory cannot be read.
    """
    if place.timestamp_ms is not None:
        found = logs.offsets_at(list(bounds), place.timestamp_ms)
        if strict and (missing := sorted(tp for tp in bounds if found.get(tp) is None)):
            raise OptionError(
                f"option 'startingTimestamp' is {place.timestamp_ms}, and nothing is that young in "
                f"{labels(missing[:10])}; allowed: an earlier time, or startingOffsetsByTimestampStrategy=latest"
            )
        return {tp: bound.end if (offset := found.get(tp)) is None else offset for tp, bound in bounds.items()}
    named = dict(place.offsets)
    return {tp: _offset(named.get(tp, place.default), bound) for tp, bound in bounds.items()}


def _offset(offset: int, bound: Bounds) -> int:
    return {EARLIEST: bound.start, LATEST: bound.end}.get(offset, offset)


def check_named(place: Place, bounds: Sequence[TopicPartition], name: str) -> None:
    """Refuse offsets of partitions that are not there.

    Raises:
        SourceError: there is such a partition.
    """
    if missing := [tp for tp, _ in place.offsets if tp not in bounds]:
        raise SourceError(f"option {name!r} names partitions that are not read: {labels(missing[:10])}")
