"""A log as the keeper sees it: what of it lies in segments, and what is on its way there."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.segment import SegmentIndex, segment_path
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.checkpoint import LogState
from ottla.protocol.stored.names import LOG_SUFFIX


class Batch(Protocol):
    """A batch of the journal, as far as the keeper needs it."""

    base_offset: int
    count: int
    max_timestamp_ms: int
    body: Sequence[Buffer]
    size: int
    begins_segment: bool
    config: LogConfig


@dataclass(slots=True, kw_only=True, eq=False)
class KeptLog(LogState):
    """Touched by the keeper only, once its log is open, but for ``cleaned_offset`` and ``epochs``.

    The segment is the one being written; there is none before the first batch and after one was ended.

    Attributes:
        owner: the log of the event loop.
        damage: why its segments cannot be used; "" if they can.
        index: read from its files when the segment is first written in this life of the engine.
        backlog: acknowledged, and not yet in a segment.
    """

    directory: str
    owner: object = None
    exists: bool = False
    is_deleted: bool = False
    damage: str = ""
    handle: int | None = None
    unsynced: bool = False
    index: SegmentIndex | None = None
    backlog: deque[Batch] = field(default_factory=deque)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def path(self) -> str:
        """The file of the segment being written."""
        return self.path_of(LOG_SUFFIX)

    def path_of(self, suffix: str) -> str:
        """One of the files of the segment being written."""
        assert self.segment is not None
        return segment_path(self.directory, self.segment, suffix)

    def go_on_with(self, index: SegmentIndex, length: int, first_timestamp_ms: int) -> None:
        """The next batch goes to this segment, the index of which is in its files."""
        self.segment, self.length = index.base_offset, length
        self.first_timestamp_ms = first_timestamp_ms
        self.max_timestamp_ms, self.offset_of_max = index.max_timestamp_ms, index.offset_of_max
        self.index_entries, self.time_entries = len(index.offsets), len(index.times)

    def state(self) -> LogState:
        """For the checkpoint."""
        state = LogState(**_fields(self))
        if self.index is not None:
            state.max_timestamp_ms, state.offset_of_max = self.index.max_timestamp_ms, self.index.offset_of_max
        return state

    @classmethod
    def of(cls, state: LogState, directory: str) -> "KeptLog":
        """As the checkpoint has it."""
        return cls(directory=directory, exists=True, **_fields(state))


def _fields(state: LogState) -> dict[str, Any]:
    return {one.name: getattr(state, one.name) for one in fields(LogState)}
