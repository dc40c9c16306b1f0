"""Segment files of Kafka's format, and the index files beside them, read as far as they go."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.source.logs import SourceError
from ottla.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT
from ottla.protocol.stored.journal import Trusted
from ottla.protocol.stored.names import INDEX_SUFFIX, LOG_SUFFIX, OFFSET_ENTRY, TIME_ENTRY, parse_segment_name

GULP = 4 << 20
_MOST_LOOKS = 10
_SWAP = re.compile(r"(\d{20})\.(?:(\d{20})\.)?log\.swap")
# Base offset, length, magic, attributes, last offset delta, maximum timestamp.
_FIELDS = struct.Struct(">qi4xb4xhi8xq")


class Segment(NamedTuple):
    """A file of batches; ``end`` is how many bytes of it count."""

    base_offset: int
    path: Path
    end: int


class BatchPlace(NamedTuple):
    """A batch's header as far as places and times go."""

    position: int
    size: int
    base_offset: int
    end_offset: int
    attributes: int
    max_timestamp: int


def segments_of(directory: Path, trusted: Trusted | None) -> list[Segment]:
    """The segments of a partition, in order; ``trusted`` tells which count, None that all do."""
    for _ in range(_MOST_LOOKS):
        segments: list[Segment] = []
        for base, path in sorted(_files(directory).items()):
            if trusted is not None and base > trusted.last_base:
                return segments
            try:
                size = path.stat().st_size
            except OSError:
                break  # deleted or renamed meanwhile: what stands in its place now?
            end = None if trusted is None else trusted.end_of(base)
            segments.append(Segment(base, path, size if end is None else min(size, end)))
        else:
            return segments
    raise SourceError(f"{directory}: files come and go faster than they can be read")


def _files(directory: Path) -> dict[int, Path]:
    """The files that count, by their base offsets."""
    try:
        names = os.listdir(directory)
    except OSError:
        return {}
    found = {base: directory / name for name in names if (base := parse_segment_name(name)) is not None}
    for swap in filter(None, (_SWAP.fullmatch(name) for name in sorted(names))):
        # A compaction that was interrupted when it counted already: it takes the place of what it was made of. Ottla's
        # files are named after both ends of that; Kafka's reach as far as their last batch.
        low, path = int(swap[1]), directory / swap[0]
        high = int(swap[2]) if swap[2] else _end_of_file(low, path)
        found = {base: one for base, one in found.items() if not low <= base < max(high, low + 1)}
        found[low] = path
    return found


def _end_of_file(base_offset: int, path: Path) -> int:
    try:
        return end_offset(Segment(base_offset, path, path.stat().st_size))
    except OSError:
        return base_offset


def position_of(segment: Segment, offset: int) -> int:
    """The place of a batch that lies before ``offset`` or has it: by the index, if there is one that fits."""
    best = 0
    for relative, position in entries(segment, INDEX_SUFFIX, OFFSET_ENTRY):
        if segment.base_offset + relative > offset:
            break
        best = position
    if best and (best >= segment.end or not _begins_below(segment, best, offset)):
        return 0
    return best


def entries(segment: Segment, suffix: str, entry: struct.Struct = TIME_ENTRY) -> list[tuple[int, ...]]:
    """The entries of an index file; zeros at its end are room that was taken in advance."""
    if segment.path.suffix != LOG_SUFFIX:
        return []
    try:
        data = segment.path.with_suffix(suffix).read_bytes()
    except OSError:
        return []
    end = min(-(-len(data.rstrip(b"\0")) // entry.size), len(data) // entry.size) * entry.size
    return list(entry.iter_unpack(data[:end]))


def batch_places(segment: Segment, position: int = 0) -> Iterator[BatchPlace]:
    """The headers from ``position`` on, up to the end or to what is no batch."""
    try:
        handle = os.open(segment.path, os.O_RDONLY)
    except OSError:
        return
    try:
        while position + HEADER_SIZE <= segment.end:
            data = os.pread(handle, min(GULP, segment.end - position), position)
            at = 0
            while at + HEADER_SIZE <= len(data):
                base, length, magic, attributes, delta, latest = _FIELDS.unpack_from(data, at)
                size = length + LOG_OVERHEAD
                if magic != MAGIC or size < HEADER_SIZE or position + at + size > segment.end:
                    return
                yield BatchPlace(position + at, size, base, base + max(delta, 0) + 1, attributes, latest)
                at += size
            if not at:
                return
            position += at
    finally:
        os.close(handle)


def end_offset(segment: Segment) -> int:
    """The offset behind the last batch of a segment; its base offset if it has none."""
    end = segment.base_offset
    for place in batch_places(segment, position_of(segment, 1 << 62)):
        end = place.end_offset
    return end


def _begins_below(segment: Segment, position: int, offset: int) -> bool:
    try:
        with segment.path.open("rb") as file:
            file.seek(position)
            head = file.read(HEADER_SIZE)
    except OSError:
        return False
    return len(head) == HEADER_SIZE and head[MAGIC_AT] == MAGIC and int.from_bytes(head[:8], "big") <= offset
