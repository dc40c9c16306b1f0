"""Whether a produced batch may be appended, and in which form."""

from __future__ import annotations

from typing import Final

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.settings import INT64_MAX
from ottla.protocol.compression import Buffer
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    RECORD_COUNT_AT,
    BatchTooLarge,
    ProducedBatch,
    TimestampType,
    check_batch,
    parse_header,
    validate_produced,
    with_codec,
    with_create_time,
    with_log_append_time,
)

CODEC_MASK: Final = 0x07
WALKED_RECORDS: Final = 32
"""Up to so many records of a batch are looked at one by one."""
WALKED_BYTES: Final = 64 * 1024
"""Up to so many compressed bytes are decompressed only to look at them."""
DECOMPRESSED_BYTES: Final = 16 * 1024 * 1024
"""How large the batches that must be decompressed may become, as a bound on the time that one batch takes."""


def accept(data: Buffer | None, api_version: int, config: TopicConfig, wall_ms: int) -> ProducedBatch:
    """Check what a Produce request has for one partition, as Kafka's broker does.

    Header and CRC are always checked: they show damage, lying counts and everything that the broker itself relies on.
    Kafka goes on to walk over the records, decompressing them. In Python that costs about a microsecond a record, on
    the one thread that serves everybody, and can show only that a client library writes malformed records and then a
    CRC that fits them. So small batches are walked over, where such a library shows as well, and large ones only where
    the topic asks something of every record: a key, a timestamp that is not too old, or a codec that the producer has
    not used.

    Args:
        data: the records field of the request.
        wall_ms: Unix time.

    Raises:
        InvalidBatch, CorruptBatch, BatchTooLarge: with the error code to answer.
    """
    recompress = _has_other_codec(data, config)
    every = recompress or config.compacted or config.message_timestamp_before_max_ms < INT64_MAX
    if every or _is_small(data):
        try:
            produced = _walked(data, api_version, config, wall_ms)
            return _recompressed(produced, config) if recompress else produced
        except BatchTooLarge:
            if every:
                raise
    header, data = check_batch(data, api_version, config.max_message_bytes)
    if config.log_append_time:
        data = with_log_append_time(data, wall_ms)
        return ProducedBatch(parse_header(data), data)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        data = with_create_time(data)
        header = parse_header(data)
    if header.max_timestamp > wall_ms + config.message_timestamp_after_max_ms:
        # The answer names the records at fault.
        return _walked(data, api_version, config, wall_ms)
    return ProducedBatch(header, data)


def _is_small(data: Buffer | None) -> bool:
    if data is None or len(data) < HEADER_SIZE:
        return True
    count = int.from_bytes(data[RECORD_COUNT_AT:HEADER_SIZE], "big", signed=True)
    return count <= WALKED_RECORDS and (len(data) <= WALKED_BYTES or not data[ATTRIBUTES_AT + 1] & CODEC_MASK)


def _has_other_codec(data: Buffer | None, config: TopicConfig) -> bool:
    if config.codec is None or data is None or len(data) < HEADER_SIZE:
        return False
    return data[ATTRIBUTES_AT + 1] & CODEC_MASK != config.codec


def _recompressed(produced: ProducedBatch, config: TopicConfig) -> ProducedBatch:
    """The batch in the codec of the topic; it must not grow beyond the topic's limit by that."""
    assert config.codec is not None
    data = with_codec(produced.data, config.codec, level=config.compression_level, limit=DECOMPRESSED_BYTES)
    if len(data) > config.max_message_bytes:
        text = f"a batch of {len(data)} bytes as {config.codec.name}, where {config.max_message_bytes} are allowed"
        raise BatchTooLarge(text)
    return ProducedBatch(parse_header(data), data)


def _walked(data: Buffer | None, api_version: int, config: TopicConfig, wall_ms: int) -> ProducedBatch:
    limited = config.message_timestamp_before_max_ms < INT64_MAX
    return validate_produced(
        data,
        api_version=api_version,
        max_message_bytes=config.max_message_bytes,
        require_key=config.compacted,
        timestamp_type=TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME,
        now_ms=wall_ms,
        before_max_ms=config.message_timestamp_before_max_ms if limited else None,
        after_max_ms=config.message_timestamp_after_max_ms,
        max_decompressed_bytes=DECOMPRESSED_BYTES,
    )
