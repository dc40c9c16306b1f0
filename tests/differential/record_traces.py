"""Produce: good and bad batches, sequences, and producer ids."""

from __future__ import annotations

import struct

from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record
from tests.differential.log_calls import WHO, batch, made, offsets, patched, produce, read
from tests.differential.tracing import Trace
from tests.support.batches import build_batch

PRODUCER = {"producer_id": 4_000_000, "producer_epoch": 0}


def trace_produce_versions(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(3, 10):
        for acks in (1, -1):
            produce(t, name, batch(2), version=version, acks=acks)
        produce(t, name, batch(1), batch(1), version=version)
        produce(t, name, batch(1), version=version, partition=2)
        produce(t, name, batch(1), version=version, partition=-1)
        produce(t, f"{t.name}-absent", batch(1), version=version)
        produce(t, name, batch(1), version=version, acks=2)
        produce(t, name, batch(1), version=version, acks=-2)
        produce(t, "__consumer_offsets", batch(1), version=version)
        produce(t, "a b", batch(1), version=version)
        produce(t, "", batch(1), version=version)
    read(t, name, 0)
    t.call(WHO, ApiKey.PRODUCE, 9, acks=-1, timeout_ms=100, topic_data=[])


def trace_produce_without_answer(t: Trace) -> None:
    name = made(t)
    for version in (3, 7, 9):
        produce(t, name, batch(1), version=version, acks=0, timeout_s=0.3)
        t.wires.clear()
        produce(t, f"{t.name}-absent", batch(1), version=version, acks=0, timeout_s=0.5)
        t.wires.clear()
    t.settle(100)
    offsets(t, name, -1)


def trace_produce_bad_batches(t: Trace) -> None:
    name = made(t)
    good = batch(3)
    for version in (3, 5, 7, 8, 9):
        bad = {  # and see docs/differences.md for what is refused here only
            "empty": b"",
            "two": good + good,
            "crc": patched(good, len(good) - 2, b"\x77", seal=False),
            "magic 0": patched(good, 16, b"\0"),
            "magic 1": patched(good, 16, b"\1"),
            "length small": patched(good, 8, struct.pack(">i", 20)),
            "length negative": patched(good, 8, struct.pack(">i", -1)),
            "count 2": patched(good, 57, struct.pack(">i", 2)),
            "count 4": patched(good, 57, struct.pack(">i", 4)),
            "count 0": patched(good, 57, struct.pack(">i", 0)),
            "delta 1": patched(good, 23, struct.pack(">i", 1)),
            "delta 3": patched(good, 23, struct.pack(">i", 3)),
            "both 4": patched(patched(good, 57, struct.pack(">i", 4)), 23, struct.pack(">i", 3)),
            "base offset": patched(good, 0, struct.pack(">q", 7)),
            "leader epoch": patched(good, 12, struct.pack(">i", 7)),
            "control": patched(good, 21, b"\0\x20"),
            "unused attributes": patched(good, 21, b"\x40\x00"),
            "first record long": patched(good, 61, b"\x7e"),
            "first record short": patched(good, 61, b"\x02"),
            "first record negative": patched(good, 61, b"\x01"),
            "max timestamp": patched(good, 35, struct.pack(">q", 5)),
            "base timestamp -1": patched(good, 27, struct.pack(">q", -1)),
            "producer without epoch": patched(good, 43, struct.pack(">qhi", 5, -1, -1)),
            "producer without sequence": patched(good, 43, struct.pack(">qhi", 5, 0, -1)),
            "sequence without producer": patched(good, 43, struct.pack(">qhi", -1, -1, 5)),
            "negative producer": patched(good, 43, struct.pack(">qhi", -7, 0, 5)),
            "large": batch(1, value=b"x" * 1_048_600),
        }
        for what, data in bad.items():
            t.note(what, None)
            produce(t, name, data, version=version)
    read(t, name, 0)
    offsets(t, name, -1)


def trace_produce_future(t: Trace) -> None:
    name = made(t)
    for version in (3, 8, 9):
        produce(t, name, batch(2, start=200_000_000_000), version=version)
    aged = made(t, "aged", message_timestamp_before_max_ms="1000")
    produce(t, aged, batch(2))


def trace_produce_times(t: Trace) -> None:
    """As far away as 64 bits can say. Kafka's sums overflow where a setting is their largest: those stay out of it."""
    least, most = -(2**63), 2**63 - 1
    name, stamped = made(t), made(t, "stamped", message_timestamp_type="LogAppendTime")
    for base in (least, least + 1, -2, -1, 0, most - 1, most):
        for delta in (least, -2, -1, 0, 1, 2, most):
            if not least <= base + delta <= most and delta in (least, most):
                continue  # the sum overflows to a time that Kafka takes
            records = [Record(number, at, b"k", b"v", []) for number, at in enumerate((0, delta))]
            data = patched(build_batch(records), 27, struct.pack(">q", base))
            t.note(f"{base} {delta:+d}", None)
            produce(t, name, data)
            if least <= base + delta <= most:
                produce(t, stamped, data)
    read(t, name, 0)
    offsets(t, name, -1)
    offsets(t, name, -3, version=7)


def trace_produce_codecs(t: Trace) -> None:
    name = made(t)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        for version in (3, 6, 7, 9):
            produce(t, name, batch(3, codec=codec), version=version)
            good = batch(3, codec=codec)
            produce(t, name, patched(good, 57, struct.pack(">i", 4)), version=version)
    for version in (4, 9, 10, 11):
        read(t, name, 0, version=version)


def trace_zstd_for_old_readers(t: Trace) -> None:
    name = made(t, compression_type="producer")
    produce(t, name, batch(3, codec=Codec.GZIP))
    produce(t, name, batch(3, codec=Codec.ZSTD))
    for version in (4, 9, 10):
        read(t, name, 0, version=version, partition_max_bytes=100)
        read(t, name, 3, version=version, partition_max_bytes=100)


def trace_produce_to_compacted(t: Trace) -> None:
    name = made(t, cleanup_policy="compact")
    for version in (3, 7, 8, 9):
        produce(t, name, batch(1), version=version)
        produce(t, name, batch(3, key=None), version=version)
        produce(t, name, batch(1, value=None), version=version)


def trace_produce_settings(t: Trace) -> None:
    small = made(t, "small", max_message_bytes="200")
    produce(t, small, batch(1, value=b"x" * 120))
    produce(t, small, batch(1, value=b"x" * 140))
    produce(t, small, batch(1, value=b"x" * 500, codec=Codec.GZIP))


def trace_sequences(t: Trace) -> None:
    name = made(t)
    for sequence in (0, 0, 3, 0, 6, 12, 3, 0, 9, 12, 15, 18, 3, 2):
        produce(t, name, batch(3, base_sequence=sequence, **PRODUCER))
    produce(t, name, batch(2, base_sequence=18, **PRODUCER))
    produce(t, name, batch(3, base_sequence=21, producer_id=4_000_000, producer_epoch=1))
    produce(t, name, batch(3, base_sequence=0, producer_id=4_000_000, producer_epoch=1))
    produce(t, name, batch(3, base_sequence=21, **PRODUCER))
    produce(t, name, batch(3, base_sequence=3, producer_id=4_000_000, producer_epoch=1))
    produce(t, name, batch(3, base_sequence=0, producer_id=4_000_000, producer_epoch=3))
    produce(t, name, batch(3, base_sequence=77, producer_id=4_000_001, producer_epoch=0))
    produce(t, name, batch(3, base_sequence=77, producer_id=4_000_002, producer_epoch=5))
    produce(t, name, batch(3, base_sequence=2**31 - 2, producer_id=4_000_003, producer_epoch=0))
    produce(t, name, batch(3, base_sequence=1, producer_id=4_000_003, producer_epoch=0))
    produce(t, name, batch(3, base_sequence=2**31 - 1, producer_id=4_000_004, producer_epoch=0))
    produce(t, name, batch(3, base_sequence=2, producer_id=4_000_004, producer_epoch=0))
    for version in (3, 5, 8, 9):
        produce(t, name, batch(3, base_sequence=99, **PRODUCER), version=version)
        produce(t, name, batch(3, base_sequence=50, producer_id=4_000_000, producer_epoch=3), version=version)
    read(t, name, 0)


def trace_init_producer_id(t: Trace) -> None:
    for version in range(5):
        t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=1000)
        t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=-1)
        t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=2**31 - 1)
        t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id="", transaction_timeout_ms=1000)
        if version >= 3:
            for producer, epoch in ((5, -1), (-1, 5), (4_000_000, 0), (4_000_000, 32_767), (-7, -7)):
                t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=1000,
                       producer_id=producer, producer_epoch=epoch)  # fmt: skip
