"""The file of a data directory that keeps the history of its groups over a restart.

It has the line ``ottla-history``, then frames: the length and the CRC-32 of what follows, which is a group's id and a
`Row` as msgpack. A row takes the place of an earlier one with its number. What comes behind a torn frame is cut off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from ottla.observe.why.store import Row, Store

if TYPE_CHECKING:
    from ottla.broker.clock import Clock
    from ottla.broker.logger import Logger

NAME = "history"
"""The file's name in the data directory."""
MAGIC = b"ottla-history\n"
HAND_OVER_MS = 200
"""Episodes wait so long for others: a process that is killed loses the last of them."""
LARGEST_BYTES = 64 << 20
"""No frame is longer: one that says so is torn."""

_HEAD = Struct(">II")
_encode = Encoder().encode
_decode = Decoder(tuple[str, Row]).decode


class EpisodeFile:
    """See the module. The file is written anew from the store once it has twice the store's budget.

    Args:
        store: the history that is kept.
    """

    def __init__(self, path: Path, store: Store, clock: Clock, log: Logger) -> None:
        self.path = path
        self._store = store
        self._clock = clock.real
        self._log = log
        self._file: BinaryIO | None = None
        self._size_bytes = 0
        self._new: list[bytes] = []
        self._new_bytes = 0
        self._is_due = False
        self._writing: asyncio.Future[None] | None = None
        self._lock = Lock()

    async def begin(self) -> None:
        """Read what was kept into the store, and keep what comes. A file that cannot be read or written is told of."""
        try:
            rows = await asyncio.to_thread(self._open)
        except OSError as error:
            self._failed(error)
            return
        self._store.restore(rows)
        self._store.on_row = self.add

    def _open(self) -> Sequence[tuple[str, Row]]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        rows, self._size_bytes = read_rows(self._file.read())
        self._file.truncate(self._size_bytes)
        self._file.seek(self._size_bytes)
        if not self._size_bytes:
            self._write([MAGIC])
        return rows

    def add(self, group_id: str, row: Row) -> None:
        """Keep a row."""
        if self._file is None:
            return
        self._new.append(frame(group_id, row))
        self._new_bytes += len(self._new[-1])
        if not self._is_due:
            self._is_due = True
            self._clock.call_at(self._clock.monotonic_ms() + HAND_OVER_MS, self._hand_over)

    def _hand_over(self) -> None:
        """Have a thread write what is new, or, once that makes the file too long, all that the store has."""
        self._is_due = False
        if self._file is None or (self._writing is not None and not self._writing.done()):
            return  # what is new waits for the write that runs
        loop = asyncio.get_running_loop()
        if self._size_bytes + self._new_bytes > 2 * self._store.budget_bytes:
            self._new.clear()
            self._writing = loop.run_in_executor(None, self._write_anew, self._store.all_rows())
        else:
            new, self._new = self._new, []
            self._writing = loop.run_in_executor(None, self._write, new)
        self._new_bytes = 0
        self._writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[None]) -> None:
        if not writing.cancelled() and isinstance(error := writing.exception(), OSError):
            self._failed(error)
        elif self._new:
            self._hand_over()

    def _write(self, frames: Iterable[bytes]) -> None:
        with self._lock:
            if self._file is not None:
                view = memoryview(b"".join(frames))
                while view:
                    written = self._file.write(view)
                    self._size_bytes += written
                    view = view[written:]

    def _write_anew(self, rows: Sequence[tuple[str, Row]]) -> None:
        beside = self.path.with_name(f"{self.path.name}.new")
        with self._lock:
            beside.unlink(missing_ok=True)
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            anew = os.fdopen(descriptor, "r+b", buffering=0)
            before, self._file, self._size_bytes = self._file, anew, 0
        try:
            self._write([MAGIC])
            for group_id, row in rows:
                self._write([frame(group_id, row)])
            os.replace(beside, self.path)
        except OSError:
            beside.unlink(missing_ok=True)  # it may be what fills the disk
            raise
        finally:
            if before is not None:
                before.close()

    def _failed(self, error: OSError) -> None:
        self._log.error(
            "The history of groups is not kept any more, the broker goes on: the file cannot be written",
            path=str(self.path),
            reason=error.strerror or str(error),
        )
        self._end()

    def _end(self) -> None:
        self._store.on_row = None
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    async def flush(self) -> None:
        """Write what is new at once."""
        while self._file is not None and (self._new or (self._writing is not None and not self._writing.done())):
            self._hand_over()
            if self._writing is not None:
                await asyncio.wait([self._writing])

    async def close(self) -> None:
        """Write what is left."""
        await self.flush()
        self._end()


def frame(group_id: str, row: Row) -> bytes:
    """A row as the file has it."""
    data = _encode((group_id, row))
    return _HEAD.pack(len(data), crc32(data)) + data


def read_rows(data: bytes) -> tuple[Sequence[tuple[str, Row]], int]:
    """The rows of a file, each with its group, and how many bytes of it are whole; 0 if it is another kind of file."""
    if not data.startswith(MAGIC):
        return [], 0
    rows: dict[tuple[str, int], tuple[str, Row]] = {}
    at = len(MAGIC)
    while len(data) - at >= _HEAD.size:
        size, crc = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if size > LARGEST_BYTES or len(body) < size or crc32(body) != crc:
            break
        try:
            group_id, row = _decode(body)
        except MsgspecError:
            break
        rows[group_id, row.number] = group_id, row
        at += _HEAD.size + size
    return list(rows.values()), at
