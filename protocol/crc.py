"""CRC-32C, the checksum of record batches."""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from ottla.protocol.compression import Buffer

_KEEP_THE_LOCK = 0
"""The library may let other threads run meanwhile; getting their turn back takes longer than most checksums."""


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The CRC-32C of ``data``, which follows what ``crc`` is of. Nothing is copied."""
    return _crc32c(data, crc, _KEEP_THE_LOCK)
