"""Reading a log again from its segments, batch by batch, when nothing else says what it holds.

Every CRC is checked. What is not whole at the end of the last segment is cut off. Damage anywhere else has befallen
acknowledged data: that is ``Corrupt``, unless the loss was accepted, and then the log ends there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.engine import Corrupt, Damage
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.damage import SegmentReader
from ottla.broker.storage.local.files import Files, file_size, opened, sync, sync_file
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.replace import finish_replacing
from ottla.broker.storage.local.segment import SegmentIndex, remove_segment, segment_bases, segment_path, write_index
from ottla.protocol.records import BatchHeader

_NO_CEILING: Final = 2**63
_INDEX_INTERVAL: Final = 4096


@dataclass(slots=True)
class Known:
    """Facts about a log that its segments do not tell."""

    log_start_offset: int = 0
    recovery_point: int = 0
    """Segments wholly below are on the disk with their indexes, and need not be read."""
    epochs: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class LostRange:
    """Records of one log that are given up."""

    log: str
    """``topic-partition``"""
    from_offset: int
    upto_offset: int | None
    """None if the end is unknown."""
    reason: str
    records: int | None = None
    """The number of records, None if unknown."""


@dataclass(slots=True)
class _Scan:
    """A segment, read and checked."""

    index: SegmentIndex
    size: int
    next_offset: int
    epochs: list[tuple[int, int]] = field(default_factory=list)
    first_timestamp_ms: int = -1
    problem: str = ""


def rebuild(files: Files, log: KeptLog, known: Known, *, accept_loss: bool, dry_run: bool = False) -> list[LostRange]:
    """Fill in what ``log`` holds from the segments in its directory, and make both durable.

    Returns what was given up; only a torn end of the last segment unless ``accept_loss``. With ``dry_run`` nothing is
    changed. Raises ``Corrupt``, ``OSError`` and ``SyncFailed``.
    """
    if not dry_run:
        finish_replacing(files, log.directory)
    bases = segment_bases(files, log.directory)
    while len(bases) > 1 and bases[1] <= known.log_start_offset:
        base = bases.pop(0)
        if not dry_run:
            remove_segment(files, log.directory, base)
    log.exists = True
    log.log_start_offset = max(known.log_start_offset, bases[0] if bases else 0)
    log.next_offset = log.log_start_offset
    history = EpochHistory()
    trusted_end = max((base for base in bases if base <= known.recovery_point), default=0)
    for epoch, start in known.epochs:
        if start < trusted_end:
            history.begin(epoch, start)
    losses: list[LostRange] = []
    for position, base in enumerate(bases):
        is_last = position == len(bases) - 1
        if not is_last and bases[position + 1] <= trusted_end:
            log.next_offset = bases[position + 1]
            continue
        scan = _scan(files, log.directory, base)
        if not is_last and not scan.problem and scan.next_offset > bases[position + 1]:
            scan.problem = f"it reaches to offset {scan.next_offset}, beyond its successor"
        for epoch, start in scan.epochs:
            history.begin(epoch, start)
        path = segment_path(log.directory, base)
        if scan.problem:
            if not is_last and not accept_loss:
                raise Corrupt(f"{path} is damaged at byte {scan.size}: {scan.problem}")
            later = bases[position + 1 :]
            losses.append(LostRange(log.name, scan.next_offset, None, f"{path}, byte {scan.size}: {scan.problem}"))
            if not dry_run:
                _cut(files, log, path, scan.size, later)
            is_last = True
        if not dry_run:
            # A process that died may have written this without syncing it.
            sync_file(files, path)
            write_index(files, log.directory, scan.index)
        log.next_offset = max(scan.next_offset, base) if is_last else bases[position + 1]
        if is_last:
            log.go_on_with(scan.index, scan.size, scan.first_timestamp_ms)
            break
    if log.next_offset < log.log_start_offset:
        _empty(files, log, bases, dry_run=dry_run)
    log.epochs = history.entries
    return losses


def _empty(files: Files, log: KeptLog, bases: Sequence[int], *, dry_run: bool) -> None:
    """The trim was durable, the records that it trimmed were not: the log goes on at its start, empty."""
    for base in bases:
        if not dry_run:
            remove_segment(files, log.directory, base)
    log.next_offset = log.log_start_offset
    log.segment = None
    log.length = 0


def _cut(files: Files, log: KeptLog, path: str, size: int, later: Sequence[int]) -> None:
    for base in later:
        remove_segment(files, log.directory, base)
    with opened(files, path) as handle:
        files.truncate(handle, size)
        sync(files, handle, path)


def _scan(files: Files, directory: str, base_offset: int) -> _Scan:
    """Read a segment up to its end or to the first thing that is not a whole, undamaged batch."""
    path = segment_path(directory, base_offset)
    scan = _Scan(SegmentIndex(base_offset), 0, base_offset)
    for part in SegmentReader(files, path, base_offset, _NO_CEILING, file_size(files, path)).parts():
        if isinstance(part, Damage):
            scan.problem = part.reason
            break
        _note(scan, part.header)
    return scan


def _note(scan: _Scan, header: BatchHeader) -> None:
    if not scan.size:
        scan.first_timestamp_ms = header.max_timestamp
    scan.index.add(header.last_offset, scan.size, header.size, header.max_timestamp, _INDEX_INTERVAL)
    if not scan.epochs or header.partition_leader_epoch > scan.epochs[-1][0]:
        scan.epochs.append((header.partition_leader_epoch, header.base_offset))
    scan.size += header.size
    scan.next_offset = header.last_offset + 1
