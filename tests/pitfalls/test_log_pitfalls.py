"""Pitfalls 37 to 47: Fetch, Produce and the log."""

from __future__ import annotations

import struct
import time

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    RECORD_COUNT_AT,
    TimestampType,
    check_crc,
    parse_header,
    with_codec,
)
from tests.pitfalls.conftest import Connect
from tests.protocol.produced import sealed
from tests.support.client import Client, TopicPartition, batch, fresh, of, values
from tests.support.requests import fetch_fields
from tests.support.waiting import seconds_of

READ_COMMITTED = 1
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def test_pitfall_37_the_first_batch_comes_however_large_it_is(client: Client) -> None:
    topic = client.topic(2)
    large, small = batch(b"x" * 200_000), batch(b"y")
    client.produce(topic, large)
    client.produce(topic, small)
    client.produce(topic, small, partition=1)
    told = client.fetch(topic, 0, max_bytes=1, partition_max_bytes=1)
    assert values(told.records)[0] == b"x" * 200_000
    fields = fetch_fields(topic, 0, 0, 1, max_bytes=10, partition_max_bytes=10)
    first, second = client.call(ApiKey.FETCH, 12, **fields).responses[0].partitions
    assert values(first.records)[0] == b"x" * 200_000
    assert values(second.records) == [], "one is enough"


def test_pitfall_38_an_offset_within_a_batch_gives_the_whole_batch(client: Client, topic: str) -> None:
    client.produce(topic, batch(b"0", b"1", b"2"))
    client.produce(topic, batch(b"3"))
    for offset in (1, 2):
        told = client.fetch(topic, offset)
        assert values(told.records) == [b"0", b"1", b"2", b"3"]
        assert parse_header(bytes(told.records)).base_offset == 0


def test_pitfall_39_a_fetch_waits_for_enough_bytes_or_until_its_time_is_up(connect: Connect) -> None:
    client, writer = connect(), connect()
    topic = client.topic(2)
    data = batch(b"x" * 100)

    client.start(ApiKey.FETCH, 12, **fetch_fields(topic, 0, 0, 1, max_wait_ms=5000, min_bytes=2 * len(data)))
    writer.produce(topic, data)
    assert client.is_silent(0.05), "half of it"
    writer.produce(topic, data, partition=1)
    first, second = client.answer().responses[0].partitions
    assert values(first.records) == values(second.records) == [b"x" * 100]

    waits = fetch_fields(topic, 1, max_wait_ms=250, min_bytes=1)
    assert 0.24 <= seconds_of(lambda: client.call(ApiKey.FETCH, 12, **waits)) < 2
    for at_once in (
        fetch_fields(topic, 1, max_wait_ms=0, min_bytes=1),
        fetch_fields(topic, 1, max_wait_ms=5000, min_bytes=0),
        fetch_fields(topic, 99, max_wait_ms=5000, min_bytes=1),
        fetch_fields("nobody-has-it", 0, max_wait_ms=5000, min_bytes=1),
        fetch_fields(topic, 0, max_wait_ms=5000, min_bytes=1),
    ):
        assert seconds_of(lambda fields=at_once: client.call(ApiKey.FETCH, 12, **fields)) < 2  # type: ignore[misc]


def test_pitfall_40_the_end_of_the_log_is_no_error_and_beyond_it_nothing_else_is_told(client: Client) -> None:
    topic = client.topic()
    client.produce(topic, batch(b"0", b"1", b"2"))
    client.delete_records(topic, 2)
    at_end = client.fetch(topic, 3)
    assert (at_end.error_code, at_end.high_watermark, at_end.log_start_offset) == (0, 3, 2)
    for offset in (4, 1, -1):
        told = client.fetch(topic, offset)
        assert told.error_code == OUT_OF_RANGE
        assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (-1, -1, -1)
        assert told.records == b""


def test_pitfall_41_offsets_of_a_fetch_are_filled_and_readers_of_committed_see_nothing_open(connect: Connect) -> None:
    client = connect()
    topic, name = client.topic(), fresh("txn")
    client.produce(topic, batch(b"plain"))
    told = client.fetch(topic)
    assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (1, 1, 0)
    producer = client.producer(name)
    assert client.add_partitions(name, producer, TopicPartition(topic, 0)) == [0]
    client.produce(topic, batch(b"open", **of(producer, transactional=True)), transactional_id=name)
    client.produce(topic, batch(b"behind"))
    told = client.fetch(topic)
    assert (told.high_watermark, told.last_stable_offset) == (3, 1)
    assert values(told.records) == [b"plain", b"open", b"behind"]
    told = client.fetch(topic, isolation_level=READ_COMMITTED)
    assert (values(told.records), told.aborted_transactions) == ([b"plain"], [])
    assert values(client.fetch(topic, 1, isolation_level=READ_COMMITTED).records) == []
    assert client.offset(topic, level=READ_COMMITTED).offset == 1
    assert client.end(name, producer, commit=False).error_code == 0
    told = client.fetch(topic, 1, isolation_level=READ_COMMITTED, max_wait_ms=5000, min_bytes=1)
    assert told.last_stable_offset == told.high_watermark == 4
    (aborted,) = told.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 1)


def test_pitfall_42_only_what_was_asked_for_is_told(client: Client) -> None:
    topic = client.topic(3)
    for partition in range(3):
        client.produce(topic, partition=partition)
    fields, other = fetch_fields(topic, 0, 1, 7), fetch_fields("nobody-has-it", 0, 1)
    answer = client.call(ApiKey.FETCH, 12, **fields | {"topics": fields["topics"] + other["topics"]})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    told = {(row.topic, p.partition_index): p.error_code for row in answer.responses for p in row.partitions}
    assert told == {(topic, 1): 0, (topic, 7): unknown, ("nobody-has-it", 1): unknown}


@pytest.mark.parametrize("rack", ["", "eu-west-1a", "nobody's rack"])
def test_pitfall_43_nobody_is_sent_to_another_replica(client: Client, topic: str, rack: str) -> None:
    client.produce(topic)
    told = client.fetch(topic, rack_id=rack)
    assert (told.preferred_read_replica, values(told.records)) == (-1, [b"v"])
    assert {node.rack for node in client.metadata().brokers} <= {None, ""}


def changed(data: bytes, at: int, form: str, value: int, *, seal: bool = True) -> bytes:
    """A batch with one field of its header changed, and by default a CRC that fits."""
    buffer = bytearray(data)
    struct.pack_into(form, buffer, at, value)
    return sealed(buffer) if seal else bytes(buffer)


def test_pitfall_44_a_batch_is_kept_as_it_came_and_checked_before(client: Client, topic: str) -> None:
    client.produce(topic)
    sent = batch(b"a", b"b")
    client.produce(topic, sent)
    kept = bytes(client.fetch(topic, 1).records)
    assert (parse_header(kept).base_offset, parse_header(kept).partition_leader_epoch) == (1, 0)
    assert kept[8:12] + kept[16:] == sent[8:12] + sent[16:], "all but the base offset and the leader epoch"
    assert LEADER_EPOCH_AT == 12

    stamped = client.topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    told = client.produce(stamped, batch(b"old", timestamp_ms=1000))
    kept = bytes(client.fetch(stamped).records)
    header = parse_header(kept)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert before - 1_000 <= header.max_timestamp == told.log_append_time_ms, "the machine's clock may be set meanwhile"
    check_crc(header, kept)

    refused = {
        "two batches": (sent + sent, ErrorCode.INVALID_RECORD),
        "magic 1": (changed(sent, MAGIC_AT, ">b", 1), ErrorCode.INVALID_RECORD),
        "CRC": (changed(sent, CRC_AT, ">I", 7, seal=False), ErrorCode.CORRUPT_MESSAGE),
        "count": (changed(sent, RECORD_COUNT_AT, ">i", 3), ErrorCode.INVALID_RECORD),
        "last delta": (changed(sent, LAST_OFFSET_DELTA_AT, ">i", 5), ErrorCode.INVALID_RECORD),
    }
    told = {name: client.produce(topic, data).error_code for name, (data, _) in refused.items()}
    assert told == {name: code for name, (_, code) in refused.items()}
    assert client.offset(topic).offset == 3


def test_pitfall_45_what_counts_against_the_limit_is_the_compressed_size(client: Client) -> None:
    topic = client.topic(max_message_bytes="2000")
    large = batch(b"x" * 5000)
    assert client.produce(topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce(topic, with_codec(large, Codec.GZIP)).error_code == 0
    fits = batch(b"y" * (2000 - len(batch(b""))))
    fits = batch(b"y" * (2000 - len(batch(b"")) - (len(fits) - 2000)))
    assert len(fits) == 2000
    assert client.produce(topic, fits).error_code == 0
    told = client.call(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": 2, "resource_name": client.topic(), "configuration_keys": ["max.message.bytes"]}],
    )
    assert told.results[0].configs[0].value == "1048588"


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_pitfall_46_every_codec_is_kept_to_the_byte_and_zstd_is_for_who_knows_it(client: Client, codec: Codec) -> None:
    """Kafka has sent zstd to old readers, too, since it stopped converting: there is nothing else to send."""
    topic = client.topic()
    sent = with_codec(batch(*[b"value"] * 20), codec)
    told = client.produce(topic, sent, 6).error_code
    if codec is not Codec.ZSTD:
        assert told == 0
    else:
        assert told == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert client.produce(topic, sent, 7).error_code == 0
    for version in range(4, 19):
        assert bytes(client.fetch(topic, 0, version).records)[16:] == sent[16:]


def test_pitfall_47_what_a_produce_is_told(client: Client, topic: str) -> None:
    client.produce(topic, batch(b"0", b"1"))
    for version in range(3, 14):
        told = client.produce(topic, None, version)
        assert (told.error_code, told.base_offset, told.log_append_time_ms) == (0, 2 + version - 3, -1)
        assert told.log_start_offset == (0 if version >= 5 else -1)
        assert told.record_errors == []
    compacted = client.topic(cleanup_policy="compact")
    for version in (7, 8, 9):
        told = client.produce(compacted, batch(b"a", b"b", key=None), version)
        assert told.error_code == ErrorCode.INVALID_RECORD
        assert [row.batch_index for row in told.record_errors] == ([0, 1] if version >= 8 else [])
        assert bool(told.error_message) is (version >= 8)
    assert client.offset(compacted).offset == 0
