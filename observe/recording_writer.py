"""Writes a recording, in a thread of its own: the event loop only collects bytes.

What is collected goes to the thread ten times a second, or earlier if it is much. A recording never hurts the broker:
if the disk is full, or anything else goes wrong, one line is logged and recording ends; if the disk is slow, events
are left out and counted rather than kept in memory, and readers see the gap.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from msgspec.structs import replace

from ottla.broker.clock import Clock
from ottla.broker.core.events import Event
from ottla.broker.logger import Logger
from ottla.observe.recording import (
    LARGEST_BYTES,
    Header,
    beginning,
    earlier_parts,
    frame,
    is_json,
    json_line,
    part_path,
)

HAND_OVER_MS = 100
HAND_OVER_BYTES = 256 << 10
MOST_WAITING_BYTES = 32 << 20


def _private(path: str, flags: int) -> int:
    """Open a file that nobody else may read, if it is made now: it tells of everybody who uses the broker."""
    return os.open(path, flags, 0o600)


def _lock(file: IO[bytes]) -> None:
    """Keep a part for this broker as long as the file is open. Raises OSError if another broker has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(error.errno, "another broker records in it") from None


class RecordingWriter:
    """See the module.

    Args:
        path: of the part that is written; JSON lines if its suffix says so.
        limit_bytes: a part that has grown to this is given a number, and another one is begun.
        limit_parts: how many earlier parts are kept, of this run and those before.
        soon: calls back on the event loop; the only thing that the thread asks of it.

    Attributes:
        failed: why nothing is written any more; empty while all is well.
        lost_events: how many were left out because the disk was slow, or because they were too large to be read again.
        written_bytes: in all parts of this run.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        limit_bytes: int,
        limit_parts: int,
        clock: Clock,
        soon: Callable[..., Any],
        log: Logger,
    ) -> None:
        self.path = path
        self.failed = ""
        self.lost_events = 0
        self.written_bytes = 0
        self._header = header
        self._limit_bytes, self._limit_parts = limit_bytes, limit_parts
        self._clock, self._soon, self._log = clock.real, soon, log
        self._as_json = is_json(path)
        self._due = False
        self._collected: list[bytes] = []
        self._collected_bytes = self._waiting_bytes = 0
        self._first_seq = 1
        self._file: BinaryIO
        self._part_bytes = 0
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ottla-recording", daemon=True)

    def start(self, first_seq: int) -> None:
        """Begin the first part; what is there of an earlier run becomes an earlier part.

        Raises:
            OSError: the file cannot be written, or another broker writes it.
        """
        if self.path.is_file() and self.path.stat().st_size:  # a folder is none of ours to rename
            with open(self.path, "rb") as earlier:
                _lock(earlier)
            self._set_aside()
        self._begin(first_seq)
        self._thread.start()

    def write(self, seq: int, data: bytes, event: Event) -> None:
        """Add an event, which ``data`` is as msgpack."""
        if self.failed:
            return
        if self._waiting_bytes > MOST_WAITING_BYTES:
            self.lost_events += 1
            return
        entry = json_line(seq, event) if self._as_json else frame(seq, data)
        if len(entry) > LARGEST_BYTES:
            self.lost_events += 1
            return
        if not self._collected:
            self._first_seq = seq
            if not self._due:
                self._due = True
                self._clock.call_at(self._clock.monotonic_ms() + HAND_OVER_MS, self._hand_over)
        self._collected.append(entry)
        self._collected_bytes += len(entry)
        if self._collected_bytes >= HAND_OVER_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        self._due = False  # a timer that is set still comes, for what waits
        if not self._collected:
            return
        self._waiting_bytes += self._collected_bytes
        self._queue.put((self._first_seq, b"".join(self._collected)))
        self._collected, self._collected_bytes = [], 0

    def close(self) -> None:
        """Write what is left and end. Waits for the disk."""
        self._hand_over()
        self._queue.put(None)
        self._thread.join()

    # -- in the thread

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            first_seq, data = item
            try:
                if self._part_bytes >= self._limit_bytes:
                    self._file.close()
                    self._set_aside()
                    self._header = replace(self._header, part=self._header.part + 1)
                    self._begin(first_seq)
                self._write(data)
            except OSError as error:
                self.failed = error.strerror or str(error)
                self._call(self._tell_failed)
                break
            self._call(self._written, len(data))
        with suppress(OSError):  # what it could not write was told already
            self._file.close()

    def _begin(self, first_seq: int) -> None:
        self._file = open(self.path, "wb", buffering=0, opener=_private)  # noqa: SIM115
        _lock(self._file)
        self._part_bytes = 0
        self._write(beginning(replace(self._header, first_seq=first_seq), as_json=self._as_json))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._part_bytes += len(data)

    def _set_aside(self) -> None:
        """Give the part a number after all others, and remove those that are too many."""
        earlier = earlier_parts(self.path)
        number = int(earlier[-1].name[len(self.path.stem) + 1 :].removesuffix(self.path.suffix)) if earlier else 0
        os.rename(self.path, part_path(self.path, number + 1))
        for one in earlier[: max(0, len(earlier) + 1 - self._limit_parts)]:
            one.unlink(missing_ok=True)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._soon(function, *arguments)

    # -- back on the loop

    def _written(self, size: int) -> None:
        self._waiting_bytes -= size
        self.written_bytes += size

    def _tell_failed(self) -> None:
        self._collected.clear()
        self._log.error(
            "Recording has ended, the broker goes on: the file cannot be written",
            path=str(self.path),
            reason=self.failed,
        )
