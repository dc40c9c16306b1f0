"""Following a partition's directory while a broker writes to it."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.segments import PartitionFiles, StoredBatch, Unreadable, base_offset_of, find_partitions, read_batches


class Follower:
    """Gives the batches that were added to a partition since it was last asked.

    It goes by offsets, so segments may be rolled, deleted and compacted meanwhile.
    """

    def __init__(self, partition: PartitionFiles, *, from_beginning: bool) -> None:
        self._directory = partition.path
        self._next_offset = 0
        self._segment: Path | None = None
        self._position = 0
        if not from_beginning:
            self._skip()

    def _skip(self) -> None:
        """Go to the end without giving anything."""
        segments = self._segments()
        if segments:
            self._segment, self._position = segments[-1], 0
            self._next_offset = base_offset_of(segments[-1]) or 0
            self.poll()

    def _segments(self) -> tuple[Path, ...]:
        from ottla.cli.output import Refused

        try:
            return find_partitions(self._directory)[0].segments
        except Refused:
            return ()  # nothing was written yet, or the topic is gone

    def poll(self) -> list[StoredBatch]:
        """What is new and whole. Raises `Unreadable` where it is damaged."""
        found: list[StoredBatch] = []
        # What was listed behind a segment was begun after its last batch: reading up to its end gives all of it.
        for path in self._segments():
            base = base_offset_of(path) or 0
            if self._segment is not None and base < (base_offset_of(self._segment) or 0):
                continue
            if path != self._segment:
                self._segment, self._position = path, 0
            found += self._read(path)
        return found

    def _read(self, path: Path) -> list[StoredBatch]:
        try:
            return self._read_on(path)
        except Unreadable:
            # Compaction may have put another file in its place: then its beginning is sound.
            if self._position == 0:
                raise
            self._position = 0
            return self._read_on(path)

    def _read_on(self, path: Path) -> list[StoredBatch]:
        found = []
        try:
            for batch in read_batches(path, self._position):
                batch.check_crc()
                self._position = batch.position + batch.header.size
                if batch.header.base_offset >= self._next_offset:
                    found.append(batch)
                    self._next_offset = batch.header.last_offset + 1
        except FileNotFoundError:
            return found  # deleted by retention since it was listed
        except Unreadable as error:
            if not error.unfinished:
                raise
        return found
