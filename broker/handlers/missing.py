"""Partitions that a request names and that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.errors import ErrorCode


def missing_partitions(topics: TopicManager, named: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ErrorCode]:
    """Topic name and partition → UNKNOWN_TOPIC_OR_PARTITION, of those that do not exist."""
    return {
        (name, partition): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, partition in named
        if not 0 <= partition < topics.partition_count(name)
    }
