"""A log as the writer sees it: where the next batch goes, and when a new segment begins."""

import os
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from ottla.broker.storage.engine import EngineError, LogConfig, Unavailable
from ottla.broker.storage.local.files import Files, write_unsynced
from ottla.broker.storage.local.layout import (
    LOG_SUFFIX,
    METADATA_NAME,
    LogCheckpoint,
    encode_metadata,
    segment_name,
)
from ottla.broker.storage.local.segment import OFFSET_ENTRY_BYTES, SegmentIndex, write_index
from ottla.protocol.records import HEADER_SIZE, NO_TIMESTAMP, BatchError, parse_header

_LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1


class PartitionWriter:
    """Touched by the writer only, once it is registered there."""

    __slots__ = (
        "active_base",
        "deleted",
        "directory",
        "epochs",
        "exists",
        "failed_attempt",
        "failure",
        "first_timestamp_ms",
        "handle",
        "index",
        "index_saved",
        "log_start_offset",
        "name",
        "next_offset",
        "size",
        "topic_id",
        "unsynced",
    )

    def __init__(self, name: str, directory: str, topic_id: UUID, epochs: Sequence[tuple[int, int]]) -> None:
        self.name = name
        self.directory = directory
        self.topic_id = topic_id
        self.epochs = list(epochs)
        self.exists = False
        self.deleted = False
        self.log_start_offset = 0
        self.next_offset = 0
        # The segment being written; there is none before the first append and after everything was trimmed.
        self.active_base: int | None = None
        self.handle: int | None = None
        self.size = 0
        self.index = SegmentIndex(0)
        self.index_saved = False
        self.first_timestamp_ms: int | None = None
        self.unsynced = False
        # Appends of this attempt and earlier ones fail: their offsets were counted from one that failed.
        self.failed_attempt = -1
        self.failure: EngineError = Unavailable("nothing has failed")

    def fail(self, attempt: int, error: EngineError) -> EngineError:
        """Let every append fail that was queued before the event loop hears of ``error``."""
        self.failed_attempt = attempt
        self.failure = error
        return error

    @property
    def path(self) -> str:
        """The file of the segment being written."""
        assert self.active_base is not None
        return os.path.join(self.directory, segment_name(self.active_base, LOG_SUFFIX))

    def resume(self, index: SegmentIndex, size: int, next_offset: int, *, index_saved: bool) -> None:
        """Go on with the last segment that recovery found."""
        self.active_base = index.base_offset
        self.index = index
        self.size = size
        self.next_offset = next_offset
        self.index_saved = index_saved

    def make_directory(self, files: Files) -> int:
        """Make the directory with the topic id in it; return the handle of that file, for the caller to sync.

        Only when it is synced does the log exist: a segment never lies beside an id that could be lost.
        """
        files.make_directory(self.directory)
        return write_unsynced(files, os.path.join(self.directory, METADATA_NAME), encode_metadata(self.topic_id))

    def begin_segment(self, files: Files, base_offset: int, first_timestamp_ms: int) -> None:
        """Make and open an empty segment for a first batch; the caller syncs the directory."""
        path = os.path.join(self.directory, segment_name(base_offset, LOG_SUFFIX))
        handle = files.open(path, create=True)
        try:
            # An earlier attempt may have left the file behind.
            files.truncate(handle, 0)
        except OSError:
            files.close(handle)
            raise
        self.active_base = base_offset
        self.handle = handle
        self.size = 0
        self.index = SegmentIndex(base_offset)
        self.index_saved = False
        self.first_timestamp_ms = first_timestamp_ms

    def note_first_timestamp(self, files: Files) -> None:
        """Find out how old a segment is that an earlier life of the engine began."""
        if self.first_timestamp_ms is None and self.size and self.handle is not None:
            try:
                self.first_timestamp_ms = parse_header(files.read(self.handle, HEADER_SIZE, 0)).max_timestamp
            except (OSError, BatchError):
                self.first_timestamp_ms = NO_TIMESTAMP

    def is_full(self, config: LogConfig, more_bytes: int, size: int, last_offset: int, timestamp_ms: int) -> bool:
        """Whether a batch of ``size`` bytes, ``more_bytes`` after the end, must go to a new segment.

        Age is told by the records' timestamps, as in Kafka: the first batch's and this one's.
        """
        assert self.active_base is not None
        if not self.size + more_bytes:
            return False
        if self.size + more_bytes + size > config.segment_bytes:
            return True
        if last_offset - self.active_base > _LARGEST_RELATIVE_OFFSET:
            return True
        if self.index.size_bytes + OFFSET_ENTRY_BYTES > config.segment_index_bytes:
            return True
        first = self.first_timestamp_ms
        return first is not None and 0 <= first < timestamp_ms - config.segment_ms

    def place(self, size: int, base_offset: int, count: int, max_timestamp_ms: int, interval: int) -> int:
        """Note a batch that was written at the end; return its position."""
        position = self.size
        self.index.add(base_offset + count - 1, position, size, max_timestamp_ms, interval)
        if not position:
            self.first_timestamp_ms = max_timestamp_ms
        self.size = position + size
        self.next_offset = base_offset + count
        self.index_saved = False
        self.unsynced = True
        return position

    def save_index(self, files: Files) -> None:
        """Write the index of the segment being written into its files, if they are out of date."""
        if self.active_base is not None and not self.index_saved:
            write_index(files, self.directory, self.index)
            self.index_saved = True

    def checkpoint(self, *, clean: bool) -> LogCheckpoint:
        return LogCheckpoint(
            topic_id=self.topic_id.hex,
            log_start_offset=self.log_start_offset,
            recovery_point=self.log_start_offset if self.active_base is None else self.active_base,
            epochs=self.epochs,
            log_end_offset=self.next_offset if clean else None,
            active_size=self.size if self.active_base is not None else 0,
        )
