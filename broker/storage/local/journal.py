"""The journal: a chain of files that all logs share, written by one thread and never read while the engine is open.

A file is named after the lsn at which it begins, and the next one begins where its last frame ends. It is filled with
zeros in advance, so that a sync has no sizes or extents to write; a file that a checkpoint has made superfluous becomes
the spare for the next turn. What an earlier use left in it has lower lsns and so is no frame any more.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.storage.local.files import (
    JOIN_BELOW,
    Files,
    file_size,
    joined,
    sync,
    sync_names,
    write_all,
    write_whole,
)
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.names import journal_name, parse_journal_name

SyncFile = Callable[[Files, int, str], None]
"""Syncs a file as ``files.sync`` does."""

KEPT_SUFFIX: Final = ".kept"
"""Ends the name of a file with batches that recovery could not use: their log is damaged or deleted."""
DAMAGED_SUFFIX: Final = ".damaged"
"""Ends the name of a file that a repair could not use."""
_SPARE_PREFIX: Final = "spare-"
_ZEROS: Final = bytes(1024 * 1024)
_MOST_SPARES: Final = 2
"""One may have been filled shortly before a checkpoint gives another one back: both serve, and none is filled again."""


@dataclass(slots=True)
class JournalFile:
    """One file of the chain."""

    path: str
    first_lsn: int
    capacity: int


class Journal:
    """The writing end. One thread writes; ``prepare_spare`` and ``retire`` may be called by another one.

    ``file_bytes`` is what a file has in the long run. The first one has ``first_bytes``, so that a start is not delayed
    by filling it, and each next one four times as much as the one before.
    """

    def __init__(self, files: Files, directory: str, *, file_bytes: int, first_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._file_bytes = file_bytes
        self._first_bytes = min(first_bytes, file_bytes)
        self._guard = threading.Lock()
        self._chain: deque[JournalFile] = deque()
        self._spares: deque[JournalFile] = deque()
        self._names = 0
        self._handle: int | None = None
        # Open for good: when a file has got its name it must be possible to sync that.
        self._directory_handle: int | None = None
        self._unsynced = False
        self.sync_file: SyncFile = sync
        """May be replaced by something that does the same and looks at its watch."""
        self.end_lsn = 0
        """The lsn of the next frame."""
        self.synced_lsn = 0
        """Everything below is on the disk."""
        self.limit_lsn = 0
        """The end of the present file: no frame reaches beyond."""

    # --- the thread that writes ---

    def begin(self, lsn: int) -> None:
        """Begin the journal of this life at ``lsn``, above everything that its files have held. Raises ``OSError``."""
        for name in self._files.list(self._directory):
            self._take_over(name)
        self._directory_handle = self._files.open_directory(self._directory)
        self.end_lsn = self.synced_lsn = lsn
        self.next_file(1)
        # Whether the zeros are on the disk does not matter before the first frame is, and then one sync does both.
        self._unsynced = True

    def next_file(self, size: int) -> None:
        """Go on in another file, one that has room for a frame of ``size`` bytes.

        The present one must be synced. Raises ``OSError``, and then nothing has changed; ``SyncFailed``.
        """
        with self._guard:
            spare = self._spares.popleft() if self._spares and self._spares[0].capacity >= size else None
        if spare is None:
            # Nobody had the time to fill one: room is all that can be had at once.
            spare = self._make_spare(max(size, self._next_capacity()), fill=not self._chain)
        path = os.path.join(self._directory, journal_name(self.end_lsn))
        try:
            handle = self._files.open(spare.path)
            try:
                self._files.rename(spare.path, path)
            except OSError:
                self._files.close(handle)
                raise
        except OSError:
            with self._guard:
                self._spares.appendleft(spare)
            raise
        assert self._directory_handle is not None
        sync_names(self._files, self._directory_handle, self._directory)
        if self._handle is not None:
            self._files.close(self._handle)
        self._handle = handle
        self.limit_lsn = self.end_lsn + spare.capacity
        with self._guard:
            if self._chain and self._chain[-1].first_lsn == self.end_lsn:
                # Nothing was written to it that counts, and it has been replaced.
                self._chain.pop()
            self._chain.append(JournalFile(path, self.end_lsn, spare.capacity))

    def write(self, pieces: Sequence[Buffer], size: int) -> tuple[int, OSError | None]:
        """Write ``size`` bytes of whole frames at the end; return how many bytes were written and what stopped it.

        After an error the caller says with ``abandon`` how far the journal goes.
        """
        assert self._handle is not None
        position = self.end_lsn - self._chain[-1].first_lsn
        data = [b"".join(pieces)] if size < JOIN_BELOW else joined(pieces)
        written, error = write_all(self._files, self._handle, data, position)
        self._unsynced = True
        if error is None:
            self.end_lsn += size
        return written, error

    def abandon(self, end_lsn: int) -> None:
        """The journal ends at ``end_lsn`` after a failed write; what lies behind it in the file must never count."""
        self.end_lsn = self.limit_lsn = end_lsn

    def sync(self) -> None:
        """Make everything written durable. Raises ``SyncFailed``."""
        if self._unsynced:
            assert self._handle is not None
            self.sync_file(self._files, self._handle, self._chain[-1].path)
            self._unsynced = False
        self.synced_lsn = self.end_lsn

    def close(self) -> None:
        """Let go of the file."""
        for handle in (self._handle, self._directory_handle):
            if handle is not None:
                with contextlib.suppress(OSError):
                    self._files.close(handle)
        self._handle = self._directory_handle = None

    # --- the other thread ---

    @property
    def wants_spare(self) -> bool:
        """The present file is half full and nothing is there to follow it."""
        with self._guard:
            if self._spares or not self._chain:
                return False
            return self.limit_lsn - self.end_lsn <= self._chain[-1].capacity // 2

    def prepare_spare(self) -> None:
        """Fill a file with zeros, for when the present one is full. Raises ``OSError`` and ``SyncFailed``."""
        spare = self._make_spare(self._next_capacity(), fill=True)
        with self._guard:
            self._spares.append(spare)

    def retire(self, lsn: int) -> None:
        """Let go of files that hold nothing at ``lsn`` or later: a checkpoint that says so is durable."""
        retired = []
        with self._guard:
            while len(self._chain) > 1 and self._chain[1].first_lsn <= lsn:
                retired.append(self._chain.popleft())
        for file in retired:
            self._recycle(file)

    def set_aside(self) -> None:
        """Keep the files of earlier lives for whoever repairs the directory. Raises ``OSError``."""
        while len(self._chain) > 1:
            file = self._chain.popleft()
            self._files.rename(file.path, file.path + KEPT_SUFFIX)

    # --- within ---

    def _take_over(self, name: str) -> None:
        """A file of an earlier life: a spare if it has the right size, else superfluous once there is a checkpoint."""
        if name.endswith((KEPT_SUFFIX, DAMAGED_SUFFIX)):
            return
        path = os.path.join(self._directory, name)
        first_lsn = parse_journal_name(name)
        capacity = file_size(self._files, path)
        file = JournalFile(path, -1 if first_lsn is None else first_lsn, capacity)
        if first_lsn is not None:
            # Retired by the first checkpoint of this life.
            self._chain.append(file)
            self._chain = deque(sorted(self._chain, key=lambda one: one.first_lsn))
        elif capacity == self._file_bytes and not self._spares:
            self._spares.append(file)
        else:
            self._files.remove(path)

    def _recycle(self, file: JournalFile) -> None:
        with self._guard:
            keep = file.capacity == self._file_bytes and len(self._spares) < _MOST_SPARES
        with contextlib.suppress(OSError):
            if not keep:
                self._files.remove(file.path)
                return
            path = self._spare_path()
            self._files.rename(file.path, path)
            with self._guard:
                self._spares.append(JournalFile(path, -1, file.capacity))

    def _spare_path(self) -> str:
        with self._guard:
            self._names += 1
            return os.path.join(self._directory, f"{_SPARE_PREFIX}{self.end_lsn:x}-{self._names}")

    def _next_capacity(self) -> int:
        with self._guard:
            capacity = self._chain[-1].capacity if self._chain else 0
        return min(max(capacity * 4, self._first_bytes), self._file_bytes)

    def _make_spare(self, capacity: int, *, fill: bool) -> JournalFile:
        capacity = (capacity + 7) & ~7
        path = self._spare_path()
        handle = self._files.open(path, create=True)
        try:
            if not fill:
                self._files.allocate(handle, capacity)
            for start in range(0, capacity if fill else 0, len(_ZEROS)):
                piece = _ZEROS if capacity - start >= len(_ZEROS) else _ZEROS[: capacity - start]
                write_whole(self._files, handle, (piece,), start)
            if self._chain:
                sync(self._files, handle, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove(path)
            raise
        finally:
            self._files.close(handle)
        return JournalFile(path, -1, capacity)
