"""What the transaction coordinator can ask of the world, besides answering and appending to its log."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.core.effects import Append, Reply
from ottla.protocol.records import TopicPartition


@dataclass(slots=True)
class WriteMarker:
    """Write the marker that ends a transaction in one partition.

    The outcome comes back as ``marker_written(token, error, …)``, at any time and in any order.

    Attributes:
        producer_epoch: of the marker; with transaction version 2 it is one higher than the records'.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    token: object


Effect = Reply | Append | WriteMarker
