"""Directories of segments as a broker leaves them, made by hand: what the tests of file readers share."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.protocol.batch import Record, parse_header
from tests.support.batches import build_batch

NOW_MS = 1_700_000_000_000


def records(*values: bytes | None, key: bytes | None = b"k", start_ms: int = NOW_MS) -> list[Record]:
    """Records of the given values, a second apart."""
    return [Record(0, start_ms + 1000 * number, key, value) for number, value in enumerate(values)]


def write_log(
    directory: Path, batches: Iterable[Sequence[Record] | bytes], *, base_offset: int = 0, indexed: bool = True
) -> Path:
    """A segment of these batches, offsets given in order, with an index entry for every batch but the first."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    data, offsets, times = bytearray(), bytearray(), bytearray()
    offset, newest = base_offset, -1
    for one in batches:
        batch = one if isinstance(one, bytes) else build_batch(one, base_offset=offset)
        batch = struct.pack(">q", offset) + batch[8:]
        header = parse_header(batch)
        if data:
            offsets += struct.pack(">ii", header.last_offset - base_offset, len(data))
        if header.max_timestamp > newest:
            newest = header.max_timestamp
            times += struct.pack(">qi", newest, header.last_offset - base_offset)
        data += batch
        offset = header.last_offset + 1
    path.write_bytes(data)
    if indexed:
        path.with_suffix(".index").write_bytes(offsets)
        path.with_suffix(".timeindex").write_bytes(times)
    return path


def flip(path: Path, position: int) -> None:
    """Damage one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)
