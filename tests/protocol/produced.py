"""A produced batch, checked as brokers check it, in one call."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c

from ottla.protocol.batch import MOST_TIMESTAMP
from ottla.protocol.batch_check import Allowance, ProducedBatch, check_batch, validating
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec, compress
from ottla.protocol.records import ATTRIBUTES_AT, CRC_AT, TimestampType
from ottla.protocol.steps import finished


def sealed(batch: Buffer) -> bytes:
    """The same bytes with a CRC that fits them."""
    data = bytes(batch)
    return data[:CRC_AT] + google_crc32c.value(data[ATTRIBUTES_AT:]).to_bytes(4, "big") + data[ATTRIBUTES_AT:]


def batch_of(
    records: bytes,
    count: int,
    codec: Codec = Codec.NONE,
    *,
    base_offset: int = 0,
    last_delta: int | None = None,
    leader_epoch: int = 0,
    times_ms: tuple[int, int] = (0, 0),
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch with a right CRC around any bytes.

    Args:
        times_ms: the first and the largest timestamp.
        producer: id, epoch and first sequence number.
    """
    delta = max(count - 1, 0) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", codec, delta, *times_ms, *producer, count) + compress(codec, records)
    return sealed(struct.pack(">qiibi", base_offset, len(covered) + 9, leader_epoch, 2, 0) + covered)


def validate_produced(
    data: Buffer | None,
    *,
    api_version: int = 9,
    max_message_bytes: int = 1 << 30,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    **options: Any,
) -> ProducedBatch:
    """Check the records of one partition in a Produce request; ``options`` are those of `validating`."""
    usual = {"require_key": False, "now_ms": 0, "before_max_ms": 1 << 63, "after_max_ms": MOST_TIMESTAMP}
    options = {**usual, "timestamp_type": TimestampType.CREATE_TIME, **options}
    checked = check_batch(data, api_version, max_message_bytes)
    return finished(validating(*checked, allowance=Allowance(max_decompressed_bytes), **options))
