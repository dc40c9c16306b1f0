"""Checks of a produced batch, and the form in which it is appended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.settings import INT64_MAX
from ottla.protocol.compression import Buffer
from ottla.protocol.records import (
    MOST_RECORDS,
    Allowance,
    BatchError,
    BatchHeader,
    BatchTooLarge,
    ProducedBatch,
    TimestampType,
    check_batch,
    parse_header,
    validate_few,
    validating,
    with_codec,
    with_create_time,
    with_log_append_time,
)
from ottla.protocol.steps import Steps, finished

CODEC_MASK: Final = 0x07
WALKED_RECORDS: Final = 32
"""Up to so many records of a batch are looked at one by one."""
LOOKED_AT_BYTES: Final = 64 * 1024
"""So many decompressed bytes of one request are looked at without a pause, which takes some 15 ms at worst."""
WALKED_A_REQUEST: Final = 2 * MOST_RECORDS
"""So many records and headers of records of one request are looked at one by one, which takes about two seconds."""
DECOMPRESSED_BYTES: Final = 16 * 1024 * 1024
"""The largest decompressed size of a batch; it bounds the time that one batch takes."""


def allowance(request_bytes: int) -> Allowance:
    """The work that the batches of one Produce request may cost together.

    Args:
        request_bytes: the size of the largest request; as much may come of compressed batches that must be opened.
    """
    return Allowance(request_bytes, WALKED_A_REQUEST, LOOKED_AT_BYTES)


def accept(
    data: Buffer | None, api_version: int, config: TopicConfig, wall_ms: int, allowance: Allowance | None = None
) -> ProducedBatch | Steps[ProducedBatch]:
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
        allowance: what is left for this and the other batches of the request; None is enough for anything, at once.

    Returns:
        The batch; or the steps to it where the records have to be walked over, and that takes long.

    Raises:
        InvalidBatch, CorruptBatch, BatchTooLarge: with the error code to answer.
    """
    header, data = check_batch(data, api_version, config.max_message_bytes)
    if (
        _has_other_codec(header, config)
        or config.compacted
        or config.message_timestamp_before_max_ms < INT64_MAX
        # The answer names the records at fault.
        or (header.max_timestamp > wall_ms + config.message_timestamp_after_max_ms and not config.log_append_time)
    ):
        steps = partial(_walking, header, data, config, wall_ms)
        if allowance is None:
            return finished(steps(Allowance(DECOMPRESSED_BYTES), DECOMPRESSED_BYTES))
        return _at_once(steps, data, allowance) or steps(allowance, DECOMPRESSED_BYTES)
    if header.record_count <= WALKED_RECORDS:
        if not header.attributes & CODEC_MASK and (allowance is None or len(data) <= allowance.at_once):
            if allowance is not None:
                allowance.at_once -= len(data)
            stamp = TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME
            times = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
            return validate_few(header, data, stamp, wall_ms, *times)
        steps = partial(_walking, header, data, config, wall_ms)
        walked = _at_once(steps, data, Allowance(LOOKED_AT_BYTES) if allowance is None else allowance)
        if walked is not None:
            return walked
    if config.log_append_time:
        data = with_log_append_time(data, wall_ms)
        return ProducedBatch(parse_header(data), data)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        data = with_create_time(data)
        header = parse_header(data)
    return ProducedBatch(header, data)


def _at_once(
    steps: Callable[[Allowance, int], Steps[ProducedBatch]], data: Buffer, allowance: Allowance
) -> ProducedBatch | None:
    """Walk over the records if these are few bytes and the request had not many before; None if they are not."""
    if len(data) > allowance.at_once:
        return None
    before = allowance.bytes
    try:
        produced = finished(steps(allowance, min(allowance.at_once, DECOMPRESSED_BYTES)))
    except BatchError as error:
        # Nobody knows how far it was decompressed: some such batches may be in a request, but not any number.
        allowance.at_once -= min(allowance.at_once, LOOKED_AT_BYTES // 8)
        if isinstance(error, BatchTooLarge):
            return None
        raise
    allowance.at_once -= before - allowance.bytes
    return produced


def _has_other_codec(header: BatchHeader, config: TopicConfig) -> bool:
    return config.codec is not None and header.attributes & CODEC_MASK != config.codec


def _walking(
    header: BatchHeader, data: Buffer, config: TopicConfig, wall_ms: int, allowance: Allowance, limit: int
) -> Steps[ProducedBatch]:
    walking = validating(
        header,
        data,
        require_key=config.compacted,
        timestamp_type=TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME,
        now_ms=wall_ms,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        allowance=allowance,
        limit=limit,
    )
    return _recompressing(walking, config) if _has_other_codec(header, config) else walking


def _recompressing(walking: Steps[ProducedBatch], config: TopicConfig) -> Steps[ProducedBatch]:
    produced = yield from walking
    assert config.codec is not None
    data = yield partial(
        with_codec, produced.data, config.codec, level=config.compression_level, limit=DECOMPRESSED_BYTES
    )
    if len(data) > config.max_message_bytes:
        # It must not grow beyond the topic's limit by that.
        text = f"a batch of {len(data)} bytes as {config.codec.name}, where {config.max_message_bytes} are allowed"
        raise BatchTooLarge(text)
    return ProducedBatch(parse_header(data), data)
