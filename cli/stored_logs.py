"""All of a partition's log: its segments, and what is in the journal alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ottla.cli.journal import journal_batches, with_journal
from ottla.cli.output import Refused
from ottla.cli.segment_indexes import read_offset_index
from ottla.cli.segments import (
    PartitionFiles,
    StoredBatch,
    Unreadable,
    base_offset_of,
    find_partitions,
    read_batches,
    segment_with,
)
from ottla.protocol.stored.cluster_file import all_directories
from ottla.protocol.stored.journal import JournalView, data_directory_of
from ottla.protocol.stored.names import INDEX_SUFFIX, LOGS_NAME


class StoredLog:
    """The batches of a partition in the order of their offsets, file by file."""

    def __init__(self, partition: PartitionFiles, journal: JournalView | None) -> None:
        self.partition = partition
        self.journal = journal
        self._next_offset = 0

    def parts(self, offset: int | None = None) -> Iterator[tuple[Path, Iterator[StoredBatch]]]:
        """Files with their batches, from the one that has ``offset`` on, each to be read before the next is asked for.

        The batches raise `Unreadable` where a file is damaged; the files after it can be read nevertheless.
        """
        segments = self.partition.segments
        trusted = self.journal.trusted(self.partition.path.name) if self.journal is not None else None
        for path in segments[0 if offset is None else segment_with(self.partition, offset) :]:
            base = base_offset_of(path) or 0
            if trusted is not None and base > trusted.last_base:
                break  # begun after the checkpoint: the journal has all of it
            end = None if trusted is None else trusted.end_of(base)
            yield path, self._of_segment(path, offset, end, is_last=path == segments[-1])
        if self.journal is not None:
            yield from self._of_journal(self.journal, offset)

    def _of_segment(self, path: Path, offset: int | None, end: int | None, *, is_last: bool) -> Iterator[StoredBatch]:
        position = 0 if offset is None else _position_of(path, offset)
        try:
            for batch in read_batches(path, position, end=end):
                self._next_offset = batch.header.last_offset + 1
                if offset is None or batch.header.last_offset >= offset:
                    yield batch
        except Unreadable as error:
            # A broker is writing it, and has it in the journal.
            if not (error.unfinished and is_last and self.journal is not None and self.journal.in_use):
                raise

    def _of_journal(self, journal: JournalView, offset: int | None) -> Iterator[tuple[Path, Iterator[StoredBatch]]]:
        found: dict[Path, list[StoredBatch]] = {}
        for path, batch in journal_batches(journal, self.partition.path.name, self._next_offset):
            if offset is None or batch.header.last_offset >= offset:
                found.setdefault(path, []).append(batch)
        for path, batches in found.items():
            yield path, iter(batches)


T = TypeVar("T")


def of_all_nodes(path: Path, of_one: Callable[[Path], list[T]]) -> list[T]:
    """What is found below a path; in the data directory of several nodes, below each of theirs.

    Raises:
        Refused: there is nothing below any of them.
    """
    found: list[T] = []
    refused: Refused | None = None
    for one in all_directories(path):
        try:
            found += of_one(one)
        except Refused as error:
            refused = refused or error
    if refused is not None and not found:
        raise refused
    return found


def stored_logs(path: Path) -> list[StoredLog]:
    """The logs below a path: a data directory, a partition's directory, or a single segment.

    Raises:
        Refused: there are none.
    """
    found = of_all_nodes(path, _of_directory)
    return sorted(found, key=lambda log: (log.partition.topic, log.partition.partition))


def _of_directory(path: Path) -> list[StoredLog]:
    root = data_directory_of(path) if path.is_dir() else None
    journal = None if root is None else JournalView(root)
    try:
        partitions = find_partitions(path)
    except Refused:
        if journal is None or not journal.followed.places:
            raise
        partitions = []
    if journal is not None and path.absolute() in (journal.data_dir, journal.data_dir / LOGS_NAME):
        partitions = with_journal(partitions, journal)
    return [StoredLog(one, journal) for one in partitions]


def _position_of(path: Path, offset: int) -> int:
    """The position to begin a search at: by the index, if there is one that can be trusted."""
    try:
        entries = read_offset_index(path.with_suffix(INDEX_SUFFIX))
        position = max((entry.position for entry in entries if entry.offset <= offset), default=0)
        first = next(read_batches(path, position))
        first.check_crc()
        return position if first.header.base_offset <= offset else 0
    except (OSError, ValueError, Unreadable, StopIteration):
        return 0
