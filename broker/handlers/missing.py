"""The partitions that a request names, and those of them that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.core.refusal import Refusal
from ottla.broker.core.topics.partition import Partition
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.errors import ErrorCode


def missing_partitions(topics: TopicManager, named: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ErrorCode]:
    """Topic name and partition → UNKNOWN_TOPIC_OR_PARTITION, of those that do not exist."""
    return {
        (name, partition): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, partition in named
        if not 0 <= partition < topics.partition_count(name)
    }


def find(topics: TopicManager, name: str, index: int) -> Partition | Refusal:
    """A partition, or why there is none."""
    topic = topics.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
    missing = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}")
    return topic.partition(index) or missing
