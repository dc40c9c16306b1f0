"""The journal of a data directory, read: a chain of files, each named after the lsn at which it begins.

What was appended last is in the journal and not yet, or not certainly, in the segments. A reader of segments that wants
all of a log reads them as far as the checkpoint vouches for them, and goes on with the journal.
"""

import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from ottla.protocol.records import HEADER_SIZE
from ottla.protocol.stored.checkpoint import BadCheckpoint, Checkpoint, LogState, decode_checkpoint
from ottla.protocol.stored.files import DiskFiles, ReadableFiles, is_locked
from ottla.protocol.stored.frames import (
    HEADER_BYTES,
    Frame,
    Kind,
    Window,
    claimed_bytes,
    consecutive_frames,
    frame_bytes,
    scan_frames,
)
from ottla.protocol.stored.names import CHECKPOINT_NAME, JOURNAL_NAME, META_NAME, parse_journal_name

# Base offset and last offset delta of a batch header.
_OFFSETS: Final = struct.Struct(">q15xi")


class JournalReader:
    """The files of a journal, to be read."""

    def __init__(self, files: ReadableFiles, directory: str) -> None:
        self._files = files
        self.paths: dict[int, str] = {}
        """Files by the lsn at which they begin."""
        for name in files.list(directory):
            first_lsn = parse_journal_name(name)
            if first_lsn is not None:
                self.paths[first_lsn] = f"{directory}/{name}"
        self.first_lsn = -1
        """The file that was read last."""
        self.end_lsn = -1
        """The end of the frames that follow each other."""
        self.synced_lsn = -1
        """The furthest that any frame met so far vouches for."""

    def frames(self, lsn: int) -> Iterator[Frame]:
        """The frames that follow each other from ``lsn`` on, up to the first that is not whole."""
        self.end_lsn = lsn
        while True:
            self.first_lsn = max((first for first in self.paths if first <= self.end_lsn), default=-1)
            if self.first_lsn < 0:
                return
            with closing(Window(self._files, self.paths[self.first_lsn])) as window:
                yield from self._frames_of(window)
            # A file ends where the next one begins, whatever lies behind that place.
            if self.end_lsn not in self.paths or self.end_lsn == self.first_lsn:
                return

    def _frames_of(self, window: Window) -> Iterator[Frame]:
        paths, first_lsn = self.paths, self.first_lsn
        for frame in consecutive_frames(window, first_lsn, self.end_lsn - first_lsn):
            if frame.lsn in paths and frame.lsn != first_lsn:
                return
            if frame.synced_lsn > self.synced_lsn:
                self.synced_lsn = frame.synced_lsn
            self.end_lsn = frame.lsn + frame_bytes(len(frame.body))
            yield frame

    def frames_beyond(self) -> Iterator[Frame]:
        """Whole frames anywhere behind the first one that is not."""
        for first_lsn in sorted(first for first in self.paths if first >= self.first_lsn >= 0):
            with closing(Window(self._files, self.paths[first_lsn])) as window:
                begin = max(self.end_lsn - first_lsn, 0)
                for frame in scan_frames(window, first_lsn, begin):
                    self.synced_lsn = max(self.synced_lsn, frame.synced_lsn)
                    yield frame

    def torn_bytes(self) -> int:
        """The bytes of an unfinished frame at the end."""
        if self.first_lsn < 0:
            return 0
        with closing(Window(self._files, self.paths[self.first_lsn])) as window:
            return claimed_bytes(window, self.first_lsn, self.end_lsn - self.first_lsn)

    def limit_lsn(self) -> int:
        """Above everything that the files can hold."""
        limit = 0
        for first_lsn, path in self.paths.items():
            with closing(Window(self._files, path)) as window:
                limit = max(limit, first_lsn + window.size)
        return limit


class Place(NamedTuple):
    """The place of a batch in the journal."""

    path: Path
    position: int
    size: int
    lsn: int
    base_offset: int
    end_offset: int


@dataclass(slots=True)
class Followed:
    """A journal that was read once, frame by frame.

    Attributes:
        reader: has reached the first frame that is not whole.
        states: logs at the checkpoint, by their directories' names; without those that gave way to new ones since.
        places: batches beyond the checkpoint, in order, by the directories' names of their logs.
        names: of the logs\' directories, by the logs\' ids.
    """

    reader: JournalReader
    states: dict[str, LogState]
    places: dict[str, list[Place]]
    frame_count: int = 0
    names: dict[int, str] = field(default_factory=dict)

    def follow(self, checkpoint: Checkpoint, before: "Followed | None" = None) -> None:
        """Read the frames beyond a checkpoint, and beyond those that were read ``before``. Raises ``OSError``."""
        self.reader.synced_lsn = checkpoint.synced_lsn
        names = self.names = (before.names if before else {}) | {one.log_id: one.name for one in checkpoint.logs}
        for frame in self.reader.frames(max(checkpoint.lsn, before.reader.end_lsn if before else -1)):
            self.frame_count += 1
            if frame.kind == Kind.LOG and names.get(frame.log_id) != frame.log_name:
                # Whatever had the name before is gone.
                names = self.names = {log_id: name for log_id, name in names.items() if name != frame.log_name}
                names[frame.log_id] = frame.log_name
                self.states.pop(frame.log_name, None)
                self.places.pop(frame.log_name, None)
            elif frame.kind == Kind.BATCH and frame.log_id in names and len(frame.body) >= HEADER_SIZE:
                self.places.setdefault(names[frame.log_id], []).append(_place(self.reader, frame))


class Trusted(NamedTuple):
    """The extent to which the segments of a log count.

    Attributes:
        last_base: the base offset of the last one that counts.
        length: how many bytes of it do, -1 if all.
    """

    last_base: int
    length: int

    def end_of(self, base_offset: int) -> int | None:
        """The bytes that count of a segment that does, None if all."""
        return self.length if base_offset == self.last_base and self.length >= 0 else None


def data_directory_of(path: Path) -> Path | None:
    """The data directory that a path is in, if it has a journal."""
    path = path.absolute()
    for directory in (path, *path.parents[:3]):
        if (directory / JOURNAL_NAME).is_dir() and (directory / META_NAME).is_file():
            return directory
    return None


class JournalView:
    """The journal of a data directory beyond its checkpoint. It is read once, when first asked for.

    Args:
        before: an earlier look; what it has read is not read again.

    Attributes:
        in_use: a broker has the directory open: segments can be read to their ends.
        checkpoint: None if there is none, or none that can be read.
        problem: why the checkpoint cannot be read; "" if it can, or is missing.
    """

    def __init__(self, data_dir: Path, before: Followed | None = None) -> None:
        self.data_dir = data_dir
        self._before = before
        self.in_use = is_locked(data_dir)
        self.checkpoint: Checkpoint | None = None
        self.problem = ""
        path = data_dir / CHECKPOINT_NAME
        try:
            self.checkpoint = decode_checkpoint(path.read_bytes(), str(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problem = f"{path} cannot be read: {error}"
        except BadCheckpoint as error:
            self.problem = str(error)

    @property
    def is_clean(self) -> bool:
        """Segments have everything: the directory was closed, or has no checkpoint that says otherwise."""
        return self.checkpoint is None or self.checkpoint.clean

    def reader(self) -> JournalReader:
        """A reader of the frames as they are now."""
        return JournalReader(DiskFiles(), str(self.data_dir / JOURNAL_NAME))

    def trusted(self, name: str) -> Trusted | None:
        """The extent to which a log's segments count, by the name of its directory; None if all do."""
        if self.in_use or self.is_clean:
            return None
        state = self.followed.states.get(name)
        if state is None:
            return Trusted(-1, 0)  # it began after the checkpoint: the journal has all of it
        return Trusted(state.next_offset - 1, -1) if state.segment is None else Trusted(state.segment, state.length)

    @property
    def is_damaged(self) -> bool:
        """Whether frames that were on the disk are missing. False while a broker writes: nothing tells it then."""
        reader = self.followed.reader
        if self.is_clean or self.in_use:
            return False
        if reader.first_lsn < 0 or reader.synced_lsn > reader.end_lsn:
            return True
        return any(frame.synced_lsn > reader.end_lsn for frame in reader.frames_beyond())

    @cached_property
    def followed(self) -> Followed:
        """The journal, followed from the checkpoint on to the first frame that is not whole."""
        found = Followed(self.reader(), {}, {})
        if self.checkpoint is not None:
            for state in self.checkpoint.logs:
                found.states[state.name] = state
            if not self.checkpoint.clean:
                with suppress(FileNotFoundError):  # a broker has made a spare of it: segments have what was in it
                    found.follow(self.checkpoint, self._before)
        return found


def _place(reader: JournalReader, frame: Frame) -> Place:
    base_offset, delta = _OFFSETS.unpack_from(frame.body)
    path, position = Path(reader.paths[reader.first_lsn]), frame.lsn - reader.first_lsn + HEADER_BYTES
    return Place(path, position, len(frame.body), frame.lsn, base_offset, base_offset + delta + 1)
