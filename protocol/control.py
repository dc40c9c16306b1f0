"""Control batches: how the end of a transaction is written into a partition's log (KIP-98).

A marker is a batch of one record, control and transactional, with the producer's id and epoch and no sequence. Its key
is a version and a type, its value a version and the epoch of the transaction coordinator that decided.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.protocol.batch import NO_LEADER_EPOCH, CorruptBatch, parse_header
from ottla.protocol.batch_builder import BatchBuilder
from ottla.protocol.batch_reader import decode_batch
from ottla.protocol.compression import Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The content of a control record, as far as transactions go."""

    ABORT = 0
    COMMIT = 1


class EndOfTransaction(NamedTuple):
    """A marker's record."""

    commit: bool
    coordinator_epoch: int


def build_marker(
    end: EndOfTransaction,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The batch that ends the transaction of a producer in one partition. ``timestamp_ms`` is Unix time."""
    builder = BatchBuilder(is_transactional=True, is_control=True)
    kind = ControlType.COMMIT if end.commit else ControlType.ABORT
    builder.append(_KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, end.coordinator_epoch), timestamp_ms)
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
    )


def parse_marker(batch: Buffer) -> EndOfTransaction | None:
    """Read the end of a transaction from the control batch that begins ``batch``.

    None where it says nothing: compaction has emptied it, or it is of a type that is not about transactions. Newer
    versions of key and value may have more fields at their ends. Raises ``CorruptBatch``.
    """
    if not parse_header(batch).record_count:
        return None
    record = decode_batch(batch)[0]
    try:
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error:
        raise CorruptBatch(f"the control record at {record.offset} is too short") from None
    return EndOfTransaction(kind == ControlType.COMMIT, coordinator_epoch)
