"""Record batches in one call, with any header a test wants."""

from collections.abc import Iterable
from typing import Any

from ottla.protocol.batch import HEADER_SIZE, TIMESTAMP_TYPE_BIT, Record, TimestampType, parse_header
from ottla.protocol.batch_builder import BatchBuilder, sealed
from ottla.protocol.compression import Codec


def build_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
    **header: Any,
) -> bytes:
    """One batch of ``records``, at least one; ``header`` is what `BatchBuilder.build` takes."""
    builder = BatchBuilder(codec=codec, is_transactional=is_transactional, is_control=is_control)
    for record in records:
        builder.append(record.key, record.value, record.timestamp_ms, record.headers)
    batch = builder.build(**header)
    if timestamp_type:
        found = parse_header(batch)
        batch = sealed(found._replace(attributes=found.attributes | TIMESTAMP_TYPE_BIT), batch[HEADER_SIZE:])
    return batch


def damaged(data: bytes) -> bytes:
    """The batch with a bit of its records flipped."""
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]
