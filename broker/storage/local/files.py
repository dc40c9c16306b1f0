"""Every touch of the disk goes through ``Files``, so that a simulated disk can stand in and fail where it hurts."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.broker.engine import EngineError, StorageFull, Unavailable
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.files import DiskFiles

_MOST_PIECES: Final = 1024
JOIN_BELOW: Final = 64 * 1024
"""A piece smaller than this costs less to copy than to mention."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_HANDLE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that say nothing about the file: no handle can be opened at the moment."""


class SyncFailed(Exception):
    """Syncing failed. The kernel may have dropped the pages, so trying again could report success for lost data."""


class Files(DiskFiles):
    """The disk: plain POSIX, by path or by handle. Everything raises ``OSError``; only ``sync…`` make anything durable.

    A directory must be synced for names made, changed or removed in it to be durable. What a path names is never
    reached through a symbolic link, but for the directories above it. It has no state, so that the event loop and the
    writer thread may share one.
    """

    def open(self, path: str, *, create: bool = False) -> int:
        """Open to read and write; the handle is for ``close`` and everything that takes one."""
        return _open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0))

    def write(self, handle: int, pieces: Sequence[Buffer], offset: int) -> int:
        """Write at most 1024 pieces one after the other; how many bytes were written may be fewer than there are."""
        return os.pwritev(handle, pieces, offset)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Make the content and its length durable."""
        if sys.platform == "darwin":
            import fcntl

            # fsync there leaves the data in the drive's own cache.
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(handle)

    def open_directory(self, path: str) -> int:
        """Open a directory for ``sync_directory``."""
        return _open(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_directory(self, handle: int) -> None:
        """Make the names in a directory durable."""
        os.fsync(handle)

    def make_directory(self, path: str) -> None:
        """Make one level; ``FileExistsError`` if there is something of that name."""
        os.mkdir(path, 0o700)

    def list(self, path: str) -> list[str]:
        handle = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return os.listdir(handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def allocate(self, handle: int, size: int) -> None:
        """Take room for ``size`` bytes, so that the file has them."""
        if sys.platform == "darwin":
            os.ftruncate(handle, size)
        else:
            os.posix_fallocate(handle, 0, size)

    def free_space(self, path: str) -> tuple[int, int]:
        """Bytes that are free on the disk, and all that it has."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def lock(self, path: str) -> int:
        """Open the file, making it if need be, and lock it until the handle is closed; ``BlockingIOError`` if taken."""
        import fcntl

        handle = self.open(path, create=True)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle


def _open(path: str, flags: int) -> int:
    """Open a file that, if it is made now, is nobody else's to read: catalogs hold credentials, logs anything."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if flags & os.O_NOFOLLOW and error.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(path):
            raise OSError(errno.ELOOP, f"{path} is a symbolic link: none is followed in a data directory") from None
        raise


def engine_error(error: OSError, doing: str) -> EngineError:
    """Turn an operating system's error into one of the engine's."""
    text = f"{doing}: {error.strerror or error}"
    return StorageFull(text) if error.errno in _NO_ROOM else Unavailable(text)


def write_all(files: Files, handle: int, pieces: Sequence[Buffer], offset: int) -> tuple[int, OSError | None]:
    """Write all pieces, however few the disk takes at a time.

    Returns how many bytes were written and what stopped it. A full disk takes a part first and refuses only then, so
    the count is always looked at.
    """
    written = 0
    for start in range(0, len(pieces), _MOST_PIECES):
        rest = [piece for piece in pieces[start : start + _MOST_PIECES] if len(piece)]
        while rest:
            try:
                count = files.write(handle, rest, offset + written)
            except OSError as error:
                return written, error
            if count <= 0:
                return written, OSError(errno.ENOSPC, "nothing was written")
            written += count
            while rest and count >= len(rest[0]):
                count -= len(rest.pop(0))
            if count:
                rest[0] = memoryview(rest[0])[count:]
    return written, None


def write_whole(files: Files, handle: int, pieces: Sequence[Buffer], offset: int) -> int:
    """Write all pieces and return how many bytes they have. Raises ``OSError`` where only a part got there."""
    written, error = write_all(files, handle, pieces, offset)
    if error is not None:
        raise error
    return written


def joined(pieces: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer pieces: small ones are put together, large ones are not copied."""
    fewer: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < JOIN_BELOW:
            small.append(piece)
            continue
        if small:
            fewer.append(b"".join(small))
            small = []
        fewer.append(piece)
    if small:
        fewer.append(b"".join(small))
    return fewer


@contextmanager
def opened(files: Files, path: str, *, create: bool = False) -> Iterator[int]:
    """A handle to a file, which is closed at the end. Raises ``OSError``."""
    handle = files.open(path, create=create)
    try:
        yield handle
    finally:
        files.close(handle)


def sync(files: Files, handle: int, path: str) -> None:
    """Make a file durable, or raise ``SyncFailed``."""
    try:
        files.sync(handle)
    except OSError as error:
        raise SyncFailed(f"syncing {path}: {error.strerror or error}") from error


@contextmanager
def directory(files: Files, path: str) -> Iterator[Callable[[], None]]:
    """Open a directory before names in it are changed, as later nothing may be left to open it with.

    What is given makes its names durable, or raises ``SyncFailed``. Raises ``OSError``.
    """
    handle = files.open_directory(path)
    try:
        yield lambda: sync_names(files, handle, path)
    finally:
        files.close(handle)


def sync_names(files: Files, handle: int, path: str) -> None:
    """Make the names in a directory durable that is open, or raise ``SyncFailed``."""
    try:
        files.sync_directory(handle)
    except OSError as error:
        raise SyncFailed(f"syncing the directory {path}: {error.strerror or error}") from error


def sync_directory(files: Files, path: str) -> None:
    """Make the names in a directory durable, or raise ``SyncFailed``; ``OSError`` where it cannot be opened."""
    with directory(files, path) as sync_its_names:
        sync_its_names()


def read_file(files: Files, path: str) -> bytes | None:
    """The whole content, None if there is no such file."""
    try:
        with opened(files, path) as handle:
            return files.read(handle, files.size(handle), 0)
    except FileNotFoundError:
        return None


def file_size(files: Files, path: str) -> int:
    with opened(files, path) as handle:
        return files.size(handle)


def write_file(files: Files, path: str, data: bytes) -> None:
    """Write a file and sync its content, not its name. On ``OSError`` there is no file of that name afterwards."""
    with opened(files, path, create=True) as handle:
        try:
            files.truncate(handle, 0)
            write_whole(files, handle, (data,), 0)
        except OSError:
            files.remove(path)
            raise
        sync(files, handle, path)


def sync_file(files: Files, path: str) -> None:
    """Sync the content of a file that is not open."""
    with opened(files, path) as handle:
        sync(files, handle, path)


def replace_file(files: Files, path: str, data: bytes, *, sync_name: bool = True) -> None:
    """Replace a file at once: a crash leaves the old one or the new one, ``OSError`` the old one.

    Which of both it is is certain once the directory is synced: at the end, unless the caller does it.
    """
    temporary = path + ".tmp"
    with directory(files, os.path.dirname(path)) as sync_its_names:
        write_file(files, temporary, data)
        files.rename(temporary, path)
        if sync_name:
            sync_its_names()
