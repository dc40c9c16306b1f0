"""What places of logs, a cluster over TCP or a directory, take and give; and what goes wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.pipeline.codec import Aborted, Damage
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
