"""A log as the keeper sees it: what of it lies in segments, and what is on its way there."""

import os
from collections import deque
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.segment import SegmentIndex
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.checkpoint import LogState
from ottla.protocol.stored.names import LOG_SUFFIX, segment_name


class Batch(Protocol):
    """What the keeper wants to know of a batch that the journal has."""

    @property
    def base_offset(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def body(self) -> Sequence[Buffer]: ...
    @property
    def size(self) -> int: ...
    @property
    def begins_segment(self) -> bool: ...
    @property
    def config(self) -> LogConfig: ...


class KeptLog:
    """Touched by the keeper only, once its log is open, but for ``cleaned_offset`` and ``epochs``."""

    __slots__ = (
        "active_base",
        "backlog",
        "cleaned_offset",
        "damage",
        "directory",
        "epochs",
        "exists",
        "first_timestamp_ms",
        "handle",
        "index",
        "index_entries",
        "is_deleted",
        "log_id",
        "log_start_offset",
        "max_timestamp_ms",
        "name",
        "next_offset",
        "offset_of_max",
        "owner",
        "size",
        "time_entries",
        "topic_id",
        "unsynced",
    )

    def __init__(self, log_id: int, name: str, directory: str, topic_id: UUID) -> None:
        self.log_id = log_id
        self.name = name
        self.directory = directory
        self.topic_id = topic_id
        self.owner: object = None
        self.exists = False
        self.is_deleted = False
        # Why its segments cannot be used; "" if they can.
        self.damage = ""
        self.log_start_offset = 0
        self.next_offset = 0
        self.cleaned_offset = 0
        self.epochs: list[tuple[int, int]] = []
        # The segment being written; there is none before the first batch and after one was ended.
        self.active_base: int | None = None
        self.size = 0
        self.handle: int | None = None
        self.unsynced = False
        self.first_timestamp_ms = -1
        # Read from its files when the segment is first written in this life of the engine.
        self.index: SegmentIndex | None = None
        self.max_timestamp_ms = -1
        self.offset_of_max = 0
        # How many entries lie in the index files.
        self.index_entries = 0
        self.time_entries = 0
        # Acknowledged, and not yet in a segment.
        self.backlog: deque[Batch] = deque()

    @property
    def path(self) -> str:
        """The file of the segment being written."""
        return self.path_of(LOG_SUFFIX)

    def path_of(self, suffix: str) -> str:
        """One of the files of the segment being written."""
        assert self.active_base is not None
        return os.path.join(self.directory, segment_name(self.active_base, suffix))

    def state(self) -> LogState:
        """For the checkpoint."""
        index = self.index
        return LogState(
            log_id=self.log_id,
            name=self.name,
            topic_id=self.topic_id.hex,
            log_start_offset=self.log_start_offset,
            next_offset=self.next_offset,
            cleaned_offset=self.cleaned_offset,
            epochs=self.epochs,
            segment=self.active_base,
            length=self.size if self.active_base is not None else 0,
            first_timestamp_ms=self.first_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms if index is None else index.max_timestamp_ms,
            offset_of_max=self.offset_of_max if index is None else index.offset_of_max,
            index_entries=self.index_entries,
            time_entries=self.time_entries,
        )

    @classmethod
    def of(cls, state: LogState, directory: str) -> "KeptLog":
        """As the checkpoint has it."""
        log = cls(state.log_id, state.name, directory, state.uuid)
        log.exists = True
        log.log_start_offset = state.log_start_offset
        log.next_offset = state.next_offset
        log.cleaned_offset = state.cleaned_offset
        log.epochs = state.epochs
        log.active_base = state.segment
        log.size = state.length
        log.first_timestamp_ms = state.first_timestamp_ms
        log.max_timestamp_ms = state.max_timestamp_ms
        log.offset_of_max = state.offset_of_max
        log.index_entries = state.index_entries
        log.time_entries = state.time_entries
        return log
