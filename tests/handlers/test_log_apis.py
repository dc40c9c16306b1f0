"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch and InitProducerId."""

import asyncio

import pytest

from ottla.broker.core.topics.catalog import PRODUCER_ID_BLOCK
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.handlers.conftest import NOW_MS

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, TIERED, PENDING_UPLOAD = range(-1, -7, -1)


async def list_offset(world, timestamp, *, partition=0, **options):
    (row,) = await world.offsets(timestamp, partition, **options)
    return row


async def test_ends_of_a_log(world, topic, make_batch):
    for n in range(4):
        world.produced(make_batch(b"x", timestamp_ms=NOW_MS + n))
    await world.topics.topics["t"].partitions[0].log.trim(1)
    world.produce(make_batch(b"not durable"))
    for version in range(1, 12):
        latest = await list_offset(world, LATEST, version=version)
        assert (latest.error_code, latest.offset, latest.timestamp) == (0, 4, -1)
        earliest = await list_offset(world, EARLIEST, version=version)
        assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 1, -1)
        epoch = 0 if version >= 4 else -1
        assert (latest.leader_epoch, earliest.leader_epoch) == (epoch, epoch)


async def test_by_time(world, topic, make_batch):
    world.produced(make_batch(b"a", b"b", timestamp_ms=1000))  # 1000, 1001
    world.produced(make_batch(b"c", b"d", timestamp_ms=2000))
    for timestamp, expected in [(0, (0, 1000)), (1001, (1, 1001)), (1002, (2, 2000)), (2001, (3, 2001))]:
        row = await list_offset(world, timestamp)
        assert (row.error_code, row.offset, row.timestamp, row.leader_epoch) == (0, *expected, 0)
    row = await list_offset(world, 2002)
    assert (row.error_code, row.offset, row.timestamp, row.leader_epoch) == (0, -1, -1, -1)


async def test_the_largest_timestamp(world, topic, make_batch):
    assert (await list_offset(world, MAX_TIMESTAMP)).offset == -1
    for timestamp in (1000, 3000, 2000):
        world.produced(make_batch(b"x", timestamp_ms=timestamp))
    row = await list_offset(world, MAX_TIMESTAMP)
    assert (row.error_code, row.offset, row.timestamp) == (0, 1, 3000)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, None), (-100, None)])
async def test_special_times_have_a_version_of_their_own(world, topic, timestamp, since):
    for version in range(1, 12):
        known = since is not None and version >= since
        row = await list_offset(world, timestamp, version=version)
        assert row.error_code == (0 if known else ErrorCode.UNSUPPORTED_VERSION)
        if not known:  # which is said before anything is looked up
            row = await list_offset(world, timestamp, version=version, partition=9)
            assert row.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_everything_is_local(world, topic, make_batch):
    for _ in range(3):
        world.produced(make_batch(b"x"))
    await world.topics.topics["t"].partitions[0].log.trim(1)
    found = {time: await list_offset(world, time, version=11) for time in (EARLIEST_LOCAL, TIERED, PENDING_UPLOAD)}
    rows = {time: (row.error_code, row.offset, row.timestamp, row.leader_epoch) for time, row in found.items()}
    nothing = (0, -1, -1, -1)
    assert rows == {EARLIEST_LOCAL: (0, 1, -1, 0), TIERED: nothing, PENDING_UPLOAD: nothing}


async def test_the_epoch_is_that_of_the_record(world, topic, make_batch):
    for _ in range(3):  # an offset for each of the epochs 0, 1 and 2
        world.produced(make_batch(b"x", timestamp_ms=1000 + world.engine.leader_epoch))
        await world.restart()
    assert (await list_offset(world, EARLIEST)).leader_epoch == 0
    assert (await list_offset(world, LATEST)).leader_epoch == 3
    for epoch in range(3):
        row = await list_offset(world, 1000 + epoch)
        assert (row.offset, row.leader_epoch) == (epoch, epoch)


async def test_a_topic_without_partitions_is_not_answered(world, topic):
    topics = [{"name": "t", "partitions": []}]
    assert (await world.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)).topics == []


async def test_list_offsets_errors(world, topic):
    assert (await list_offset(world, LATEST, topic="no-such")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await list_offset(world, LATEST, partition=1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fenced = await list_offset(world, LATEST, leader_epoch=7)
    assert (fenced.error_code, fenced.offset, fenced.timestamp) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


async def test_a_partition_named_twice(world, wide_topic):
    errors = [row.error_code for row in await world.offsets(LATEST, 0, 1, 0)]
    assert errors == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


# -- DeleteRecords


@pytest.mark.parametrize("version", range(3))
async def test_delete_records(world, topic, make_batch, version):
    for _ in range(5):
        world.produced(make_batch(b"x"))
    for offset, low in ((2, 2), (1, 2), (-1, 5)):
        row = await world.trim(offset, version=version)
        assert (row.error_code, row.low_watermark) == (0, low)
        assert (await list_offset(world, EARLIEST)).offset == low
        assert world.fetched(low).log_start_offset == low


async def test_delete_records_errors(world, topic, make_batch):
    await world.topic("compacted", cleanup_policy="compact")
    world.produced(make_batch(b"x"))
    for options, error in [
        ({"offset": 2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": -2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 0, "partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": 0, "topic": "no-such"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": 0, "topic": "compacted"}, ErrorCode.POLICY_VIOLATION),
        ({"offset": 0, "topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]:
        row = await world.trim(**options)
        assert (row.error_code, row.low_watermark) == (error, -1)


# -- OffsetForLeaderEpoch


async def epoch_end(world, epoch, *, topic="t", partition=0, current=-1, version=4):
    rows = [{"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]
    topics = [{"topic": topic, "partitions": rows}]
    row = (await world.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics)).topics[0].partitions[0]
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.mark.parametrize("version", range(2, 5))
async def test_where_epochs_end(world, topic, make_batch, version):
    for _ in range(2):
        world.produced(make_batch(b"x"))
    await world.restart()
    await world.restart()  # nothing was written in epoch 1
    world.produced(make_batch(b"y"))
    assert await epoch_end(world, 0, version=version) == (0, 0, 2)
    assert await epoch_end(world, 1, version=version) == (0, 0, 2)
    assert await epoch_end(world, 2, version=version, current=2) == (0, 2, 3)
    assert await epoch_end(world, 3, version=version) == (0, -1, -1)


async def test_offset_for_leader_epoch_errors(world, topic):
    await world.restart()
    assert (await epoch_end(world, 0, topic="no-such"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await epoch_end(world, 0, current=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await epoch_end(world, 0, current=2) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


# -- InitProducerId


async def init(world, version=4, **options):
    response = await world.call(ApiKey.INIT_PRODUCER_ID, version, **{"transactional_id": None} | options)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(5))
async def test_ids_are_new(world, version):
    assert [await init(world, version) for _ in range(3)] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


async def test_an_id_is_never_given_twice(world):
    given = [await init(world) for _ in range(PRODUCER_ID_BLOCK + 1)]
    await world.restart()
    given += [await init(world) for _ in range(3)]
    assert all(error == 0 for error, _, _ in given)
    assert len({producer_id for _, producer_id, _ in given}) == len(given)
    # A block is durable before its first id is given, so a restart skips what is left of it.
    assert given[-1][1] == 2 * PRODUCER_ID_BLOCK + 2


async def test_ids_asked_for_at_once_differ(slow_world):
    world = slow_world
    answers = await asyncio.gather(*(init(world) for _ in range(5)))
    assert sorted(producer_id for _, producer_id, _ in answers) == [0, 1, 2, 3, 4]
    assert world.engine.catalog.load()["next_producer_id"] == PRODUCER_ID_BLOCK


async def test_without_storage_no_id_is_given(world):
    world.engine.catalog.store = world.refuse_to_store
    assert await init(world) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


async def test_a_producer_that_bumps_its_epoch_gets_a_new_id(world):
    assert await init(world) == (0, 0, 0)
    assert await init(world, producer_id=0, producer_epoch=0) == (0, 1, 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_who_gets_no_id(world, options, error):
    assert await init(world, **options) == (error, -1, -1)
