"""What the audit tells of changes: what there was before them, and after."""

from types import SimpleNamespace

import pytest

from ottla.broker.core.configs.alterations import Operation
from ottla.protocol.apis import ApiKey
from tests.handlers.test_alter_configs_handler import BROKER, GROUP, LOGGER, TOPIC, change, replace
from tests.handlers.test_client_quotas import alter

SET, DELETE, APPEND, _ = Operation


def told(world, event, *names):
    """Some fields of the last event of a kind."""
    *_, row = [row for each, row in world.log.lines if each == event and "principal" in row]
    return [row[name] for name in names]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (TOPIC, "t", "retention.ms", "77"),
        (BROKER, "", "log.retention.ms", "77"),
        (GROUP, "g", "consumer.session.timeout.ms", "50000"),
    ],
)
async def test_a_setting_before_and_after(world, topic, kind, name, key, value):
    await change(world, kind, name, (key, SET, value))
    assert told(world, "config_altered", "keys", "before", "after") == [[key], {key: None}, {key: value}]
    await change(world, kind, name, (key, DELETE, None))
    assert told(world, "config_altered", "keys", "before", "after") == [[key], {key: value}, {key: None}]


async def test_what_is_added_to_a_list_and_what_is_forgotten(world, topic):
    await change(world, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert told(world, "config_altered", "after") == [{"cleanup.policy": "delete,compact"}]
    await replace(world, TOPIC, "t", retention_ms="77")
    before, after = told(world, "config_altered", "before", "after")
    assert before == {"retention.ms": None, "cleanup.policy": "delete,compact"}
    assert after == {"retention.ms": "77", "cleanup.policy": None}


@pytest.mark.parametrize("key", ["plugin.secret", "listener.name.tls.ssl.key.password"])
async def test_secrets_are_hidden(world, key):
    await change(world, BROKER, "1", (key, SET, "sesame"))
    assert told(world, "config_altered", "before", "after") == [{key: None}, {key: "[hidden]"}]
    await change(world, BROKER, "1", (key, DELETE, None))
    assert told(world, "config_altered", "before", "after") == [{key: "[hidden]"}, {key: None}]
    assert "sesame" not in str(world.log.lines)


async def test_the_level_of_the_log(world):
    world.services.logger = SimpleNamespace(level="info")
    await change(world, LOGGER, "1", ("root", SET, "DEBUG"))
    assert told(world, "config_altered", "before", "after") == [{"root": "INFO"}, {"root": "DEBUG"}]


async def test_quotas(world):
    rate = "producer_byte_rate"
    for before, after in ((None, 5.0), (5.0, 7.0), (7.0, None)):
        await alter(world, ({"user": "u"}, {rate: after}))
        assert told(world, "quota_altered", "keys", "before", "after") == [[rate], {rate: before}, {rate: after}]


async def test_offsets_before_which_records_are_deleted(world, topic, make_batch):
    world.produced(make_batch(b"a", b"b"))
    for offset in (1, -1):
        await world.trim(offset)
        assert told(world, "records_deleted", "partitions", "before_offsets") == [[0], [offset]]


async def test_topics_have_their_ids(world):
    await world.call(ApiKey.CREATE_TOPICS, 7, topics=[{"name": "n", "num_partitions": 2, "replication_factor": 1}])
    topic_id = str(world.id_of("n"))
    assert told(world, "topic_created", "topic", "topic_id", "partitions") == ["n", topic_id, 2]
    await world.delete("n")
    assert told(world, "topic_deleted", "topic", "topic_id") == ["n", topic_id]
