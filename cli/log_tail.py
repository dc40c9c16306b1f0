"""Following a partition while a broker writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.cli.journal import journal_batches
from ottla.cli.output import Refused
from ottla.cli.segments import PartitionFiles, StoredBatch, Unreadable, base_offset_of, find_partitions, read_batches
from ottla.protocol.stored.journal import Followed, JournalView, data_directory_of


class Follower:
    """Gives the batches that were added to a partition since it was last asked.

    It goes by offsets, so segments may be rolled, deleted and compacted meanwhile. What a broker of ours appends is in
    its journal first, so that is read, too.
    """

    def __init__(self, partition: PartitionFiles, *, from_beginning: bool) -> None:
        self._directory = partition.path
        self._next_offset = 0
        self._segment: Path | None = None
        self._position = 0
        self._root = data_directory_of(partition.path)
        self._journal: Followed | None = None
        self._gap_at = -1
        if not from_beginning:
            self._skip()

    def _skip(self) -> None:
        """Go to the end without giving anything."""
        if segments := self._segments():
            self._segment, self._position = segments[-1], 0
            self._next_offset = base_offset_of(segments[-1]) or 0
        for _ in self.poll():
            pass

    def _segments(self) -> tuple[Path, ...]:
        try:
            return find_partitions(self._directory)[0].segments
        except Refused:
            return ()  # nothing was written yet, or the topic is gone

    def poll(self) -> Iterator[StoredBatch]:
        """The new batches that are whole. Raises `Unreadable` where one is damaged."""
        # What was listed behind a segment was begun after its last batch: reading up to its end gives all of it.
        for path in self._segments():
            base = base_offset_of(path) or 0
            if self._segment is not None and base < (base_offset_of(self._segment) or 0):
                continue
            if path != self._segment:
                self._segment, self._position = path, 0
            yield from self._read(path)
        if self._root is not None:
            yield from self._read_journal(JournalView(self._root, self._journal))

    def _read(self, path: Path) -> Iterator[StoredBatch]:
        begin = self._position
        try:
            for batch in read_batches(path, begin):
                batch.check_crc()
                self._position = batch.position + batch.header.size
                if batch.header.base_offset >= self._next_offset:
                    self._next_offset = batch.header.last_offset + 1
                    yield batch
        except FileNotFoundError:
            return  # deleted by retention since it was listed
        except Unreadable as error:
            if error.unfinished:
                return
            if not begin:
                raise
            # Compaction may have put another file in its place: then its beginning is sound.
            self._position = 0
            yield from self._read(path)

    def _read_journal(self, view: JournalView) -> Iterator[StoredBatch]:
        """The batches that go on from what was given; what the checkpoint has left behind is in the segments."""
        name = self._directory.name
        for _, batch in journal_batches(view, name, self._next_offset):
            offset = batch.header.base_offset
            if offset > self._next_offset and self._gap_at != offset:
                # The segments may have what lies between by the next time; if not, compaction took it.
                self._gap_at = offset
                break
            self._next_offset = batch.header.last_offset + 1
            yield batch
        if all(place.end_offset <= self._next_offset for place in view.followed.places.get(name, ())):
            self._journal = view.followed
