"""Partitions in words, and by topic, as requests have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.clients.structs import OffsetAndMetadata
from ottla.protocol.records import TopicPartition

P = TypeVar("P")
T = TypeVar("T")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def label(tp: TopicPartition) -> str:
    """A partition as Kafka writes it: ``orders-0``."""
    return f"{tp.topic}-{tp.partition}"


def labels(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(label(tp) for tp in partitions)


def by_topic(partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], T]) -> dict[str, list[T]]:
    """Partitions by topic, each as ``make`` gives it. The order stays."""
    found: dict[str, list[T]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(make(tp))
    return found


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions, by topic. The order stays."""
    return by_topic(partitions, lambda tp: tp.partition)


def committable(offsets: Offsets, topic: Callable[..., T], partition: Callable[..., P]) -> list[T]:
    """Offsets in the form of a request that commits them.

    Args:
        topic, partition: the request's own classes; OffsetCommit and TxnOffsetCommit have the same fields.
    """
    parts = by_topic(
        offsets,
        lambda tp: partition(
            partition_index=tp.partition,
            committed_offset=offsets[tp].offset,
            committed_leader_epoch=offsets[tp].leader_epoch,
            committed_metadata=offsets[tp].metadata,
        ),
    )
    return [topic(name=name, partitions=one) for name, one in parts.items()]
