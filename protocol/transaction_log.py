"""Keys and values of ``__transaction_state``, the log of the transaction coordinator.

Both begin with an int16: in a key the type of the record, in a value the version of its layout. A record without a
value deletes its transactional id. Value version 1 is flexible and carries what KIP-890 added as tagged fields; 0 is
what brokers before it wrote, and loses those.
"""

from __future__ import annotations

import enum

from ottla.protocol.offsets_topic import record_type
from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Int64, Message, String, message, struct, wire

TRANSACTION_KEY = 0
"""The only type of key."""

VALUE_VERSION = 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class TransactionStatus(enum.IntEnum):
    """The int8 that a value says the state with."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@message(versions=range(1))
class TransactionLogKey(Message):
    """Names a transactional id."""

    transactional_id: str = wire(String)


@struct
class TransactionLogPartitions:
    """The partitions of one topic that are in the transaction."""

    topic: str = wire(String)
    partition_ids: list[int] = wire(ArrayOf(Int32))


@message(versions=range(2), flexible_from=1)
class TransactionLogValue(Message):
    """The state of a transactional id. Times are Unix milliseconds; -1 is "none" for ids, epochs and times.

    The previous producer id is the one before the last transition; the next one takes over when the epochs of the
    present one are used up (KIP-890). Partitions are null while the state is Empty.
    """

    max_items = 1 << 24  # the broker wrote it itself: what it could write it must read at start

    producer_id: int = wire(Int64)
    previous_producer_id: int = wire(Int64, since=1, tag=0, default=NO_PRODUCER_ID)
    next_producer_id: int = wire(Int64, since=1, tag=1, default=NO_PRODUCER_ID)
    producer_epoch: int = wire(Int16)
    next_producer_epoch: int = wire(Int16, since=1, tag=3, default=NO_PRODUCER_EPOCH)
    transaction_timeout_ms: int = wire(Int32)
    transaction_status: int = wire(Int8)
    transaction_partitions: list[TransactionLogPartitions] | None = wire(
        ArrayOf(TransactionLogPartitions), nullable_since=0
    )
    transaction_last_update_timestamp_ms: int = wire(Int64)
    transaction_start_timestamp_ms: int = wire(Int64)
    client_transaction_version: int = wire(Int16, since=1, tag=2)


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return b"\0\0" + TransactionLogKey.layout(0).encode(TransactionLogKey(transactional_id=transactional_id))


def decode_transaction_key(key: bytes) -> str | None:
    """The transactional id that a key names; None for another type of key, which readers skip.

    Raises:
        MalformedFrame: the key is shorter than its type, or does not fit it.
    """
    if record_type(key) != TRANSACTION_KEY:
        return None
    decoded: TransactionLogKey = TransactionLogKey.layout(0).decode(key, 2)
    return decoded.transactional_id


def encode_transaction_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    """Write a value, as version 1 unless told otherwise."""
    return version.to_bytes(2, "big") + TransactionLogValue.layout(version).encode(value)
