"""The search for records by time that every engine needs."""

from collections.abc import Iterator
from functools import partial
from typing import Final, Protocol

from ottla.broker.engine import Corrupt, NotHere, OffsetAndTimestamp
from ottla.protocol.batch_reader import TimeScan
from ottla.protocol.compression import CompressionError, DecompressedTooLarge, decompressed_pieces
from ottla.protocol.records import HEADER_SIZE, BatchError, BatchHeader, TimestampType, check_crc, parse_header
from ottla.protocol.steps import NEXT_IN_LINE, Steps

PIECE_BYTES: Final = 64 * 1024
"""Bytes of a batch searched without a pause: a few milliseconds at worst."""
TRIED_BYTES: Final = 16 * 1024
"""Smaller batches are decompressed at once, as most are small then, too."""


class Searchable(Protocol):
    """A log, as far as it takes part."""

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        """The first batch at or after an offset whose largest timestamp is at least ``timestamp_ms``."""


def search(log: Searchable, timestamp_ms: int, from_offset: int) -> Steps[OffsetAndTimestamp | None]:
    """The first record at ``from_offset`` or later whose timestamp is at least ``timestamp_ms``.

    Raises ``Corrupt`` when a batch cannot be read, and what the log raises but for ``NotHere``, for which it waits. A
    pause holds a batch at most, and one with others in line nothing.
    """
    offset = from_offset
    while True:
        try:
            batch = log.batch_for_timestamp(timestamp_ms, offset)
        except NotHere as later:
            yield later
            continue
        if batch is None:
            return None
        try:
            header = parse_header(batch)
            if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
                return OffsetAndTimestamp(max(header.base_offset, from_offset), header.max_timestamp)
            found = yield from _search_batch(header, batch, TimeScan(header, timestamp_ms, from_offset))
        except (BatchError, CompressionError) as error:
            raise Corrupt(f"a stored batch cannot be read: {error}") from None
        if found is not None:
            return OffsetAndTimestamp(*found)
        offset = header.last_offset + 1
        del batch
        yield NEXT_IN_LINE


def _search_batch(header: BatchHeader, batch: bytes, scan: TimeScan) -> Steps[tuple[int, int] | None]:
    check_crc(header, batch)
    pieces, is_small = _opened(header, batch)
    if is_small:
        for piece in pieces:
            if (found := scan.take(piece)) is not None:
                return found
        return scan.end()
    while (piece := (yield partial(next, pieces, None))) is not None:
        if (found := scan.take(piece)) is not None:
            return found
    return scan.end()


def _opened(header: BatchHeader, batch: bytes) -> tuple[Iterator[bytes], bool]:
    """The records of a batch in pieces, and whether these are few and are there already."""
    body = memoryview(batch)[HEADER_SIZE:]
    if len(body) <= (TRIED_BYTES if header.codec else PIECE_BYTES):
        try:
            return iter([*decompressed_pieces(header.codec, body, PIECE_BYTES, limit=PIECE_BYTES)]), True
        except DecompressedTooLarge:
            pass
    return decompressed_pieces(header.codec, body, PIECE_BYTES), False
