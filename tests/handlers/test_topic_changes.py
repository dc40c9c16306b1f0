"""CreateTopics, DeleteTopics and CreatePartitions, and what a restart leaves of them."""

import asyncio
import uuid

import pytest

from ottla.broker.core.topics.catalog import NewTopic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID


def wanted(name, partitions=-1, factor=-1, assignments=(), **configs):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }


async def create(world, *topics, version=7, **options):
    response = await world.call(ApiKey.CREATE_TOPICS, version, topics=topics, **options)
    return response.topics[0] if len(response.topics) == 1 else response.topics


async def test_a_topic_with_its_effective_settings(world):
    row = await create(world, wanted("t", 3, 1, max_message_bytes="5000"))
    assert (row.error_code, row.error_message, row.num_partitions, row.replication_factor) == (0, None, 3, 1)
    assert row.topic_id == world.topics.topics["t"].topic_id != ZERO_UUID
    configs = {config.name: config for config in row.configs}
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].config_source) == ("5000", 1)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("604800000", 5)
    assert all(config.value is not None and not config.is_sensitive for config in row.configs)


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version(world, version):
    row = await create(world, wanted("t", 2, 1), version=version)
    assert (row.error_code, row.name, world.topics.partition_count("t")) == (0, "t", 2)
    again = await create(world, wanted("t", 2, 1), version=version)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert again.configs == []  # not null: the Java admin client fails on null


async def test_defaults_of_the_broker(new_world):
    world = await new_world(num_partitions=4).start()
    assert (await create(world, wanted("t"))).num_partitions == 4


async def test_the_broker_overrides_kafkas_defaults(new_world):
    world = await new_world(message_max_bytes=9999, log_message_timestamp_type="LogAppendTime").start()
    configs = {config.name: config for config in (await create(world, wanted("t"))).configs}
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].config_source) == ("9999", 4)
    assert world.topics.topics["t"].config.log_append_time


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (wanted("t", 1, 1, no_such="1"), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, 1, retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, 1, retention_ms=None), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, 1, remote_storage_enable="true"), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, -1, [(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, [(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, [(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, [(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, [(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_what_cannot_be_created(world, topic, error):
    for validate_only in (True, False):
        row = await create(world, topic, validate_only=validate_only)
        assert (row.error_code, row.topic_id, row.num_partitions) == (error, ZERO_UUID, -1)
        assert row.error_message
    assert set(world.topics.topics) == {"__consumer_offsets"}


async def test_partitions_assigned_by_hand(world):
    row = await create(world, wanted("t", -1, -1, [(1, [1]), (0, [1])]))
    assert (row.error_code, row.num_partitions) == (0, 2)


async def test_the_limit_of_a_request_concerns_all_its_topics(world):
    rows = await create(world, wanted("a", 6000, 1), wanted("b", 4001, 1))
    assert [row.error_code for row in rows] == [ErrorCode.POLICY_VIOLATION] * 2


async def test_names_that_differ_in_dots_and_underscores_collide(world):
    rows = await create(world, wanted("a.b"), wanted("a_b"))
    assert [row.error_code for row in rows] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert (await create(world, wanted("a_b"))).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_duplicates_are_refused_and_the_others_created(world):
    rows = await create(world, wanted("twice"), wanted("once"), wanted("twice"))
    assert sorted((row.name, row.error_code) for row in rows) == [("once", 0), ("twice", ErrorCode.INVALID_REQUEST)]
    assert set(world.topics.topics) == {"__consumer_offsets", "once"}


async def test_validate_only_changes_nothing(world):
    row = await create(world, wanted("t", 2), validate_only=True)
    assert (row.error_code, row.num_partitions) == (0, 2)
    assert row.topic_id != ZERO_UUID  # Kafka makes one up, too
    assert row.configs
    assert world.topics.partition_count("t") == 0
    assert "t" not in world.engine.catalog.load()["topics"]


async def test_what_cannot_be_stored_is_not_there(world, monkeypatch):
    monkeypatch.setattr(world.engine.catalog, "store", world.refuse_to_store)
    assert (await create(world, wanted("t"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.topics.partition_count("t") == 0
    monkeypatch.undo()
    assert (await create(world, wanted("t"))).error_code == 0


async def test_topics_survive_a_restart(world, make_batch):
    created = await create(world, wanted("t", 2, 1, max_message_bytes="5000"))
    world.produced(make_batch(b"x"), partition=1)
    await world.restart()
    topic = world.topics.topics["t"]
    assert (topic.topic_id, topic.config.max_message_bytes) == (created.topic_id, 5000)
    assert [partition.log.high_watermark for partition in topic.partitions] == [0, 1]


# -- DeleteTopics


async def delete(world, *topics):
    """Delete topics by name, id or (name, id); their rows."""
    states = [topic if isinstance(topic, tuple) else (topic, None) for topic in topics]
    states = [(None, name) if isinstance(name, uuid.UUID) else (name, topic_id) for name, topic_id in states]
    rows = [{"name": name, "topic_id": topic_id or ZERO_UUID} for name, topic_id in states]
    return (await world.call(ApiKey.DELETE_TOPICS, 6, topics=rows)).responses


@pytest.mark.parametrize("version", range(1, 7))
async def test_delete_by_name(world, topic, version):
    names = ["t", "no-such"]
    fields = {"topics": [{"name": name} for name in names], "topic_names": names}
    first, second = (await world.call(ApiKey.DELETE_TOPICS, version, **fields)).responses
    assert (first.error_code, first.name) == (0, "t")
    assert first.topic_id == (topic.topic_id if version >= 6 else ZERO_UUID)
    assert (second.error_code, second.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no-such")
    assert (world.topics.partition_count("t"), world.deleted) == (0, ["t"])
    assert not [tp for tp in world.engine.logs if tp.topic == "t"]


async def test_delete_by_id(world, topic):
    other = uuid.UUID(int=999)
    first, second = await delete(world, topic.topic_id, other)
    assert (first.error_code, first.name, first.topic_id) == (0, "t", topic.topic_id)
    assert (second.error_code, second.name, second.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, other)


async def deleted_after_it_was_made_anew(world, name_or_id):
    """What a deletion is told that comes when the topic ``t`` was deleted and made once more, and the new one."""
    _, (made,), (row,) = await asyncio.gather(
        world.topics.delete(["t"]), world.topics.create([NewTopic("t")]), delete(world, name_or_id)
    )
    return row, made


async def test_delete_by_id_spares_a_topic_that_was_made_anew(slow_world, topic):
    row, made = await deleted_after_it_was_made_anew(slow_world, topic.topic_id)
    assert (row.error_code, row.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, topic.topic_id)
    assert slow_world.topics.topics["t"].topic_id == made.topic_id != topic.topic_id


async def test_delete_by_name_answers_the_id_of_the_topic_that_it_deleted(slow_world, topic):
    row, made = await deleted_after_it_was_made_anew(slow_world, "t")
    assert (row.error_code, row.topic_id) == (0, made.topic_id)
    assert made.topic_id != topic.topic_id
    assert "t" not in slow_world.topics.topics


async def test_a_delete_of_nothing_stores_nothing(world, monkeypatch):
    stored = []

    async def store(state, *, over):
        stored.append(state)

    monkeypatch.setattr(world.engine.catalog, "store", store)
    outcomes = await world.topics.delete(["absent", uuid.UUID(int=999)])
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert not stored


async def test_delete_with_name_and_id_or_neither(world, topic):
    rows = await delete(world, ("t", topic.topic_id), (None, None))
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST] * 2
    assert world.topics.partition_count("t") == 1


async def test_delete_twice_in_one_request(world, topic):
    (row,) = await delete(world, "t", topic.topic_id)
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert world.topics.partition_count("t") == 1


@pytest.mark.parametrize("name", ["t", "absent"])
async def test_a_name_that_is_given_twice_is_refused_once(world, topic, name):
    (row,) = await delete(world, name, name)
    assert (row.name, row.error_code) == (name, ErrorCode.INVALID_REQUEST)
    assert world.topics.partition_count("t") == 1


async def test_internal_topics_stay(world):
    for version, error in ((2, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)):
        response = await world.call(ApiKey.DELETE_TOPICS, version, topic_names=["__consumer_offsets"])
        assert response.responses[0].error_code == error
    assert world.topics.partition_count("__consumer_offsets") == 50


async def test_deletion_can_be_forbidden(new_world):
    world = await new_world(delete_topic_enable=False).start()
    await world.topic("t")
    response = await world.delete("t")
    assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert world.topics.partition_count("t") == 1


async def test_a_topic_created_anew_is_another(world, make_batch):
    before = await world.topic("t")
    world.produced(make_batch(b"old"))
    await world.delete("t")
    assert world.produced(make_batch(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    after = await world.topic("t")
    assert after.topic_id != before.topic_id
    assert (world.fetched().high_watermark, world.fetched().records) == (0, b"")
    await world.restart()
    assert world.topics.topics["t"].topic_id == after.topic_id
    assert world.fetched().high_watermark == 0


async def test_what_a_crash_left_of_a_deleted_topic_is_removed(world, topic, make_batch):
    world.produced(make_batch(b"old"))
    state = world.engine.catalog.load()
    del state["topics"]["t"]  # as if killed between the catalog and the logs
    await world.engine.catalog.store(state, over=world.engine.catalog.version)
    await world.restart()
    assert ("removed the log of a deleted topic", {"topic": "t", "partition": 0}) in world.log.lines


# -- CreatePartitions


async def grow(world, *topics, version=3, **options):
    """Let topics, given as (name, partitions, brokers of each new one or None), grow; the only row of the answer."""
    rows = [
        {"name": name, "count": count, "assignments": brokers and [{"broker_ids": b} for b in brokers]}
        for name, count, brokers in topics
    ]
    (row,) = (await world.call(ApiKey.CREATE_PARTITIONS, version, topics=rows, **options)).results
    return row


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(world, topic, make_batch, version):
    world.produced(make_batch(b"x"))
    row = await grow(world, ("t", 3, None), version=version)
    assert (row.error_code, row.error_message) == (0, None)
    assert world.produced(make_batch(b"y"), partition=2).error_code == 0
    assert world.fetched().high_watermark == 1  # the old partition is the same
    await world.restart()
    assert world.topics.partition_count("t") == 3


@pytest.mark.parametrize(
    ("name", "count", "brokers", "error"),
    [
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 10_003, None, ErrorCode.POLICY_VIOLATION),
        ("t", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("no-such", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", 60, None, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_cannot_grow(world, wide_topic, name, count, brokers, error):
    row = await grow(world, (name, count, brokers))
    assert (row.error_code, bool(row.error_message)) == (error, True)
    assert world.topics.partition_count("t") == 2


async def test_growing_with_assignments_and_only_to_validate(world, wide_topic):
    row = await grow(world, ("t", 4, [[1], [1]]), validate_only=True)
    assert (row.error_code, world.topics.partition_count("t")) == (0, 2)
    row = await grow(world, ("t", 4, [[1], [1]]))
    assert (row.error_code, world.topics.partition_count("t")) == (0, 4)


async def test_growing_a_topic_twice_in_one_request(world, wide_topic):
    row = await grow(world, ("t", 3, None), ("t", 4, None))
    assert (row.error_code, world.topics.partition_count("t")) == (ErrorCode.INVALID_REQUEST, 2)
