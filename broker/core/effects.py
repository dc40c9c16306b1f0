"""The things that coordinators can ask of the world.

A core entry never writes, sends or waits. It appends effects to a list; whoever called it takes them and carries
them out. `Reply` answers a request that was parked. `Append` asks for records in a log, and its ``token`` comes back
in ``appended(token, error, …)`` once they are durable or have failed: answers that depend on them are made there.
`WriteMarker` asks for the end of a transaction in some partition. `Work` asks for what takes too long for one entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from ottla.broker.core.topics.producers import TransactionMarker
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Steps


class Asker(Protocol):
    """A request's context, as far as the core reads it. It is opaque otherwise and comes back in `Reply`."""

    @property
    def client_id(self) -> str:
        """The client id of the request header, empty if it was null."""

    @property
    def client_host(self) -> str:
        """The peer's address as Java prints it: ``/127.0.0.1``."""

    @property
    def api_version(self) -> int:
        """The version of the request, and so of its answer."""

    @property
    def encoded(self) -> bytes:
        """An OffsetCommit as it came, without its header; empty for other requests, and where it is not at hand."""


class Reply(Struct):
    """Send ``response`` as the answer to the parked request of ``ctx``."""

    ctx: Asker
    response: Any


@dataclass(slots=True)
class Append:
    """Append ``records`` as one batch to a partition of the coordinator's topic.

    Appends of a partition reach its log in the order in which they were asked for, and their outcomes come back in
    that order. The batch is atomic: all records are durable, or none.

    Attributes:
        producer_id, producer_epoch: of the transaction that the records belong to; -1 for records that count at once.
        verified: what shows that the transaction may write to the partition, if it has not yet; opaque.
    """

    partition: int
    records: list[CoordinatorRecord]
    token: object
    producer_id: int = -1
    producer_epoch: int = -1
    verified: Any = None


@dataclass(slots=True)
class WriteMarker:
    """Write the marker that ends a transaction in one partition.

    The outcome comes back as ``marker_written(token, error, …)``, at any time and in any order.
    """

    tp: TopicPartition
    marker: TransactionMarker
    token: object


@dataclass(slots=True)
class Work:
    """Take the steps between other things, and what they ask for in another thread.

    The outcome comes back as ``worked(token, outcome, …)``, at any time and in any order: what the steps return, None
    if they failed. They work on a snapshot.
    """

    steps: Steps[Any]
    token: object


Effect = Reply | Append | WriteMarker | Work
