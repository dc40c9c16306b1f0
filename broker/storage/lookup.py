"""Small searches that every engine needs."""

from ottla.broker.storage.engine import Corrupt, OffsetAndTimestamp
from ottla.protocol.records import BatchError, TimestampType, decode_batch, parse_header


def first_record_at_or_after(batch: bytes, timestamp_ms: int, from_offset: int) -> OffsetAndTimestamp | None:
    """The first record of ``batch`` at ``from_offset`` or later whose timestamp is at least ``timestamp_ms``.

    Raises ``Corrupt`` when the batch cannot be read.
    """
    try:
        header = parse_header(batch)
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            if header.max_timestamp < timestamp_ms or header.last_offset < from_offset:
                return None
            return OffsetAndTimestamp(max(header.base_offset, from_offset), header.max_timestamp)
        for record in decode_batch(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                return OffsetAndTimestamp(record.offset, record.timestamp_ms)
    except BatchError as error:
        raise Corrupt(f"a stored batch cannot be read: {error}") from None
    return None
