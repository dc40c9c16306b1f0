"""A produced batch, checked as brokers check it, in one call."""

from __future__ import annotations

from typing import Any

from ottla.protocol.batch_check import Allowance, ProducedBatch, check_batch, validating
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Buffer
from ottla.protocol.records import TimestampType
from ottla.protocol.steps import finished


def validate_produced(
    data: Buffer | None,
    *,
    api_version: int = 9,
    max_message_bytes: int | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    **options: Any,
) -> ProducedBatch:
    """Check the records of one partition in a Produce request; ``options`` are those of `validating`."""
    usual = {"require_key": False, "now_ms": None, "before_max_ms": None, "after_max_ms": None}
    options = {**usual, "timestamp_type": TimestampType.CREATE_TIME, **options}
    checked = check_batch(data, api_version, max_message_bytes)
    return finished(validating(*checked, allowance=Allowance(max_decompressed_bytes), **options))
