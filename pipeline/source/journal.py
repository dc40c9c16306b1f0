"""The journal of one of Ottla's data directories: what was appended and is not, or not certainly, in the segments.

The format is that of docs/decisions/0006-one-journal.md: a chain of files named after the lsn at which they begin, with
frames of a header of 40 bytes, a body, and zeros up to a multiple of eight:

    magic u16 | kind u8 | flags u8 | length u32 | lsn u64 | synced_lsn u64 | log_id u32 | epoch u32 | crc32c u32 | 0 u32

Beside it lies the checkpoint, which says from which lsn on it counts, and how far the segments can be trusted.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.source.logs import SourceError
from ottla.protocol.crc import crc32c

_MAGIC = 0x4F4A
_HEADER = struct.Struct(">HBBIQQIIII")
_COVERED_BYTES = _HEADER.size - 8
_BATCH, _LOG = 1, 2
_GULP = 1 << 20
_TITLE = b"ottla checkpoint 2 crc32c="


class LogState(NamedTuple):
    """A log at the checkpoint.

    Attributes:
        segment: base offset of the segment that was written to; None if the next batch began one.
        length: how many bytes of it count.
    """

    log_id: int
    name: str
    topic_id: str
    log_start_offset: int
    next_offset: int
    segment: int | None
    length: int


class Place(NamedTuple):
    """Where a batch lies in the journal."""

    path: Path
    position: int
    size: int
    base_offset: int
    end_offset: int


class Journal:
    """What a data directory says besides its segments, at one moment.

    Args:
        data_dir: has ``journal/`` and ``checkpoint``.

    Attributes:
        in_use: a broker has the directory open.
        clean: it was closed properly: segments have everything.
        states: logs by the names of their directories.
        places: batches beyond the checkpoint, by the same.
        topic_ids: of logs that begin in the journal.
        damage: why not all of the journal can be read, if it is so.
    """

    def __init__(self, data_dir: Path) -> None:
        self.in_use = _locked(data_dir / "LOCK")
        self._directory = data_dir / "journal"
        self.states: dict[str, LogState] = {}
        self.places: dict[str, list[Place]] = {}
        self.topic_ids: dict[str, str] = {}
        self.damage = ""
        self._synced = -1
        self.clean, lsn = self._checkpoint(data_dir / "checkpoint")
        if not self.clean:
            self._read(lsn)

    def trusted(self, name: str) -> tuple[int, int] | None:
        """The base offset of the last segment that counts, and how many bytes of it (-1: all); None for everything."""
        if self.in_use or self.clean:
            return None
        if name in self.topic_ids:
            return -1, 0  # it began after the checkpoint: the journal has all of it
        if (state := self.states.get(name)) is None:
            return -1, 0
        return (state.next_offset - 1, -1) if state.segment is None else (state.segment, state.length)

    def _checkpoint(self, path: Path) -> tuple[bool, int]:
        try:
            title, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return True, 0
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error}") from None
        if title != _TITLE + f"{crc32c(body):08x}".encode():
            raise SourceError(f"{path} is damaged, or of a version that is not known: `ottla doctor` says more")
        document = json.loads(body)
        for row in document["logs"]:
            state = LogState(*(row[name] for name in LogState._fields))
            self.states[state.name] = state
        self._synced = int(document["synced_lsn"])
        return bool(document["clean"]), int(document["lsn"])

    def _read(self, lsn: int) -> None:
        names = {state.log_id: name for name, state in self.states.items()}
        found: list[tuple[int, int, Place]] = []
        synced, end = self._synced, lsn
        for path, position, fields, body in _frames(self._directory, lsn):
            _, kind, _, length, at, synced_lsn, log_id, *_ = fields
            synced, end = max(synced, synced_lsn), at + ((_HEADER.size + length + 7) & ~7)
            if kind == _LOG:
                name = body[16:].decode(errors="replace")
                if names.get(log_id) == name:
                    continue
                # Whatever had the name before is gone.
                found = [row for row in found if names.get(row[1]) != name]
                names = {one: other for one, other in names.items() if other != name} | {log_id: name}
                self.states.pop(name, None)
                self.topic_ids[name] = body[:16].hex()
            elif kind == _BATCH and log_id in names and length >= 61:
                base, delta = struct.unpack_from(">q15xi", body)
                found.append((at, log_id, Place(path, position + _HEADER.size, length, base, base + delta + 1)))
        if not self.in_use and end < max(synced, _vouched_behind(self._directory, end)):
            self.damage = f"{self._directory} is damaged at lsn {end}, and more was on the disk"
        for at, log_id, place in found:
            # Of a running broker only what is on the disk: after a loss of power the rest would never have been.
            if not self.in_use or at < synced:
                self.places.setdefault(names[log_id], []).append(place)


def _frames(directory: Path, lsn: int) -> Iterator[tuple[Path, int, tuple[int, ...], bytes]]:
    """Whole frames that follow each other from ``lsn`` on."""
    files = {int(path.stem): path for path in directory.glob("*.wal") if path.stem.isdecimal()}
    while True:
        first = max((one for one in files if one <= lsn), default=-1)
        if first < 0:
            return
        try:
            with files[first].open("rb", buffering=_GULP) as file:
                file.seek(lsn - first)
                while (frame := _frame(file.read, lsn)) is not None:
                    yield files[first], lsn - first, *frame
                    lsn += (_HEADER.size + len(frame[1]) + 7) & ~7
                    file.seek(lsn - first)
                    if lsn in files and lsn != first:
                        break
        except FileNotFoundError:
            return  # a broker has made a spare of it meanwhile: segments have what was in it
        if lsn not in files or lsn == first:
            return


def _vouched_behind(directory: Path, lsn: int) -> int:
    """How far the journal was on the disk by the word of a whole frame behind ``lsn``; -1 if none says more.

    A frame says how far the journal was synced when it was written, which tells damage from a write that was cut off.
    """
    for path in sorted(directory.glob("*.wal")):
        first = int(path.stem) if path.stem.isdecimal() else -1
        if first < 0 or not path.stat().st_size:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = max(lsn - first, 0)
            while (position := data.find(_MAGIC.to_bytes(2, "big"), position)) >= 0:
                file.seek(position)
                frame = _frame(file.read, first + position) if position % 8 == 0 else None
                if frame is not None and frame[0][5] > lsn:
                    return frame[0][5]
                position += 2
    return -1


def _frame(read: object, lsn: int) -> tuple[tuple[int, ...], bytes] | None:
    head = read(_HEADER.size)  # type: ignore[operator]
    if len(head) < _HEADER.size:
        return None
    fields = _HEADER.unpack(head)
    if fields[0] != _MAGIC or fields[4] != lsn or fields[9]:
        return None
    body = read(fields[3])  # type: ignore[operator]
    if len(body) < fields[3] or crc32c(body, crc32c(head[:_COVERED_BYTES])) != fields[8]:
        return None
    return fields, body


def _locked(path: Path) -> bool:
    """Whether somebody holds the lock. A shared one is tried, for a moment, and nothing is written."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
