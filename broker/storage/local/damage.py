"""Damage within segments: where it lies, which offsets it has taken, and a segment without it.

Every batch is read and its CRC checked. Behind a batch that is not whole the next one that is whole is looked for,
first where the damaged one claims to end and then byte by byte: damage costs no more than the batches that it hit.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.broker.engine import Damage
from ottla.broker.storage.local.files import Files, file_size, opened, sync, sync_directory, write_whole
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.segment import SegmentIndex, remove_index, segment_bases, segment_path, write_index
from ottla.protocol.batch import MAGIC_AT
from ottla.protocol.records import HEADER_SIZE, MAGIC, BatchError, BatchHeader, check_crc, parse_header

KEPT_SUFFIX: Final = ".kept"
"""Ends the name of a copy of the damaged file, beside the one that replaced it."""
UNDO_SUFFIX: Final = ".undo"
"""Ends the name of a kept copy until a checkpoint has recorded the file in its place."""
_MENDED_SUFFIX: Final = ".mended"
_CHUNK_BYTES: Final = 1024 * 1024
_INDEX_INTERVAL: Final = 4096

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


class Place(NamedTuple):
    """The position of a whole batch, and its header."""

    position: int
    header: BatchHeader


class _Found(NamedTuple):
    batches: list[Place]
    damages: list[Damage]


class SegmentReader:
    """One segment file, of which ``size`` bytes count and that holds offsets from ``base`` up to below ``ceiling``."""

    def __init__(self, files: Files, path: str, base: int, ceiling: int, size: int) -> None:
        self.path = path
        self._files = files
        self._base, self._ceiling, self._size = base, ceiling, size
        self._chunk, self._chunk_at = b"", 0

    def parts(self) -> Iterator[Place | Damage]:
        """Every whole batch and every damage, in order. Raises ``OSError``."""
        with opened(self._files, self.path) as handle:
            position, due = 0, self._base
            while position < self._size:
                whole = self._whole(handle, position, due)
                if isinstance(whole, str):
                    begin, position = position, self._next_whole(handle, position, due)
                    yield self._damage(handle, begin, position, due, whole)
                else:
                    yield Place(position, whole)
                    position, due = position + whole.size, whole.last_offset + 1

    def read(self, tell: Progress = lambda count: None) -> _Found:
        """All parts. Raises ``OSError``."""
        found = _Found([], [])
        told = 0
        for part in self.parts():
            if isinstance(part, Damage):
                found.damages.append(part)
                end = part.end
            else:
                found.batches.append(part)
                end = part.position + part.header.size
            if end - told >= _CHUNK_BYTES or end >= self._size:
                tell(end - told)
                told = end
        return found

    def _bytes(self, handle: int, position: int, size: int) -> memoryview:
        """Bytes of the file; fewer at its end."""
        begin = position - self._chunk_at
        if begin < 0 or begin + size > len(self._chunk):
            wanted = min(max(size, _CHUNK_BYTES), self._size - position)
            self._chunk, self._chunk_at, begin = self._files.read(handle, wanted, position), position, 0
        return memoryview(self._chunk)[begin : begin + size]

    def _whole(self, handle: int, position: int, due: int) -> BatchHeader | str:
        """The header of the whole batch at this place, or why there is none."""
        try:
            header = parse_header(self._bytes(handle, position, HEADER_SIZE))
            if position + header.size > self._size:
                return f"a batch of {header.size} bytes, but {self._size - position} are left"
            if header.base_offset < due:
                return f"offset {header.base_offset} where at least {due} was due"
            if header.last_offset >= self._ceiling:
                return f"offset {header.last_offset}, and the next segment begins at {self._ceiling}"
            check_crc(header, self._bytes(handle, position, header.size))
        except BatchError as error:
            return str(error)
        return header

    def _next_whole(self, handle: int, begin: int, due: int) -> int:
        """Find the next whole batch; return its position, or the end of the file if there is none."""
        claimed = self._claimed(handle, begin)
        if claimed is not None:
            after = begin + claimed.size
            if after == self._size or not isinstance(self._whole(handle, after, due), str):
                return after
        position = begin + 1
        while position + HEADER_SIZE <= self._size:
            window = bytes(self._bytes(handle, position, min(_CHUNK_BYTES, self._size - position)))
            at = window.find(MAGIC, MAGIC_AT)
            while at >= 0:
                place = position + at - MAGIC_AT
                if not isinstance(self._whole(handle, place, due), str):
                    return place
                at = window.find(MAGIC, at + 1)
            position += max(len(window) - MAGIC_AT, 1)
        return self._size

    def _claimed(self, handle: int, position: int) -> BatchHeader | None:
        """The header of a damaged batch, if it is plausible."""
        try:
            header = parse_header(self._bytes(handle, position, HEADER_SIZE))
        except BatchError:
            return None
        return header if position + header.size <= self._size else None

    def _damage(self, handle: int, begin: int, end: int, due: int, reason: str) -> Damage:
        upto = self._ceiling
        if end < self._size:
            upto = parse_header(self._bytes(handle, end, HEADER_SIZE)).base_offset
        claimed = self._claimed(handle, begin)
        records = None
        if (
            claimed is not None
            and begin + claimed.size == end
            and due <= claimed.base_offset <= claimed.last_offset < upto
        ):
            # Compaction takes records out of a batch, and its offsets stay.
            records = min(claimed.record_count, claimed.last_offset_delta + 1)
        return Damage(self.path, begin, end, due, upto, records, reason)


def segments_of(files: Files, log: KeptLog) -> Iterator[tuple[SegmentReader, int, int]]:
    """The segments that count of a log, each with its base offset and how many of its bytes count."""
    bases = segment_bases(files, log.directory)
    last = log.next_offset - 1 if log.segment is None else log.segment
    bases = [base for base in bases if base <= last]
    for base, ceiling in zip(bases, [*bases[1:], log.next_offset], strict=False):
        if ceiling <= log.log_start_offset and base != log.segment:
            continue  # trimmed: a start removes it
        path = segment_path(log.directory, base)
        size = log.length if base == log.segment else file_size(files, path)
        yield SegmentReader(files, path, base, ceiling, size), base, size


def find_damage(files: Files, log: KeptLog, tell: Progress = lambda count: None) -> list[Damage]:
    """Read all of a log. Raises ``OSError``."""
    return [damage for reader, _, _ in segments_of(files, log) for damage in reader.read(tell).damages]


def mend(files: Files, log: KeptLog, tell: Progress = lambda count: None) -> tuple[list[Damage], list[str]]:
    """Take the damaged batches out of a log; return what they were, and the copies of the files that had them.

    Offsets stay as they are. Where the segment that is being written was mended ``log`` is not what the checkpoint
    says any more: once there is one, `keep_copies` ends this. Raises ``OSError`` and ``SyncFailed``.
    """
    damages: list[Damage] = []
    copies: list[str] = []
    for reader, base, size in list(segments_of(files, log)):
        found = reader.read(tell)
        if found.damages:
            damages += found.damages
            copies.append(_without(files, log, reader.path, base, size, found.batches))
    return damages, copies


def keep_copies(files: Files, copies: list[str]) -> list[str]:
    """The mended files count: give the copies of what they were their last names, and return these."""
    kept = []
    for copy in copies:
        directory, name = os.path.split(copy.removesuffix(UNDO_SUFFIX) + KEPT_SUFFIX)
        taken, free, number = set(files.list(directory)), name, 1
        while free in taken:
            number += 1
            free = f"{name}.{number}"
        files.rename(copy, os.path.join(directory, free))
        sync_directory(files, directory)
        kept.append(os.path.join(directory, free))
    return kept


def undo_interrupted(files: Files, log: KeptLog, *, dry_run: bool) -> bool:
    """Take back a mending that came to no checkpoint; tells whether there was one."""
    if log.segment is None or not log.exists:
        return False
    path = log.path
    try:
        if (
            os.path.basename(path) + UNDO_SUFFIX not in files.list(log.directory)
            or file_size(files, path) >= log.length
        ):
            return False
    except OSError:
        return False
    if not dry_run:
        remove_index(files, log.directory, log.segment)
        files.rename(path + UNDO_SUFFIX, path)
        sync_directory(files, log.directory)
    return True


def _without(files: Files, log: KeptLog, path: str, base: int, size: int, batches: list[Place]) -> str:
    """Put in the place of a segment one with these of its batches alone; return the copy of what it was."""
    with opened(files, path) as handle:
        _copy(files, handle, [(0, size)], path + UNDO_SUFFIX)
        index, position = SegmentIndex(base), 0
        for _, header in batches:
            index.add(header.last_offset, position, header.size, header.max_timestamp, _INDEX_INTERVAL)
            position += header.size
        _copy(files, handle, _joined(batches), path + _MENDED_SUFFIX)
    sync_directory(files, log.directory)
    # An index that is missing is made again; one of other batches would lead astray.
    remove_index(files, log.directory, base)
    files.rename(path + _MENDED_SUFFIX, path)
    sync_directory(files, log.directory)
    write_index(files, log.directory, index)
    sync_directory(files, log.directory)
    if base == log.segment:
        log.go_on_with(index, position, batches[0].header.max_timestamp if batches else -1)
    return path + UNDO_SUFFIX


def _joined(batches: list[Place]) -> list[tuple[int, int]]:
    """Ranges of bytes: batches that follow each other are one."""
    ranges: list[tuple[int, int]] = []
    for position, header in batches:
        if ranges and ranges[-1][1] == position:
            ranges[-1] = (ranges[-1][0], position + header.size)
        else:
            ranges.append((position, position + header.size))
    return ranges


def _copy(files: Files, source: int, ranges: list[tuple[int, int]], path: str) -> None:
    """Write ranges of an open file to another, and sync it."""
    with opened(files, path, create=True) as target:
        files.truncate(target, 0)
        written = 0
        for begin, end in ranges:
            for at in range(begin, end, _CHUNK_BYTES):
                piece = files.read(source, min(_CHUNK_BYTES, end - at), at)
                written += write_whole(files, target, [piece], written)
        sync(files, target, path)
