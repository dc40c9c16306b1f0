"""What a guest may put where record batches are due."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.protocol.compression import Codec, compress
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    EndOfTransaction,
    Record,
    batch_crc,
    build_marker,
)
from tests.support.batches import build_batch

BOMB_BYTES = 1 << 20
"""What a bomb becomes when it is decompressed."""

_PLACES = [
    (BASE_OFFSET_AT, "q"), (BATCH_LENGTH_AT, "i"), (LEADER_EPOCH_AT, "i"), (MAGIC_AT, "b"), (CRC_AT, "I"),
    (ATTRIBUTES_AT, "h"), (LAST_OFFSET_DELTA_AT, "i"), (BASE_TIMESTAMP_AT, "q"), (MAX_TIMESTAMP_AT, "q"),
    (PRODUCER_ID_AT, "q"), (PRODUCER_EPOCH_AT, "h"), (BASE_SEQUENCE_AT, "i"), (RECORD_COUNT_AT, "i"),
]  # fmt: skip
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_KEYS = [None, b"k", b"k", b"", b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\2\0\1g", b"\0\0\0\1t", b"\x7f\xff", b"x" * 3000]
_VALUES = [b"v", b"v", None, b"", b"\0\3" + b"\0" * 20, b"\0\1" + b"\xff" * 30, b"\x7f\xff", b"y" * 3000]


def hostile_batches(rng: Random, pools: Mapping[str, list[Any]]) -> bytes | None:
    """The records field of a partition. Half of them are well formed."""
    kind = rng.random()
    if kind < 0.5:
        return honest_batch(rng, pools)
    if kind < 0.53:
        return rng.choice((None, b"", b"\0", rng.randbytes(rng.randrange(200)), bytes(HEADER_SIZE), _old_message_set()))
    data = bytearray(rng.choice(KINDS)(rng, pools))
    for _ in range(rng.choice((0, 1, 1, 2))):
        _spoil_header(rng, data)
    if rng.random() < 0.75:
        reseal(data)
    match rng.randrange(8):
        case 0:
            return bytes(data[: rng.randrange(len(data))])
        case 1:
            return bytes(data) + honest_batch(rng, pools)
        case 2:
            return bytes(data) + rng.randbytes(rng.randrange(80))
        case _:
            return bytes(data)


def honest_batch(rng: Random, pools: Mapping[str, list[Any]]) -> bytes:
    """A batch of any codec, maybe of a producer that is known."""
    at = rng.choice((int(time.time() * 1000),) * 4 + (-1, 0, 2**62))
    headers = rng.choice(([], [], [("h", b"1")], [("h", None)] * 50))
    count = rng.choice((1, 1, 2, 3, 40))
    records = [Record(0, at + delta, rng.choice(_KEYS), rng.choice(_VALUES), headers) for delta in range(count)]
    options: dict[str, Any] = {"codec": rng.choice(list(Codec))}
    if pools.get("producer_id") and rng.random() < 0.5:
        options["producer_id"] = rng.choice(pools["producer_id"])
        options["producer_epoch"] = rng.choice(pools.get("producer_epoch", [0]))
        options["base_sequence"] = rng.choice((0, 0, 0, 1, 2**31 - 1))
        options["is_transactional"] = rng.random() < 0.5
    return bytes(build_batch(records, **options))


def reseal(batch: bytearray) -> None:
    """Give a batch the length and the CRC that fit it."""
    struct.pack_into(">i", batch, BATCH_LENGTH_AT, len(batch) - LOG_OVERHEAD)
    struct.pack_into(">I", batch, CRC_AT, batch_crc(batch))


def _spoil_header(rng: Random, batch: bytearray) -> None:
    at, code = rng.choice(_PLACES)
    bits = _BITS.get(code, 32)
    value = rng.choice((0, 1, -1, 2, 0x40, 1 << bits - 1, (1 << bits - 1) - 1, rng.getrandbits(bits))) & (1 << bits) - 1
    batch[at : at + bits // 8] = value.to_bytes(bits // 8, "big")


def bomb(rng: Random, pools: Mapping[str, list[Any]]) -> bytes:
    """Few bytes that become many, or many records."""
    codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    one = b"\x0c\0\0\0\1\1\0"  # a record without key and value
    plain = rng.choice((bytes(BOMB_BYTES), one * (BOMB_BYTES // len(one))))
    return around(codec, bytes(compress(codec, plain)), rng.choice((1, 1000, BOMB_BYTES // len(one))))


def _garbled(rng: Random, pools: Mapping[str, list[Any]]) -> bytes:
    """Records that are none, in a header that fits."""
    whole = honest_batch(rng, pools)
    records = bytearray(whole[HEADER_SIZE:])
    for _ in range(rng.choice((1, 1, 3, 20))):
        records[rng.randrange(len(records))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    codec = Codec(whole[ATTRIBUTES_AT + 1] & 7)
    return around(codec, bytes(records), struct.unpack_from(">i", whole, RECORD_COUNT_AT)[0])


def _marker(rng: Random, pools: Mapping[str, list[Any]]) -> bytes:
    """A control batch, which no client may write."""
    end = EndOfTransaction(rng.random() < 0.5, 0)
    producer_id = rng.choice(pools.get("producer_id", [1]))
    return build_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=int(time.time() * 1000))


def around(codec: int, records: bytes, count: int, base_ms: int | None = None, max_ms: int | None = None) -> bytes:
    """A sealed batch around bytes that are to be so many records, written now unless told otherwise."""
    base_ms = int(time.time() * 1000) if base_ms is None else base_ms
    max_ms = base_ms if max_ms is None else max_ms
    head = struct.pack(">qiibIhiqqqhii", 0, 0, -1, 2, 0, codec, count - 1, base_ms, max_ms, -1, -1, -1, count)
    batch = bytearray(head + records)
    reseal(batch)
    return bytes(batch)


def _old_message_set() -> bytes:
    """A message of magic 1, as clients wrote before 0.11."""
    message = struct.pack(">bbqi", 1, 0, 0, -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", 0, len(message) + 4, 0) + message


KINDS = [honest_batch, honest_batch, bomb, _garbled, _marker]
