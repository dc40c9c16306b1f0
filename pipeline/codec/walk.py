"""Finding the records in the bytes of a log."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from ottla.pipeline.codec.chunk import PADDING, Aborted, Bytes, Chunk, Headers, Longs, Mask
from ottla.pipeline.codec.frames import MAX_BUFFER_BYTES, NO_END, Frames, frames
from ottla.pipeline.codec.records import MIN_RECORD_BYTES, Found, find
from ottla.protocol.batch import CODEC_MASK, CONTROL_BIT, TIMESTAMP_TYPE_BIT
from ottla.protocol.compression import Buffer, CompressionError, decompress
from ottla.protocol.records import HEADER_SIZE, TRANSACTIONAL_BIT

MAX_CHUNK_BYTES = 64 << 20
MAX_CHUNK_RECORDS = 1 << 22
"""A record of seven bytes becomes columns of some two hundred: those of a chunk together stay below a GB."""


def walk(
    buffer: Buffer,
    *,
    topic: str = "",
    partition: int = 0,
    start_offset: int = 0,
    end_offset: int | None = None,
    aborted: Sequence[Aborted | tuple[int, int]] = (),
    check_crcs: bool = True,
    max_bytes: int = MAX_CHUNK_BYTES,
) -> Chunk:
    """Find the records in record batches of magic 2 that lie back to back; the last may be cut off.

    Control batches and those of aborted transactions are left out, compressed ones are opened, checksums are checked.
    Nothing raises but `MemoryError`: what is damaged is named in `Chunk.damage`, and of its records none is taken.

    Args:
        buffer: bytes of one partition's log, from the beginning of a batch on (which may begin below ``start_offset``).
            Only the first GiB is looked at.
        topic, partition: kept in the chunk.
        start_offset, end_offset: records from the first to before the second; None is to the end.
        aborted: aborted transactions that reach into the buffer: pairs of producer id and first offset, as Fetch gives
            them, or what `Transactions` found. Empty to read uncommitted. To walk on in the same bytes, give
            `Chunk.aborted` instead.
        check_crcs: hold every batch against its CRC-32C.
        max_bytes: compressed batches are opened until their records are that large together; the walk ends there, as
            if the buffer did, and also after `MAX_CHUNK_RECORDS`. The first batch is opened in any case, up to 128 MiB.
    """
    end = NO_END if end_offset is None else end_offset
    found = frames(memoryview(buffer)[:MAX_BUFFER_BYTES].cast("B"), start_offset, end, check_crcs)
    ranges = [Aborted(*one) for one in aborted]
    wanted, still = _wanted(found, ranges)
    many = np.flatnonzero(np.cumsum(found.count[wanted][1:]) > MAX_CHUNK_RECORDS)
    if len(many):
        found.cut(int(wanted[many[0] + 1]))
        wanted, still = _wanted(found, ranges)
    bodies = _open(found, wanted, max_bytes)
    if bodies.taken < len(found):
        found.cut(bodies.taken)
        wanted, still = _wanted(found, ranges)
    wanted = wanted[bodies.at[wanted] >= 0]
    records = find(bodies.data, bodies.at[wanted], bodies.end[wanted], found.count[wanted])
    return _chunk(found, wanted, bodies.data, records, (topic, partition, end), tuple(still))


def _wanted(found: Frames, ranges: list[Aborted]) -> tuple[Longs, list[Aborted]]:
    """The numbers of the batches whose records count, and what is still aborted behind the last one."""
    take = (found.count > 0) & (found.attributes & CONTROL_BIT == 0) & (found.last_offset >= found.start_offset)
    if found.reasons:
        take[list(found.reasons)] = False
    if ranges and len(found):
        out, ranges = _aborted(found, ranges)
        take[out] = False
    return np.flatnonzero(take), ranges


def _aborted(found: Frames, ranges: list[Aborted]) -> tuple[list[int], list[Aborted]]:
    """The numbers of aborted batches, as the consumer finds them: from a transaction's first offset to its marker."""
    first = int(found.base_offset[0])
    later = sorted(
        (one for one in ranges if one.last_offset is None or one.last_offset >= first), key=attrgetter("first_offset")
    )
    later.reverse()
    active: dict[int, Aborted] = {}
    out = []
    for index in np.flatnonzero(found.attributes & TRANSACTIONAL_BIT).tolist():
        while later and later[-1].first_offset <= found.last_offset[index]:
            one = later.pop()
            active[one.producer_id] = one
        producer_id = int(found.producer_id[index])
        if producer_id not in active:
            continue
        if found.attributes[index] & CONTROL_BIT:
            del active[producer_id]
        else:
            out.append(index)
    return out, [*active.values(), *later[::-1]]


class _Bodies:
    """The places of batches' records: in the bytes as they came, or behind them where they were compressed.

    Attributes:
        at: -1 where they could not be opened.
        taken: how many batches there was room for.
    """

    def __init__(self, found: Frames) -> None:
        self.data: Bytes = found.data
        self.at: Longs = found.at + HEADER_SIZE
        self.end: Longs = found.end.copy()
        self.taken = len(found)


def _open(found: Frames, wanted: Longs, max_bytes: int) -> _Bodies:
    """Decompress what is compressed; what cannot be is damaged."""
    bodies = _Bodies(found)
    compressed = wanted[found.attributes[wanted] & CODEC_MASK > 0]
    plain = wanted[found.attributes[wanted] & CODEC_MASK == 0]
    _hold_counts(found, bodies, plain)
    if not len(compressed):
        return bodies
    pieces = [found.data[:-PADDING]]
    room, behind = max_bytes, len(found.data) - PADDING
    view = found.data.data
    for index in compressed.tolist():
        try:
            piece = decompress(
                int(found.attributes[index]) & CODEC_MASK, view[found.at[index] + HEADER_SIZE : found.end[index]]
            )
        except CompressionError as error:
            found.reasons[index] = str(error)
            bodies.at[index] = -1
            continue
        if len(piece) > room and len(pieces) > 1:
            bodies.taken = index
            break
        room -= len(piece)
        pieces.append(np.frombuffer(piece, np.uint8))
        bodies.at[index], bodies.end[index] = behind, behind + len(piece)
        behind += len(piece)
    bodies.data = np.concatenate([*pieces, np.zeros(PADDING, np.uint8)])
    _hold_counts(found, bodies, compressed[compressed < bodies.taken])
    return bodies


def _hold_counts(found: Frames, bodies: _Bodies, numbers: Longs) -> None:
    """Mark batches damaged whose bytes cannot hold as many records as they say, before anything is made for these."""
    there = bodies.end[numbers] - bodies.at[numbers]
    for index in numbers[(found.count[numbers] * MIN_RECORD_BYTES > there) & (bodies.at[numbers] >= 0)].tolist():
        found.reasons[index] = f"{found.count[index]} records in {bodies.end[index] - bodies.at[index]} bytes"
        bodies.at[index] = -1


def _chunk(
    found: Frames,
    wanted: Longs,
    data: Bytes,
    records: Found,
    place: tuple[str, int, int],
    aborted: tuple[Aborted, ...],
) -> Chunk:
    topic, partition, end_offset = place
    number = wanted[records.batch]
    offsets = found.base_offset[number] + records.offset_delta
    _hold_offsets(found, records, offsets, number)
    for index in wanted[records.bad].tolist():
        found.reasons[index] = "malformed records"
    inside = (offsets >= found.start_offset) & (offsets < end_offset)
    if records.bad.any():
        inside &= ~records.bad[records.batch]
    keep: Mask | slice = slice(None) if inside.all() else inside
    append_time = found.attributes[number] & TIMESTAMP_TYPE_BIT != 0
    timestamps = found.base_timestamp[number] + records.timestamp_delta
    if append_time.any():
        timestamps = np.where(append_time, found.max_timestamp[number], timestamps)
    return Chunk(
        topic=topic,
        partition=partition,
        data=data,
        offsets=offsets[keep],
        timestamps=timestamps[keep],
        append_time=append_time[keep],
        key_at=records.key_at[keep],
        key_size=records.key_size[keep],
        value_at=records.value_at[keep],
        value_size=records.value_size[keep],
        headers=_kept_headers(records.headers, keep),
        next_offset=found.next_offset,
        consumed=found.consumed,
        partial_size=found.partial_size,
        damage=found.damage(),
        aborted=aborted,
    )


def _hold_offsets(found: Frames, records: Found, offsets: Longs, number: Longs) -> None:
    """Offsets have to rise, within what the header says: they name the rows of tables."""
    wrong = (records.offset_delta < 0) | (offsets > found.last_offset[number])
    wrong[1:] |= (records.offset_delta[1:] <= records.offset_delta[:-1]) & (records.batch[1:] == records.batch[:-1])
    if wrong.any():
        records.bad[records.batch[wrong]] = True


def _kept_headers(headers: Headers | None, keep: Mask | slice) -> Headers | None:
    if headers is None or isinstance(keep, slice):
        return headers
    some = np.repeat(keep, headers.counts)
    counts, *parts = headers
    return Headers(counts[keep], *(part[some] for part in parts)) if some.any() else None
