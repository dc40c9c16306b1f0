"""Files as their readers see them, and the locks that say whether a broker has a directory open."""

import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

LOCK_NAME: Final = "LOCK"
"""The file that a broker, or a supervisor, holds as long as it lives. It has its pid."""
_LOCKS: Final = ((LOCK_NAME, fcntl.flock), (".lock", fcntl.lockf))
"""Ottla's lock and Kafka's."""


class ReadableFiles(Protocol):
    """The operations that reading takes. All raise ``OSError``."""

    def open(self, path: str) -> int: ...
    def close(self, handle: int) -> None: ...
    def read(self, handle: int, size: int, offset: int) -> bytes:
        """At most ``size`` bytes; fewer at the end of the file only."""

    def size(self, handle: int) -> int: ...
    def list(self, path: str) -> list[str]: ...


class DiskFiles:
    """The disk, and nothing is written to it. Without state, so that threads may share one."""

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, handle: int) -> None:
        os.close(handle)

    def read(self, handle: int, size: int, offset: int) -> bytes:
        data = os.pread(handle, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        while data:
            offset += len(data)
            size -= len(data)
            data = os.pread(handle, size, offset) if size else b""
            parts.append(data)
        return b"".join(parts)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def list(self, path: str) -> list[str]:
        return os.listdir(path)


def in_use(path: Path) -> bool:
    """Tell whether a broker has the data directory open that a file or directory belongs to."""
    return any(is_locked(directory) for directory in path.absolute().parents[:3])


def is_locked(directory: Path) -> bool:
    """Tell whether a broker, Ottla or Kafka, has this data directory open. Tries a shared lock for a moment."""
    for name, lock in _LOCKS:
        try:
            handle = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
    return False
