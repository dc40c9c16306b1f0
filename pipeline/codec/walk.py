"""Finding the records in the bytes of a log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ottla.pipeline.codec.chunk import PADDING, Aborted, Chunk
from ottla.protocol.compression import Buffer
from ottla.protocol.records import decode_batch, iter_batches

MAX_CHUNK_BYTES = 64 << 20


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
    Nothing raises but `MemoryError`: what is damaged is named in `Chunk.damage`.

    Args:
        buffer: bytes of one partition's log, from the beginning of a batch on (which may begin below ``start_offset``).
        topic, partition: kept in the chunk.
        start_offset, end_offset: records from the first to before the second; None is to the end.
        aborted: aborted transactions that reach into the buffer: pairs of producer id and first offset, as Fetch gives
            them, or what `Transactions` found. Empty to read uncommitted.
        check_crcs: hold every batch against its CRC-32C.
        max_bytes: compressed batches are opened until their records are that large together; the walk ends there, as
            if the buffer did. The first one is opened in any case, up to 128 MiB.
    """
    data = bytearray()
    rows = []
    next_offset, consumed = start_offset, 0
    for header, batch in iter_batches(buffer):
        consumed += header.size
        next_offset = max(next_offset, header.last_offset + 1)
        if header.is_control:
            continue
        for record in decode_batch(batch):
            if record.offset >= start_offset and (end_offset is None or record.offset < end_offset):
                places = []
                for part in (record.key, record.value):
                    places += [len(data), -1 if part is None else len(part)]
                    data += part or b""
                rows.append((record.offset, record.timestamp_ms, bool(header.timestamp_type), *places))
    table = np.array(rows, np.int64).reshape(-1, 7)
    data += bytes(PADDING)
    columns = [np.ascontiguousarray(table[:, index]) for index in range(7)]
    columns[2] = columns[2].astype(bool)
    return Chunk(topic, partition, np.frombuffer(data, np.uint8), *columns, None, next_offset, consumed)
