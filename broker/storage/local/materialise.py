"""Bringing batches from the journal to their segments: written in large gulps, synced when a checkpoint needs it."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.broker.storage.local.files import (
    Files,
    SyncFailed,
    directory,
    joined,
    opened,
    sync,
    sync_directory,
    write_all,
    write_file,
    write_whole,
)
from ottla.broker.storage.local.kept_log import Batch, KeptLog
from ottla.broker.storage.local.layout import Layout, deleted_name
from ottla.broker.storage.local.segment import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, SegmentIndex, load_index
from ottla.protocol.stored.names import INDEX_SUFFIX, METADATA_NAME, TIME_INDEX_SUFFIX, encode_metadata

_MOST_GULP_BYTES: Final = 16 * 1024 * 1024
_ENTRIES_AT_A_TIME: Final = 128
_HANDLES_AT_A_TIME: Final = 4


@dataclass(frozen=True, slots=True)
class Written:
    """Batches that are in a segment now."""

    segment_base: int
    index: SegmentIndex
    size: int
    """Of the segment."""
    next_offset: int
    count: int
    """Number of batches."""
    size_bytes: int
    """Of the batches."""


class Materialiser:
    """Writes segments. One thread uses it.

    Attributes:
        logs: all that have anything on the disk, by their ids. A checkpoint speaks of these.
        waiting: those with batches that could not be written yet.
    """

    def __init__(self, files: Files, layout: Layout, *, most_handles: int) -> None:
        self.files = files
        self.layout = layout
        self.logs: dict[int, KeptLog] = {}
        self.waiting: dict[KeptLog, None] = {}
        self._most_handles = most_handles
        self._unique = 0
        self._handles: dict[KeptLog, None] = {}
        self._touched: dict[KeptLog, None] = {}
        self._directories: dict[str, None] = {}

    def write(self, log: KeptLog) -> tuple[list[Written], OSError | None]:
        """Write the log's backlog; what could not be written stays there, and the reason is returned."""
        done: list[Written] = []
        try:
            while log.backlog:
                first = log.backlog[0]
                if not log.exists:
                    self.make_directory(log)
                begins = first.begins_segment and not (log.segment == first.base_offset and not log.length)
                if begins or log.segment is None:
                    self.end_segment(log)
                    self._begin_segment(log, first)
                self._write_run(log, done)
        except OSError as error:
            return done, error
        return done, None

    def end_segment(self, log: KeptLog) -> None:
        """Write no more to the present segment; it is on the disk with its indexes. Raises ``OSError``."""
        if log.segment is None:
            return
        self._index(log)
        self._save_index(log, complete=True)
        self._close_handle(log)
        log.segment = None
        log.index = None
        log.length = log.index_entries = log.time_entries = 0
        log.max_timestamp_ms = log.first_timestamp_ms = -1
        self._touched.pop(log, None)

    def complete(self, logs: Iterable[KeptLog]) -> None:
        """Write the indexes as those of segments that are not gone on with. Raises ``OSError`` and ``SyncFailed``."""
        for log in logs:
            self._save_index(log, complete=True)

    def sync(self) -> None:
        """Make durable all that was written. Raises ``OSError`` and ``SyncFailed``."""
        for log in list(self._touched):
            self._save_index(log, complete=False)
            if log.unsynced:
                assert log.handle is not None
                sync(self.files, log.handle, log.path)
                log.unsynced = False
        self._touched.clear()
        for path in list(self._directories):
            sync_directory(self.files, path)
        self._directories.clear()

    def forget(self, log: KeptLog) -> None:
        """The log is deleted: no checkpoint speaks of it any more, and nothing is written to it."""
        log.is_deleted = True
        self.logs.pop(log.log_id, None)
        self.waiting.pop(log, None)
        log.backlog.clear()
        log.unsynced = False
        self._touched.pop(log, None)
        self._directories.pop(log.directory, None)
        self._close_handle(log)

    def discard(self, name: str) -> None:
        """Rename a log's directory, durably, and then take it apart. A start finishes what was begun.

        Raises ``OSError`` when the directory still has its name; nothing happens if there is none.
        """
        self._unique += 1
        trash = self.layout.log_directory(deleted_name(name, self._unique))
        with directory(self.files, self.layout.logs) as sync_names:
            try:
                self.files.rename(self.layout.log_directory(name), trash)
            except FileNotFoundError:
                return
            sync_names()
        with contextlib.suppress(OSError):
            remove_tree(self.files, trash)

    def give_up_handles(self) -> None:
        """Close those that were not used for the longest time. Raises ``SyncFailed``."""
        for log in list(self._handles)[:_HANDLES_AT_A_TIME]:
            self._close_handle(log)

    def close(self) -> None:
        """Let go of all files, without a promise."""
        for log in self._handles:
            if log.handle is not None:
                with contextlib.suppress(OSError):
                    self.files.close(log.handle)
                log.handle = None
        self._handles.clear()

    def make_directory(self, log: KeptLog) -> None:
        """Make the directory of a log that has none. Raises ``OSError``."""
        # What has the name already is what a deletion could not remove, or a directory that came to nothing.
        self.discard(log.name)
        self.files.make_directory(log.directory)
        write_file(self.files, os.path.join(log.directory, METADATA_NAME), encode_metadata(log.uuid))
        log.exists = True
        self._directories[self.layout.logs] = None
        self._directories[log.directory] = None

    # --- segments ---

    def _begin_segment(self, log: KeptLog, first: Batch) -> None:
        log.segment = first.base_offset
        try:
            handle = self.files.open(log.path, create=True)
        except OSError:
            log.segment = None
            raise
        log.handle = handle
        log.length = 0
        log.index = SegmentIndex(first.base_offset)
        log.index_entries = log.time_entries = 0
        log.first_timestamp_ms = first.max_timestamp_ms
        self._directories[log.directory] = None
        self._keep_handle(log)
        # An earlier attempt may have left something in the file.
        self.files.truncate(handle, 0)

    def _write_run(self, log: KeptLog, done: list[Written]) -> None:
        """Write what goes to the present segment, as far as it is large enough for one gulp."""
        handle = self._handle(log)
        index = self._index(log)
        run = list(_same_segment(log.backlog))
        written, error = write_all(
            self.files, handle, joined([piece for batch in run for piece in batch.body]), log.length
        )
        log.unsynced = True
        self._touched[log] = None
        start = length = log.length
        end, next_offset, count, add = start + written, log.next_offset, 0, index.add
        for batch in run:
            size = batch.size
            if length + size > end:
                break
            next_offset = batch.base_offset + batch.count
            add(next_offset - 1, length, size, batch.max_timestamp_ms, batch.config.index_interval_bytes)
            length += size
            count += 1
        log.length, log.next_offset = length, next_offset
        for _ in range(count):
            log.backlog.popleft()
        if count:
            assert log.segment is not None
            done.append(Written(log.segment, index, log.length, log.next_offset, count, log.length - start))
        if error is not None:
            self._cut_back(log, handle)
            raise error

    def _cut_back(self, log: KeptLog, handle: int) -> None:
        """Leave no part of a batch at the end of the file."""
        try:
            self.files.truncate(handle, log.length)
        except OSError as error:
            raise SyncFailed(f"cutting {log.path} back to {log.length}: {error.strerror or error}") from error

    # --- indexes ---

    def _index(self, log: KeptLog) -> SegmentIndex:
        if log.index is None:
            assert log.segment is not None
            entries = (log.index_entries, log.time_entries)
            index, is_rebuilt = load_index(self.files, log.path, self._handle(log), log.segment, log.length, entries)
            if is_rebuilt:
                log.index_entries = log.time_entries = 0
            else:
                index.max_timestamp_ms, index.offset_of_max = log.max_timestamp_ms, log.offset_of_max
            log.index = index
        return log.index

    def _save_index(self, log: KeptLog, *, complete: bool) -> None:
        """Write the entries that are not yet in the index files; a few wait, as each time costs two syncs.

        After a crash a search may have to walk over as many batches as the missing entries would have skipped.
        """
        index = log.index
        if index is None or log.segment is None:
            return
        if complete:
            index.note_time()
        elif len(index.offsets) < log.index_entries + _ENTRIES_AT_A_TIME:
            return
        offsets, times = index.encode(log.index_entries, log.time_entries)
        self._extend(log.path_of(INDEX_SUFFIX), log.index_entries * OFFSET_ENTRY_BYTES, offsets)
        self._extend(log.path_of(TIME_INDEX_SUFFIX), log.time_entries * TIME_ENTRY_BYTES, times)
        log.index_entries, log.time_entries = len(index.offsets), len(index.times)
        self._directories[log.directory] = None

    def _extend(self, path: str, position: int, data: bytes) -> None:
        with opened(self.files, path, create=True) as handle:
            write_whole(self.files, handle, (data,), position)
            if self.files.size(handle) > position + len(data):
                # Left over from what a crash took back.
                self.files.truncate(handle, position + len(data))
            sync(self.files, handle, path)

    # --- handles ---

    def _handle(self, log: KeptLog) -> int:
        """A handle to the present segment, opened if need be, and now the most recently used one."""
        if log.handle is None:
            log.handle = self.files.open(log.path)
        self._keep_handle(log)
        return log.handle

    def _keep_handle(self, log: KeptLog) -> None:
        self._handles.pop(log, None)
        while len(self._handles) >= self._most_handles:
            self._close_handle(next(iter(self._handles)))
        self._handles[log] = None

    def _close_handle(self, log: KeptLog) -> None:
        self._handles.pop(log, None)
        if log.handle is not None:
            handle, log.handle = log.handle, None
            try:
                if log.unsynced:
                    # An error in writing back is reported to handles that were open then, so none is closed before.
                    sync(self.files, handle, log.path)
                    log.unsynced = False
            finally:
                self.files.close(handle)


def _same_segment(backlog: Iterable[Batch]) -> Iterator[Batch]:
    """The beginning of a backlog that goes to one segment, in one gulp."""
    size = 0
    for position, batch in enumerate(backlog):
        if position and (batch.begins_segment or size + batch.size > _MOST_GULP_BYTES):
            return
        size += batch.size
        yield batch


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory of files, or what has its name: of a link the link alone. Raises ``OSError``."""
    try:
        names = files.list(path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        files.remove(path)
        return
    for name in names:
        files.remove(os.path.join(path, name))
    files.remove_directory(path)
