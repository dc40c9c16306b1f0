"""The index files beside a segment: what they say, and whether it fits the segment.

``.index`` has entries (offset, position), ``.timeindex`` (timestamp, offset); offsets are relative to the file's name.
A broker that is running may have filled them with zeros in advance.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple

from ottla.cli.segments import base_offset_of
from ottla.protocol.stored.names import INDEX_SUFFIX, OFFSET_ENTRY, TIME_ENTRY, TIME_INDEX_SUFFIX

TRANSACTION_INDEX = ".txnindex"

_TRANSACTION_ENTRY = struct.Struct(">hqqqq")


class OffsetEntry(NamedTuple):
    """The position in the segment of the batch that ends with this offset."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """Nothing up to this offset is younger than this (Unix ms)."""

    timestamp: int
    offset: int


class TransactionEntry(NamedTuple):
    """An aborted transaction, and the last stable offset when it was aborted. Kafka's brokers write these."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Disagreement(NamedTuple):
    """An entry that would lead a reader astray, or a file that is none."""

    path: Path
    position: int
    reason: str


def read_offset_index(path: Path) -> list[OffsetEntry]:
    """Raises ValueError for a size that no entries have, and OSError."""
    base = base_offset_of(path) or 0
    return [OffsetEntry(base + offset, position) for offset, position in _entries(path, OFFSET_ENTRY)]


def read_time_index(path: Path) -> list[TimeEntry]:
    """Raises as `read_offset_index`."""
    base = base_offset_of(path) or 0
    return [TimeEntry(timestamp, base + offset) for timestamp, offset in _entries(path, TIME_ENTRY)]


def read_transaction_index(path: Path) -> list[TransactionEntry]:
    """Raises as `read_offset_index`."""
    return [TransactionEntry(*entry[1:]) for entry in _entries(path, _TRANSACTION_ENTRY)]


def _entries(path: Path, entry: struct.Struct) -> list[tuple[int, ...]]:
    data = path.read_bytes()
    if len(data) % entry.size:
        raise ValueError(f"{len(data):,} bytes are no whole number of entries of {entry.size}")
    # A position of zero in a later entry, or zeros all through, is space filled in advance.
    end = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
    return list(entry.iter_unpack(data[:end]))


class Outline:
    """A few numbers of each batch of a segment, to check its indexes against."""

    def __init__(self) -> None:
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.largest_so_far = array("q")

    def add(self, position: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        largest = self.largest_so_far[-1] if self.largest_so_far else -1
        self.positions.append(position)
        self.base_offsets.append(base_offset)
        self.last_offsets.append(last_offset)
        self.largest_so_far.append(max(largest, max_timestamp))


def check_indexes(segment: Path, outline: Outline, *, growing_from: int | None = None) -> list[Disagreement]:
    """The entries of index files that disagree with the segment. A missing file is no fault: brokers rebuild it.

    ``growing_from`` is the place up to which a segment was read that a broker is writing to: entries may be further.
    """
    found = []
    if (path := segment.with_suffix(INDEX_SUFFIX)).exists():
        found += _check_offsets(path, outline, growing_from)
    if (path := segment.with_suffix(TIME_INDEX_SUFFIX)).exists():
        found += _check_times(path, outline)
    return found


def _check_offsets(path: Path, outline: Outline, growing_from: int | None) -> list[Disagreement]:
    try:
        entries = read_offset_index(path)
    except ValueError as error:
        return [Disagreement(path, 0, str(error))]
    previous = OffsetEntry(-1, -1)
    for number, entry in enumerate(entries):
        if growing_from is not None and entry.position >= growing_from:
            break
        at = bisect_left(outline.positions, entry.position)
        reason = ""
        if entry <= previous or entry.position <= previous.position:
            reason = f"offset {entry.offset} at byte {entry.position} does not come after the entry before it"
        elif at == len(outline.positions) or outline.positions[at] != entry.position:
            reason = f"no batch begins at byte {entry.position}, where offset {entry.offset} should be"
        elif outline.base_offsets[at] > entry.offset:
            reason = f"byte {entry.position} has offset {outline.base_offsets[at]}, the index says {entry.offset}"
        if reason:
            return [Disagreement(path, number * OFFSET_ENTRY.size, reason)]
        previous = entry
    return []


def _check_times(path: Path, outline: Outline) -> list[Disagreement]:
    try:
        entries = read_time_index(path)
    except ValueError as error:
        return [Disagreement(path, 0, str(error))]
    previous = TimeEntry(-1, -1)
    for number, entry in enumerate(entries):
        covered = bisect_right(outline.last_offsets, entry.offset)
        largest = outline.largest_so_far[covered - 1] if covered else -1
        reason = ""
        if entry.timestamp < previous.timestamp or entry.offset < previous.offset:
            reason = f"timestamp {entry.timestamp} at offset {entry.offset} does not come after the entry before it"
        elif largest > entry.timestamp:
            reason = f"up to offset {entry.offset} the index says {entry.timestamp}, a batch has {largest}"
        if reason:
            return [Disagreement(path, number * TIME_ENTRY.size, reason)]
        previous = entry
    return []
