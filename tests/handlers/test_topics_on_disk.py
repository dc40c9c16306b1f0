"""The topic manager over the local engine: what a restart finds, and what damage does."""

import pytest

from ottla.broker.core.topics.catalog import BadCatalog
from ottla.broker.engine import Corrupt
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode


def damage(directory, log):
    """Make a log unreadable: where its file was there is a directory."""
    path = directory / "logs" / log / "00000000000000000000.log"
    path.unlink()
    path.mkdir()
    return path


async def settled(world, exchange):
    while not exchange.finished:
        await world.idle()
    return exchange.row


async def test_everything_is_there_after_a_restart(on_disk, make_batch):
    world = await on_disk()
    topic = await world.topic("t", 2, max_message_bytes=5000)
    numbered = {"producer_id": 3, "producer_epoch": 0}
    for sequence in range(3):
        sent = make_batch(b"%d" % sequence, base_sequence=sequence, **numbered)
        await settled(world, world.produce(sent, partition=1))
    first_id = await world.topics.new_producer_id()
    await world.engine.close()

    world = await on_disk()
    again = world.topics.topics["t"]
    assert (again.topic_id, again.config.max_message_bytes) == (topic.topic_id, 5000)
    assert [(p.log.high_watermark, p.log.leader_epoch) for p in again.partitions] == [(0, 1), (3, 1)]
    duplicate = make_batch(b"1", base_sequence=1, **numbered)
    assert (await settled(world, world.produce(duplicate, partition=1))).base_offset == 1
    assert await world.topics.new_producer_id() > first_id
    await world.engine.close()


async def test_a_damaged_partition_is_offline_and_the_others_serve(on_disk, make_batch, tmp_path):
    world = await on_disk()
    await world.topic("t", 2)
    for partition in (0, 1):
        for _ in range(3):
            await settled(world, world.produce(make_batch(b"x" * 100), partition=partition))
    await world.engine.close()
    path = damage(tmp_path, "t-0")

    world = await on_disk()
    assert "partition is offline" in [event for event, _ in world.log.lines]
    topic = {row.name: row for row in (await world.call(ApiKey.METADATA, 12, topics=None)).topics}["t"]
    damaged, sound = topic.partitions
    assert (damaged.error_code, damaged.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert damaged.offline_replicas == [1]
    assert (sound.error_code, sound.leader_id, sound.offline_replicas) == (0, 1, [])
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert (await settled(world, world.produce(make_batch(b"y")))).error_code == error
    assert world.fetched().error_code == error
    assert [(row.error_code, row.offset) for row in await world.offsets(-1, 0, 1)] == [(error, -1), (0, 3)]
    assert (await settled(world, world.produce(make_batch(b"y"), partition=1))).base_offset == 3
    await world.engine.close()
    # What is left of it was not taken for a leftover of a deleted topic.
    assert path.exists()


async def test_a_broker_does_not_start_without_its_offsets(on_disk, make_batch, tmp_path):
    world = await on_disk()
    log = world.topics.topics["__consumer_offsets"].partitions[7].log
    done = []
    for _ in range(3):
        log.append(make_batch(b"x" * 100), count=1, max_timestamp_ms=0, done=lambda offset, error: done.append(error))
    while len(done) < 3:
        await world.idle()
    await world.engine.close()
    damage(tmp_path, "__consumer_offsets-7")
    with pytest.raises(Corrupt):
        await on_disk()


async def test_a_catalog_of_a_later_version_is_refused(on_disk):
    world = await on_disk()
    await world.engine.catalog.store({"format": 99}, over=world.engine.catalog.version)
    await world.engine.close()
    with pytest.raises(BadCatalog, match="99"):
        await on_disk()
