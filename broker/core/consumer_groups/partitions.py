"""Partitions as members of the classic protocol name them: by topic name, in bytes that the broker reads for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.broker.core.consumer_groups.topics import Topics
from ottla.protocol.consumer_protocol import (
    NEWEST_VERSION,
    Assignment,
    ConsumerTopicPartitions,
    embedded_version,
    encode_assignment,
)


def by_id(topics: Topics, named: Iterable[ConsumerTopicPartitions]) -> dict[UUID, dict[int, None]]:
    """Partitions by the ids that their topics have now; those of topics that there are not are left out."""
    found: dict[UUID, dict[int, None]] = {}
    for one in named:
        topic = topics.by_name.get(one.topic)
        if topic is not None and one.partitions:
            found.setdefault(topic.topic_id, {}).update(dict.fromkeys(one.partitions))
    return found


def encoded(topics: Topics, partitions: Mapping[UUID, Iterable[int]], subscription: bytes) -> bytes:
    """An assignment in the version of a subscription (R8.7); partitions of topics that there are not are left out.

    Raises:
        MalformedFrame: the subscription has no version.
    """
    named = [
        ConsumerTopicPartitions(topic=topic.name, partitions=sorted(numbers))
        for topic_id, numbers in partitions.items()
        if (topic := topics.by_id.get(topic_id)) is not None
    ]
    version = min(embedded_version(subscription), NEWEST_VERSION)
    return encode_assignment(Assignment(assigned_partitions=named), version)
