"""Finding out, when a log is opened, what of it is there.

After a clean close the checkpoint says it. Else batches are read and their CRCs checked: in the segments that the
checkpoint does not vouch for, usually one. A segment is synced, with its indexes, before its successor exists, so only
the last one can have a torn tail: that is cut. Damage anywhere else has befallen acknowledged data: ``Corrupt``.
"""

import contextlib
import os
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from ottla.broker.storage.engine import Corrupt
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.files import Files, sync, sync_directory, sync_file
from ottla.broker.storage.local.layout import LOG_SUFFIX, METADATA_NAME, LogCheckpoint, parse_segment_name, segment_name
from ottla.broker.storage.local.segment import Readers, Segment, SegmentIndex, remove_index, write_index
from ottla.protocol.records import HEADER_SIZE, BatchError, BatchHeader, check_crc, parse_header

_READ_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class RecoveredLog:
    """A log as it was found."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    epochs: EpochHistory
    active_index: SegmentIndex | None = None
    """A copy of the last segment's index for the writer, None if there is no segment."""
    active_index_saved: bool = False
    """That index lies in files."""
    cut_bytes: int = 0
    """How much of a torn tail was cut off."""
    cut_reason: str = ""


@dataclass(slots=True)
class _Scan:
    """A segment, read and checked."""

    index: SegmentIndex
    size: int
    next_offset: int
    file_size: int
    epochs: list[tuple[int, int]]
    problem: str


def make_durable(files: Files, directory: str) -> None:
    """Make durable what a process that died may have written to a log and not synced, before anybody is shown it.

    What cannot be read is left to ``recover``. Raises ``SyncFailed``.
    """
    with contextlib.suppress(OSError):
        sync_file(files, os.path.join(directory, METADATA_NAME))
        bases = [base for name in files.list(directory) if (base := parse_segment_name(name)) is not None]
        if bases:
            # The others were synced before their successors existed.
            sync_file(files, os.path.join(directory, segment_name(max(bases), LOG_SUFFIX)))
        sync_directory(files, directory)


def recover(readers: Readers, directory: str, known: LogCheckpoint | None, index_interval: int) -> RecoveredLog:
    """Open the log in ``directory``, whose content is durable. Raises ``Corrupt``, ``SyncFailed`` and ``OSError``."""
    files = readers.files
    known = known or LogCheckpoint()
    bases = sorted(base for name in files.list(directory) if (base := parse_segment_name(name)) is not None)
    bases = _without_trimmed(files, directory, bases, known.log_start_offset)
    if known.log_end_offset is not None:
        found = _closed_cleanly(readers, directory, bases, known)
        if found is not None:
            return found
        # Somebody else wrote here since, and may not have synced.
        make_durable(files, directory)
    return _read_again(readers, directory, bases, known, index_interval)


def _without_trimmed(files: Files, directory: str, bases: list[int], log_start_offset: int) -> list[int]:
    """Remove segments that a trim left behind when the process died; return those that remain."""
    while len(bases) > 1 and bases[1] <= log_start_offset:
        remove_segment(files, directory, bases.pop(0))
    return bases


def remove_segment(files: Files, directory: str, base_offset: int) -> None:
    """Remove a segment's files, as far as they are there."""
    with contextlib.suppress(FileNotFoundError):
        files.remove(os.path.join(directory, segment_name(base_offset, LOG_SUFFIX)))
    remove_index(files, directory, base_offset)


def _closed_cleanly(readers: Readers, directory: str, bases: list[int], known: LogCheckpoint) -> RecoveredLog | None:
    """The log as the checkpoint has it; None if the last segment is not as it was then."""
    assert known.log_end_offset is not None
    files = readers.files
    if not bases:
        # Everything was trimmed, or there never was anything; else segments have disappeared.
        if known.active_size:
            raise Corrupt(f"{directory}: the segments up to offset {known.log_end_offset} are missing")
        return RecoveredLog([], known.log_start_offset, known.log_end_offset, EpochHistory(known.epochs))
    segments = []
    for base, next_base in zip(bases, [*bases[1:], known.log_end_offset], strict=True):
        segments.append(Segment(readers, directory, base, size=_size(files, directory, base), next_offset=next_base))
    active = segments[-1]
    if active.size != known.active_size:
        return None
    index = active.begin_writing()
    epochs = EpochHistory(known.epochs)
    return RecoveredLog(segments, known.log_start_offset, known.log_end_offset, epochs, index, active_index_saved=True)


def _read_again(
    readers: Readers, directory: str, bases: list[int], known: LogCheckpoint, index_interval: int
) -> RecoveredLog:
    files = readers.files
    log_start_offset = max(known.log_start_offset, bases[0] if bases else 0)
    found = RecoveredLog([], log_start_offset, log_start_offset, EpochHistory())
    # Epochs below the recovery point are remembered; those after it are in the batches that are read again.
    trusted_end = max((base for base in bases if base <= known.recovery_point), default=0)
    for epoch, start in known.epochs:
        if start < trusted_end:
            found.epochs.begin(epoch, start)
    for base, next_base in zip_longest(bases, bases[1:]):
        if next_base is not None and next_base <= trusted_end:
            size = _size(files, directory, base)
            found.segments.append(Segment(readers, directory, base, size=size, next_offset=next_base))
            continue
        scan = _scan(files, directory, base, index_interval)
        for epoch, start in scan.epochs:
            found.epochs.begin(epoch, start)
        if next_base is not None:
            found.segments.append(_checked(readers, directory, scan, next_base))
        else:
            _take_last(readers, directory, scan, found)
    return found


def _checked(readers: Readers, directory: str, scan: _Scan, next_base: int) -> Segment:
    """A complete segment after it was read; its indexes are written anew, as nobody knows what became of them."""
    if scan.problem or scan.next_offset > next_base:
        path = os.path.join(directory, segment_name(scan.index.base_offset, LOG_SUFFIX))
        reason = scan.problem or f"it reaches to offset {scan.next_offset}, beyond its successor"
        raise Corrupt(f"{path} is damaged at byte {scan.size}: {reason}")
    write_index(readers.files, directory, scan.index)
    base = scan.index.base_offset
    segment = Segment(readers, directory, base, size=scan.size, next_offset=next_base, index=scan.index)
    segment.complete()
    return segment


def _take_last(readers: Readers, directory: str, scan: _Scan, found: RecoveredLog) -> None:
    """Cut the last segment's torn tail."""
    files = readers.files
    base = scan.index.base_offset
    path = os.path.join(directory, segment_name(base, LOG_SUFFIX))
    if scan.file_size > scan.size:
        handle = files.open(path)
        try:
            files.truncate(handle, scan.size)
            sync(files, handle, path)
        finally:
            files.close(handle)
        found.cut_bytes = scan.file_size - scan.size
        found.cut_reason = f"{path}, byte {scan.size}: {scan.problem}"
    if scan.next_offset < found.log_start_offset:
        # The trim was durable, the records that it trimmed were not: the log goes on at its start, empty.
        for segment in found.segments:
            remove_segment(files, directory, segment.base_offset)
        remove_segment(files, directory, base)
        found.segments.clear()
        return
    found.log_end_offset = max(scan.next_offset, base)
    active = Segment(readers, directory, base, size=scan.size, next_offset=found.log_end_offset, index=scan.index)
    found.active_index = active.begin_writing()
    found.segments.append(active)


def _scan(files: Files, directory: str, base_offset: int, index_interval: int) -> _Scan:
    """Read a segment up to its end or to the first thing that is not a whole, undamaged batch."""
    path = os.path.join(directory, segment_name(base_offset, LOG_SUFFIX))
    handle = files.open(path)
    try:
        file_size = files.size(handle)
        scan = _Scan(SegmentIndex(base_offset), 0, base_offset, file_size, [], "")
        chunk = b""
        chunk_at = 0
        while scan.size < file_size:
            try:
                header = _parse(chunk, scan.size - chunk_at)
                if header is None:
                    chunk_at = scan.size
                    chunk = files.read(handle, min(_READ_BYTES, file_size - chunk_at), chunk_at)
                    header = parse_header(chunk)
                begin = scan.size - chunk_at
                if scan.size + header.size > file_size:
                    raise BatchError(f"a batch of {header.size} bytes, but {file_size - scan.size} are left")
                if begin + header.size > len(chunk):
                    chunk_at, begin = scan.size, 0
                    chunk = files.read(handle, max(_READ_BYTES, header.size), chunk_at)
                check_crc(header, memoryview(chunk)[begin : begin + header.size])
                if header.base_offset < scan.next_offset:
                    raise BatchError(f"offset {header.base_offset} where at least {scan.next_offset} was due")
            except BatchError as error:
                scan.problem = str(error)
                break
            _note(scan, header, index_interval)
        return scan
    finally:
        files.close(handle)


def _parse(chunk: bytes, at: int) -> BatchHeader | None:
    return parse_header(chunk, at) if at + HEADER_SIZE <= len(chunk) else None


def _note(scan: _Scan, header: BatchHeader, index_interval: int) -> None:
    scan.index.add(header.last_offset, scan.size, header.size, header.max_timestamp, index_interval)
    if not scan.epochs or header.partition_leader_epoch > scan.epochs[-1][0]:
        scan.epochs.append((header.partition_leader_epoch, header.base_offset))
    scan.size += header.size
    scan.next_offset = header.last_offset + 1


def _size(files: Files, directory: str, base_offset: int) -> int:
    handle = files.open(os.path.join(directory, segment_name(base_offset, LOG_SUFFIX)))
    try:
        return files.size(handle)
    finally:
        files.close(handle)
