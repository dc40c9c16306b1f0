"""The catalog in a file: of one engine alone, or of several nodes of one machine."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ottla.broker.engine import EngineError, Outdated, Unavailable, Unknown
from ottla.broker.storage.local.files import Files, SyncFailed, engine_error, read_file, replace_file
from ottla.broker.storage.local.keeper import StoreCatalog
from ottla.broker.storage.local.layout import Layout, decode_catalog, decode_versioned, encode_catalog
from ottla.broker.storage.local.operations import Operation

LOCK_S: Final = 10.0
"""How long a change waits for another node's to be over. A node that is stopped in the middle of one holds the lock."""
TRY_AGAIN_S: Final = 0.002


class LocalCatalog:
    """The document in a file that is one engine's alone. ``keep`` queues an operation for its keeper."""

    def __init__(self, path: str, keep: Callable[[Operation], None]) -> None:
        self.version = 0
        self.on_changed: Callable[[], None] = lambda: None
        self._path = path
        self._keep = keep
        self._state: bytes | None = None
        self._is_storing = False

    def load(self) -> dict[str, Any] | None:
        return None if self._state is None else decode_catalog(self._state, self._path)

    async def store(self, state: Mapping[str, Any], *, over: int) -> int:
        if over != self.version or self._is_storing:
            raise Outdated(f"{self._path}: the change was planned on version {over}, which is not the newest any more")
        data = encode_catalog(state, over + 1)

        def is_over(error: EngineError | None) -> None:
            self._is_storing = False
            if error is None:
                self._state, self.version = data, over + 1

        operation = StoreCatalog(data, is_over)
        self._is_storing = True
        self._keep(operation)
        await operation.future
        return over + 1

    def look(self) -> None:
        """Nobody else stores anything."""

    async def refresh(self) -> None:
        """Nor is there anything to read."""

    def loaded(self, data: bytes | None) -> None:
        """Take over the content of the file. Raises ``Corrupt``."""
        self.version = 0 if data is None else decode_versioned(data, self._path)[1]
        self._state = data


class FileCatalog:
    """The document in a file that several nodes share, whatever keeps their logs.

    A change is made under a lock: the file must be the very one that the change was planned on. It is then replaced at
    once, so that whoever reads it needs no lock. A killed process frees the lock.

    Args:
        directory: with the file, which need not be there yet.

    Attributes:
        on_fatal: called when a change was made and could not be synced: the process should end, as nobody knows any
            more what a power failure would leave.
    """

    def __init__(self, directory: str, *, files: Files | None = None) -> None:
        self.version = 0
        self.on_changed: Callable[[], None] = lambda: None
        self.on_fatal: Callable[[EngineError], None] = lambda error: None
        self._layout = Layout(os.path.abspath(directory))
        self._files = files or Files()
        self._state: bytes | None = None
        self._seen: tuple[int, ...] = ()
        self._is_sure = True

    def load(self) -> dict[str, Any] | None:
        return None if self._state is None else decode_catalog(self._state, self._layout.catalog)

    async def store(self, state: Mapping[str, Any], *, over: int) -> int:
        if over != self.version:
            raise Outdated(f"{self._layout.catalog} has version {self.version}, the change was planned on {over}")
        data = encode_catalog(state, over + 1)
        try:
            seen = await asyncio.to_thread(self._replace, self._state, data)
        except Unknown as error:
            self.on_fatal(error)
            raise
        self._take(data, seen)
        return self.version

    async def refresh(self) -> None:
        self._take(*await asyncio.to_thread(self._read))

    def look(self) -> None:
        """See whether somebody has stored a document, at the price of one ``stat``."""
        seen = _signature(self._layout.catalog)
        if seen != self._seen or not self._is_sure:
            # One that is replaced twice within a tick of the file system's clock may look as before: once it seems to
            # stay, it is read once more.
            self._is_sure = seen == self._seen
            self._seen = seen
            self.on_changed()

    def _take(self, data: bytes | None, seen: tuple[int, ...]) -> None:
        version = 0 if data is None else decode_versioned(data, self._layout.catalog)[1]
        if version > self.version:
            self.version, self._state = version, data
            self._seen, self._is_sure = seen, False

    # In a thread

    def _read(self) -> tuple[bytes | None, tuple[int, ...]]:
        seen = _signature(self._layout.catalog)  # first: what comes after it is seen by the next look
        try:
            return read_file(self._files, self._layout.catalog), seen
        except OSError as error:
            raise engine_error(error, f"reading {self._layout.catalog}") from error

    def _replace(self, before: bytes | None, data: bytes) -> tuple[int, ...]:
        """Put another document in the place of the one before; returns what the file looks like then."""
        path = self._layout.catalog
        try:
            with locked(self._files, self._layout.catalog_lock):
                if read_file(self._files, path) != before:
                    raise Outdated(f"{path} was changed by another node")
                replace_file(self._files, path, data)
                return _signature(path)
        except SyncFailed as error:
            raise Unknown(str(error)) from error
        except OSError as error:
            raise engine_error(error, f"writing {path}") from error


@contextmanager
def locked(files: Files, path: str) -> Iterator[None]:
    """Hold the lock of a shared catalog. Raises ``OSError``, and ``Unavailable`` where somebody keeps it."""
    until_s = time.monotonic() + LOCK_S
    while True:
        try:
            lock = files.lock(path)
            break
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise Unavailable(f"{path} is held by another process") from None
            time.sleep(TRY_AGAIN_S)
    try:
        yield
    finally:
        files.close(lock)


def _signature(path: str) -> tuple[int, ...]:
    """The looks of a file that is replaced and never written to; empty if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size
