"""Segment files of Kafka's format, ours or anybody's, read without a broker and without trust.

A directory of a partition is ``<topic>-<partition>`` with ``<base offset>.log`` files; a data directory holds such
directories, Ottla's below ``logs/``. Files that a broker writes to meanwhile may be read: what is unfinished at the end
is told apart from damage before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ottla.cli.output import Refused
from ottla.protocol.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    CorruptBatch,
    check_crc,
    parse_header,
)
from ottla.protocol.stored.files import DiskFiles
from ottla.protocol.stored.frames import Window
from ottla.protocol.stored.names import LOG_SUFFIX, parse_directory_name, parse_numbered_name

_CHUNK = 1 << 20
_LENGTH = struct.Struct(">8xi")


class Unreadable(Exception):
    """There is no batch at a position of a file, or a damaged one.

    Attributes:
        position: the first bad byte, or the beginning of the bad batch.
        unfinished: the file ends within a batch; everything before it is whole.
    """

    def __init__(self, position: int, reason: str, *, unfinished: bool = False) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason
        self.unfinished = unfinished


class StoredBatch(NamedTuple):
    """A batch as it lies in a file."""

    position: int
    header: BatchHeader
    data: bytes

    def check_crc(self) -> None:
        """Raises `Unreadable` if the CRC does not fit."""
        try:
            check_crc(self.header, self.data)
        except CorruptBatch as error:
            raise Unreadable(self.position, str(error)) from None


class PartitionFiles(NamedTuple):
    """The directory of a partition with its ``.log`` files, in order of their offsets.

    ``topic`` is empty where the directory is not named after one.
    """

    path: Path
    topic: str
    partition: int
    segments: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}" if self.topic else self.path.name


def base_offset_of(path: Path) -> int | None:
    """The offset that a segment or index file is named after, None for other files."""
    return parse_numbered_name(path.name, path.suffix)


def read_batches(path: Path, position: int = 0, *, end: int | None = None) -> Iterator[StoredBatch]:
    """The batches of a file from ``position``, which is the beginning of one, up to ``end``. CRCs are not checked.

    Zeros up to the end of the file are space filled in advance: reading ends there. Raises `Unreadable` where there is
    no batch, and OSError.
    """
    with closing(Window(DiskFiles(), str(path))) as window:
        while end is None or position < end:
            size = _size_at(window, position)
            if not size:
                return
            data = window.read(position, size)
            if len(data) < size:
                raise Unreadable(
                    position, f"a batch of {size:,} bytes of which {len(data):,} are there", unfinished=True
                )
            try:
                header = parse_header(data)
            except CorruptBatch as error:
                raise Unreadable(position, str(error)) from None
            yield StoredBatch(position, header, data)
            position += size


def _size_at(window: Window, position: int) -> int:
    """The size that the batch at ``position`` claims; 0 where only zeros follow, or nothing."""
    head = window.read(position, HEADER_SIZE)
    if not any(head) and _only_zeros(window, position):
        return 0
    if len(head) < HEADER_SIZE:
        raise Unreadable(position, f"{len(head)} bytes are too few for a batch", unfinished=True)
    length: int = _LENGTH.unpack_from(head)[0]
    magic = head[MAGIC_AT]
    if magic < MAGIC and length > 0:
        raise Unreadable(position, f"messages of format v{magic}; only v2 (Kafka 0.11 and later) is read")
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise Unreadable(position, f"there is no batch: a length of {length}")
    return length + LOG_OVERHEAD


def _only_zeros(window: Window, position: int) -> bool:
    while chunk := window.read(position, _CHUNK):
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True


# -- finding files


def find_partitions(path: Path) -> list[PartitionFiles]:
    """The partitions below a path: a data directory, a partition's directory, or a single segment.

    Raises:
        Refused: there are none.
    """
    if path.is_file():
        topic, partition = parse_directory_name(path.absolute().parent.name) or ("", 0)
        return [PartitionFiles(path.parent, topic, partition, (path,))]
    if not path.is_dir():
        raise Refused(f"{path} does not exist.", "Name a data directory, a partition's directory, or a segment file.")
    own = _segments(path)
    named = parse_directory_name(path.absolute().name)
    if own or (named is not None and not (path / "logs").is_dir()):
        return [PartitionFiles(path, *(named or ("", 0)), own)]
    found = []
    root = path / "logs" if (path / "logs").is_dir() else path
    for directory in root.iterdir():
        named = parse_directory_name(directory.name)
        if named is not None and directory.is_dir():
            found.append(PartitionFiles(directory, *named, _segments(directory)))
    if not found:
        raise Refused(
            f"There are no segments in {path}.",
            "Name a data directory (it has logs/<topic>-<partition>), a partition's directory, or a .log file.",
        )
    return sorted(found, key=lambda one: (one.topic, one.partition))


def _segments(directory: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in directory.glob(f"*{LOG_SUFFIX}") if base_offset_of(path) is not None))


def segment_with(partition: PartitionFiles, offset: int) -> int:
    """The index of the first segment that can hold ``offset``."""
    at = 0
    for number, path in enumerate(partition.segments):
        if (base_offset_of(path) or 0) <= offset:
            at = number
    return at
