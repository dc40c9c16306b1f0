"""The interface of a place of logs, be it a cluster over TCP or a directory: all that the rest of the source knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.pipeline.codec import Aborted, Chunk, Damage
from ottla.protocol.records import TopicPartition

UNKNOWN_ID = "0" * 32


class Topic(NamedTuple):
    """A topic as it is now. ``topic_id`` is 32 hexadecimal digits, all 0 where it is not known."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    is_internal: bool


class Bounds(NamedTuple):
    """The first offset that is there, and the one behind the last that may be read."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, from ``start`` to before ``end``; ``aborted`` if it is known already."""

    tp: TopicPartition
    start: int
    end: int
    aborted: tuple[Aborted, ...] | None = None

    @property
    def weight(self) -> int:
        return max(0, self.end - self.start)


class DataLoss(Exception):
    """Something that should have been read is not there, or is damaged; ``failOnDataLoss=false`` goes on."""


class SourceError(Exception):
    """The cluster or the directory cannot be read; the message names it and says what to do."""


Report = Callable[[TopicPartition, str], None]
"""Called with what is lost: raises `DataLoss`, or warns."""
Broken = Callable[[TopicPartition, Damage], None]
"""Called with a batch that is damaged, and left out: raises `DataLoss`, or warns."""


class Logs(Protocol):
    """A place of logs. Use `close` at the end."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, or empty; known once topics were asked for."""

    def topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        """The named topics that exist, or all topics.

        Raises:
            SourceError: it cannot be found out.
        """

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The beginnings and ends of logs, as far as may be read with the isolation level asked for.

        Raises:
            SourceError: it cannot be found out.
        """

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset with that time (Unix ms) or a later one; None where there is none.

        Raises:
            SourceError: it cannot be found out.
        """

    def chunks(self, spans: Sequence[Span], lost: Report, broken: Broken) -> Iterator[Chunk]:
        """The records of spans, a few MiB at a time; those of one partition in order.

        Raises:
            SourceError: it cannot be read.
            DataLoss: ``lost`` or ``broken`` raised it.
        """

    def close(self) -> None:
        """Let go of connections and files."""
