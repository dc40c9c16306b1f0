"""Produce: what is accepted, what is refused and how, and when it is answered."""

from uuid import UUID

import pytest

from ottla.broker.engine import StorageFull, Unavailable
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import TimestampType, batch_crc, decode_batch, parse_header
from ottla.protocol.steps import finished
from tests.handlers.conftest import NOW_MS, batch

HOUR_MS = 3_600_000


async def test_answered_only_when_durable(world, topic, make_batch):
    exchange = world.produce(make_batch(b"a", b"b"))
    assert not exchange.finished
    world.run()
    row = exchange.row
    assert (row.error_code, row.base_offset, row.log_append_time_ms, row.log_start_offset) == (0, 0, -1, 0)
    assert world.produced(make_batch(b"c")).base_offset == 2


async def test_the_next_produce_waits_for_a_batch_that_takes_long_but_not_for_the_disk(world, make_batch):
    await world.topic(cleanup_policy="compact")
    line = []
    world.services.validate = lambda steps, ctx, failed: line.append(steps)
    exchange = world.produce(make_batch(bytes(100_000), key=b"k"))
    assert not exchange.finished and not exchange.ctx.overlaps
    finished(line.pop())
    assert not exchange.finished and exchange.ctx.overlaps
    world.run()
    assert exchange.row.base_offset == 0


async def test_a_batch_may_become_larger_than_a_request_may_be(new_world, make_batch):
    """By default requests may be six times as large as what a batch may become."""
    world = await new_world(socket_request_max_bytes=1 << 20).start()
    await world.topic(cleanup_policy="compact")
    assert world.produced(make_batch(bytes(3 << 20), key=b"k", codec=Codec.ZSTD)).error_code == 0


async def test_one_answer_when_all_partitions_are_done(world, wide_topic, make_batch):
    data = [(0, make_batch(b"a")), (9, make_batch(b"b")), (1, b""), (1, make_batch(b"c"))]
    exchange = world.produce_all(("t", data), ("no-such", [(0, make_batch(b"d"))]))
    assert not exchange.finished
    world.run()
    rows = [row for topic in exchange.response.responses for row in topic.partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [row.index for row in rows] == [0, 9, 1, 1, 0]
    assert [row.error_code for row in rows] == [0, unknown, ErrorCode.INVALID_RECORD, 0, unknown]


async def test_topics_by_id(world, topic, make_batch):
    t = world.id_of("t")
    wanted = [(t, 0, b"a"), (t, 9, b"b"), (UUID(int=1 << 100), 0, b"c"), (ZERO_UUID, 0, b"d")]
    exchange = world.produced_all(
        *((topic_id, [(index, make_batch(value))]) for topic_id, index, value in wanted), version=13
    )
    unknown, nobody = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
    rows = [(topic.topic_id, row.index, row.error_code) for topic in exchange.response.responses
            for row in topic.partition_responses]  # fmt: skip
    assert rows == [(t, 0, 0), (t, 9, unknown), (UUID(int=1 << 100), 0, nobody), (ZERO_UUID, 0, nobody)]


async def test_a_topic_made_anew_is_another_one(world, topic, make_batch):
    old = world.id_of("t")
    await world.delete("t")
    await world.topic()
    assert world.id_of("t") != old
    exchange = world.produced_all((old, [(0, make_batch(b"x"))]), version=13)
    assert exchange.row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.produced(make_batch(b"x"), version=13).error_code == 0


async def test_a_refusal_names_topics_by_id_too(world, topic, make_batch):
    answer = world.produce(make_batch(b"x"), version=13, acks=9).response
    assert answer.responses[0].topic_id == world.id_of("t")


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(world, topic, make_batch, acks):
    row = world.produce(make_batch(b"a"), acks=acks).row
    assert (row.error_code, row.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert world.topics.topics["t"].partitions[0].log.log_end_offset == 0


async def test_what_there_is_not_is_said_before_the_acks_are_looked_at(world, topic, make_batch):
    found = [
        world.produce(data, topic=topic, partition=partition, acks=2).row
        for topic, partition, data in (("other", 0, make_batch(b"a")), ("t", 9, make_batch(b"a")), ("t", 0, b""))
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [row.error_code for row in found] == [unknown, unknown, ErrorCode.INVALID_RECORD]


async def test_acks_0_is_never_answered(world, topic, make_batch):
    exchange = world.produce(make_batch(b"a"), acks=0)
    assert not exchange.finished  # the connection is held until the batch is durable: no flood can pile up
    world.run()
    assert exchange.finished and exchange.response is None and exchange.aborted is None
    assert world.fetched().high_watermark == 1


@pytest.mark.parametrize("where", ["at once", "by the storage"])
async def test_a_failure_with_acks_0_closes_the_connection(world, topic, make_batch, where):
    if where == "by the storage":
        world.engine.fault = lambda tp, offset: StorageFull("no room")
        exchange = world.produce(make_batch(b"a"), acks=0)
    else:
        exchange = world.produce(make_batch(b"a"), acks=0, partition=5)
    world.run()
    assert not exchange.finished
    assert "acks=0" in exchange.aborted and "t-" in exchange.aborted


async def test_a_failing_storage_is_a_retriable_error(world, topic, make_batch):
    world.engine.fault = lambda tp, offset: StorageFull("no room")
    row = world.produced(make_batch(b"a"))
    assert (row.error_code, row.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    world.engine.fault = lambda tp, offset: None
    assert world.produced(make_batch(b"a")).base_offset == 0


IDEMPOTENT = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize(
    ("sent", "options", "error"),
    [
        (batch(b"a"), {"topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (batch(b"x", codec=Codec.ZSTD), {"version": 6}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(b"x", codec=Codec.ZSTD), {"version": 7}, ErrorCode.NONE),
        (batch(b"v", **IDEMPOTENT, is_transactional=True), {}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (batch(b"v", **IDEMPOTENT, is_control=True), {}, ErrorCode.INVALID_RECORD),
    ],
    ids=["an internal topic", "zstd too early", "zstd", "a transaction without an id", "a control batch"],
)
async def test_what_is_accepted(world, topic, sent, options, error):
    assert world.produced(sent, **options).error_code == error


@pytest.mark.parametrize("codec", list(Codec))
async def test_batches_are_stored_byte_exact_but_for_offset_and_epoch(world, topic, make_batch, codec):
    world.produced(make_batch(b"first"))
    sent = make_batch(b"x" * 500, b"y" * 500, codec=codec)
    assert world.produced(sent).base_offset == 1
    stored = world.fetched(1).records
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]
    assert parse_header(stored).base_offset == 1
    assert [record.value for record in decode_batch(stored)] == [b"x" * 500, b"y" * 500]


def corrupt(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def old_magic(data):
    return data[:16] + b"\x01" + data[17:]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (corrupt, ErrorCode.CORRUPT_MESSAGE),
        (old_magic, ErrorCode.INVALID_RECORD),
        (lambda batch: batch + batch, ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:-1], ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:40], ErrorCode.INVALID_RECORD),
        (lambda batch: b"", ErrorCode.INVALID_RECORD),
        (lambda batch: None, ErrorCode.INVALID_RECORD),
    ],
)
@pytest.mark.parametrize("count", [2, 300])
async def test_broken_batches_are_refused(world, topic, make_batch, spoil, error, count):
    row = world.produced(spoil(make_batch(*[b"v"] * count)))
    assert row.error_code == error
    assert bool(row.error_message) == (error != ErrorCode.CORRUPT_MESSAGE)
    assert world.fetched().high_watermark == 0


async def test_too_large_batches_are_refused_by_their_size_on_the_wire(world, make_batch):
    await world.topic(max_message_bytes=1000)
    assert world.produced(make_batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert world.produced(make_batch(b"x" * 100_000, codec=Codec.GZIP)).error_code == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("count", [3, 300])
async def test_compacted_topics_take_no_record_without_a_key(world, make_batch, codec, count):
    await world.topic(cleanup_policy="compact")
    row = world.produced(make_batch(*[b"v"] * count, key=None, codec=codec))
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == list(range(count))
    assert all(error.batch_index_error_message for error in row.record_errors)
    assert world.produced(make_batch(*[b"v"] * count, codec=codec)).error_code == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("count", [3, 300])
async def test_timestamps_too_far_ahead_are_refused(world, topic, make_batch, codec, count):
    late = NOW_MS + HOUR_MS - 1
    row = world.produced(make_batch(*[b"v"] * count, timestamp_ms=late, codec=codec))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == list(range(2, count))
    assert world.produced(make_batch(b"v", timestamp_ms=late)).error_code == 0


@pytest.mark.parametrize("count", [3, 300])
async def test_timestamps_too_old_are_refused_where_the_topic_says_so(world, make_batch, count):
    await world.topic(message_timestamp_before_max_ms=1000)
    row = world.produced(make_batch(*[b"v"] * count, timestamp_ms=NOW_MS - 1001))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == [0]
    await world.topic("free")
    assert world.produced(make_batch(b"v", timestamp_ms=0), topic="free").error_code == 0


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
async def test_log_append_time(world, make_batch, count, codec):
    await world.topic(message_timestamp_type="LogAppendTime")
    row = world.produced(make_batch(*[b"v"] * count, timestamp_ms=5, codec=codec))
    assert (row.error_code, row.log_append_time_ms) == (0, NOW_MS)
    stored = decode_batch(world.fetched().records)  # checks the new CRC
    assert {record.timestamp_ms for record in stored} == {NOW_MS}


@pytest.mark.parametrize("count", [1, 300])
async def test_a_producer_claims_log_append_time_in_vain(world, topic, make_batch, count):
    claimed = make_batch(*[b"v"] * count, timestamp_ms=5, timestamp_type=TimestampType.LOG_APPEND_TIME)
    row = world.produced(claimed)
    assert (row.error_code, row.log_append_time_ms) == (0, -1)
    stored = world.fetched().records
    assert parse_header(stored).timestamp_type is TimestampType.CREATE_TIME
    assert decode_batch(stored)[0].timestamp_ms == 5  # and the CRC fits


async def test_a_batch_that_cannot_be_told_from_its_neighbours_stands_in_the_way_of_all(world, wide_topic, make_batch):
    bad = make_batch(b"a")[:8] + b"\xff\xff\xff\xff" + make_batch(b"a")[12:]
    topics = [("t", [(0, make_batch(b"a")), (1, bad)]), ("no-such", [(0, make_batch(b"d"))])]
    exchange = world.produced_all(*topics)
    rows = [row for topic in exchange.response.responses for row in topic.partition_responses]
    assert [row.error_code for row in rows] == [ErrorCode.CORRUPT_MESSAGE] * 3
    exchange = world.produced_all(*topics, acks=0)
    assert "acks=0" in exchange.aborted
    assert world.fetched().high_watermark == 0


async def test_a_transactional_batch_without_an_id_stands_in_the_way_of_all(world, wide_topic, make_batch):
    transactional = make_batch(b"a", **IDEMPOTENT, is_transactional=True)
    exchange = world.produced_all(("t", [(0, make_batch(b"a")), (1, transactional)]))
    rows = exchange.rows
    assert [row.error_code for row in rows] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


async def test_a_transactional_batch_without_a_producer_is_written_as_if_it_were_plain(world, topic, make_batch):
    exchange = world.produced_all(("t", [(0, make_batch(b"a", is_transactional=True))]), transactional_id="x")
    row = exchange.row
    assert (row.error_code, row.base_offset) == (0, 0)
    assert world.fetched().last_stable_offset == 1


@pytest.mark.parametrize(
    ("spoil", "error", "start"),
    [
        (lambda batch: b"\0" * 7 + b"\1" + batch[8:], ErrorCode.INVALID_RECORD, 0),
        (corrupt, ErrorCode.CORRUPT_MESSAGE, -1),
        (lambda batch: batch + batch, ErrorCode.INVALID_RECORD, -1),
        (old_magic, ErrorCode.INVALID_RECORD, -1),
    ],
)
async def test_the_start_of_the_log_is_told_where_the_log_was_looked_at(world, topic, make_batch, spoil, error, start):
    row = world.produced(spoil(make_batch(b"v")))
    assert (row.error_code, row.log_start_offset) == (error, start)


# -- idempotence


def sequenced(make_batch, sequence, count=1, epoch=0, pid=9):
    return make_batch(*[b"s%d" % sequence] * count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


async def test_a_resent_batch_gets_the_original_offset(world, topic, make_batch):
    offsets = [world.produced(sequenced(make_batch, 2 * n, 2)).base_offset for n in range(7)]
    assert offsets == [0, 2, 4, 6, 8, 10, 12]
    again = [world.produced(sequenced(make_batch, 2 * n, 2)) for n in range(2, 7)]
    assert [(row.error_code, row.base_offset) for row in again] == [(0, 4), (0, 6), (0, 8), (0, 10), (0, 12)]
    # The sixth last is not remembered: to the broker it is out of order.
    assert world.produced(sequenced(make_batch, 2, 2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.fetched().high_watermark == 14


async def test_a_resend_of_a_batch_on_its_way_waits_for_it(world, topic, make_batch):
    first = world.produce(sequenced(make_batch, 0))
    second = world.produce(sequenced(make_batch, 0))
    assert not first.finished and not second.finished
    world.run()
    answers = [exchange.row for exchange in (first, second)]
    assert [(row.error_code, row.base_offset) for row in answers] == [(0, 0), (0, 0)]
    assert world.fetched().high_watermark == 1


async def test_a_batch_that_failed_may_be_sent_again(world, topic, make_batch):
    world.engine.fault = lambda tp, offset: StorageFull("no room") if offset == 1 else None
    assert world.produced(sequenced(make_batch, 0)).error_code == 0
    failed = [world.produce(sequenced(make_batch, 1)) for _ in range(2)]
    behind = world.produce(sequenced(make_batch, 2))
    world.run()
    assert {exchange.row.error_code for exchange in (*failed, behind)} == {ErrorCode.KAFKA_STORAGE_ERROR}
    world.engine.fault = lambda tp, offset: None
    assert world.produced(sequenced(make_batch, 2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [world.produced(sequenced(make_batch, n)).base_offset for n in (1, 2)] == [1, 2]


async def test_gaps_and_old_epochs_are_refused(world, topic, make_batch):
    world.produced(sequenced(make_batch, 0, epoch=3))
    assert world.produced(sequenced(make_batch, 2, epoch=3)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produced(sequenced(make_batch, 1, epoch=2)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.produced(sequenced(make_batch, 1, epoch=4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produced(sequenced(make_batch, 0, epoch=4)).base_offset == 1


async def test_producers_are_known_again_after_a_restart(world, wide_topic, make_batch):
    for n in range(3):
        world.produced(sequenced(make_batch, n))
    world.produced(make_batch(b"plain"))
    await world.restart()
    assert world.produced(sequenced(make_batch, 1)).base_offset == 1
    assert world.produced(sequenced(make_batch, 5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produced(sequenced(make_batch, 3)).base_offset == 4
    # The other partition never saw this producer: it may begin anywhere there.
    assert world.produced(sequenced(make_batch, 3), partition=1).base_offset == 0


async def test_producers_idle_for_a_day_are_not_rebuilt(world, topic, make_batch):
    world.produced(sequenced(make_batch, 0))
    world.advance(25 * HOUR_MS)
    await world.restart()
    assert world.produced(sequenced(make_batch, 7)).error_code == 0


async def test_answering_versions(world, topic, make_batch):
    for version in range(3, 10):
        assert world.produced(make_batch(b"v"), version=version).error_code == 0
    # Before version 8 the reason cannot be told.
    assert world.produced(b"", version=7).error_message is None


async def test_what_producers_log_at_each_retry_has_no_words(world, make_batch):
    await world.topic(max_message_bytes=1000)
    world.produced(sequenced(make_batch, 0))
    early, large = world.produced(sequenced(make_batch, 5)), world.produced(make_batch(b"x" * 2000))
    assert (early.error_code, early.error_message) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)
    assert (large.error_code, large.error_message) == (ErrorCode.MESSAGE_TOO_LARGE, None)


@pytest.mark.parametrize(
    ("version", "error"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)]
)
async def test_a_topic_that_is_deleted_under_a_batch_is_unknown(world, topic, make_batch, version, error):
    exchange = world.produce(make_batch(b"v"), version=version)
    world.engine.fault = lambda tp, offset: Unavailable("the log is deleted")
    await world.delete("t")
    world.run()
    assert exchange.row.error_code == error


async def test_a_batch_behind_one_that_cannot_be_decompressed_is_looked_at_too(world, wide_topic, make_batch):
    rows = []
    for index in range(2):
        data = bytearray(make_batch(b"v" * 100, codec=Codec.ZSTD))
        data[61:65] = b"\0\0\0\0"
        data[17:21] = batch_crc(data).to_bytes(4, "big")
        rows.append((index, bytes(data)))
    exchange = world.produced_all(("t", rows))
    assert [row.error_code for row in exchange.rows] == [ErrorCode.INVALID_RECORD] * 2
