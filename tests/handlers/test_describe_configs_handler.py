"""DescribeConfigs: which settings are shown, with which source, type, synonyms and words."""

import pytest

from ottla.broker.cluster.placement import Alone
from ottla.broker.core.configs.groups import GROUP_KEYS
from ottla.broker.core.topics.keys import TOPIC_KEYS
from ottla.broker.handlers.services import Cluster
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode

TOPIC, BROKER, GROUP = 2, 4, 32
DYNAMIC_TOPIC, DYNAMIC_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 4, 5


async def describe_all(world, *asked, version=4, **options):
    """What is told of (type, name, keys or None), …"""
    columns = "resource_type", "resource_name", "configuration_keys"
    rows = [dict(zip(columns, each, strict=True)) for each in asked]
    return (await world.call(ApiKey.DESCRIBE_CONFIGS, version, resources=rows, **options)).results


async def describe(world, kind, name, keys=None, **options):
    (result,) = await describe_all(world, (kind, name, keys), **options)
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def rows(world, kind, name, *args, **options):
    result = await describe(world, kind, name, *args, **options)
    assert (result.error_code, result.error_message) == (0, "")
    return {row.name: row for row in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic(world, version):
    await world.topic(retention_ms=1234)
    found = await rows(world, TOPIC, "t", version=version)
    assert set(found) == set(TOPIC_KEYS)
    retention, size = found["retention.ms"], found["max.message.bytes"]
    assert (retention.value, retention.config_source, retention.read_only) == ("1234", DYNAMIC_TOPIC, False)
    assert (size.value, size.config_source) == ("1048588", DEFAULT)
    assert retention.config_type == (5 if version >= 3 else 0)
    assert not any(row.is_sensitive or row.synonyms or row.documentation for row in found.values())


@pytest.mark.parametrize("options", [{}, {"include_synonyms": True, "include_documentation": True}])
async def test_resources_are_described_together_as_each_alone(world, options):
    """What is the same in many is made once; nothing of one shows in another."""
    await world.topic("plain")
    await world.topic("same", retention_ms=1234)
    await world.topic("equal", retention_ms=1234)
    await world.topic("other", retention_ms=4321, cleanup_policy="compact")
    asked = [
        *((TOPIC, name, None) for name in ("plain", "same", "equal", "other", "none", "plain")),
        *((BROKER, name, None) for name in ("1", "", "2", "1")),
        *((GROUP, name, None) for name in ("a", "b", "", "a")),
        (TOPIC, "same", ["retention.ms"]),
        (BROKER, "1", ["min.insync.replicas", "no.such"]),
        (TOPIC, "other", ["min.insync.replicas"]),
    ]
    together = await describe_all(world, *asked, **options)
    assert together == [await describe(world, *each, **options) for each in asked]
    assert together[1].configs == together[2].configs != together[3].configs


async def test_some_keys_or_all(world, topic):
    assert set(await rows(world, TOPIC, "t", ["retention.ms", "no.such"])) == {"retention.ms"}
    assert set(await rows(world, TOPIC, "t", [])) == set(TOPIC_KEYS)


async def test_synonyms_and_words_when_asked(new_world):
    world = await new_world(log_retention_ms=5000).start()
    await world.topic(retention_ms=1234)
    found = await rows(world, TOPIC, "t", include_synonyms=True, include_documentation=True)
    assert [(s.name, s.value, s.source) for s in found["retention.ms"].synonyms] == [
        ("retention.ms", "1234", DYNAMIC_TOPIC),
        ("log.retention.ms", "5000", STATIC_BROKER),
        ("log.retention.ms", "604800000", DEFAULT),
    ]
    assert all(row.documentation for row in found.values())
    told = {name for name, row in found.items() if row.documentation.endswith("No effect yet.")}
    assert "preallocate" in told and "retention.ms" not in told
    # A key that brokers do not have has no other place to take its value from.
    throttled = found["leader.replication.throttled.replicas"]
    assert (throttled.value, throttled.config_source, throttled.synonyms) == ("", DEFAULT, [])


@pytest.mark.parametrize("version", [1, 4])
async def test_the_broker(new_world, version):
    world = await new_world(num_partitions=7).start()
    found = await rows(world, BROKER, "1", version=version, include_synonyms=True)
    advertised = found["advertised.listeners"]
    assert (advertised.value, advertised.config_source) == ("PLAINTEXT://127.0.0.1:9092", STATIC_BROKER)
    assert found["num.partitions"].read_only
    assert not found["log.retention.ms"].read_only
    partitions = found["num.partitions"]
    assert (partitions.value, partitions.config_source) == ("7", STATIC_BROKER)
    assert [(s.value, s.source) for s in partitions.synonyms] == [("7", STATIC_BROKER), ("1", DEFAULT)]
    assert (found["group.max.size"].config_source, len(found["group.max.size"].synonyms)) == (DEFAULT, 1)


async def test_the_keys_of_a_listener(new_world):
    """Secrets have no value anywhere. Read only is what Kafka has so, which goes by the whole name."""
    secret = 'PlainLoginModule required user_a="hidden";'
    static = {"internal.ssl.client.auth": "required", "internal.plain.sasl.jaas.config": secret}
    settings = {"by_listener": static, "ssl_keystore_password": "hidden", "ssl_client_auth": "requested"}
    world = await new_world(**settings).start()
    location = "listener.name.internal.ssl.keystore.location"
    values = {location: "/etc/other.pem", "listener.name.internal.ssl.key.password": "hidden"}
    changes = [{"name": name, "config_operation": 0, "value": value} for name, value in values.items()]
    broker = {"resource_type": BROKER, "resource_name": "1", "configs": changes}
    (altered,) = (await world.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[broker])).responses
    assert altered.error_code == 0
    found = await rows(world, BROKER, "1", include_synonyms=True)

    def told(key):
        row = found[key]
        synonyms = [(s.name.removeprefix("listener.name.internal."), s.value, s.source) for s in row.synonyms]
        return row.value, row.config_source, row.is_sensitive, row.read_only, synonyms

    assert told("listener.name.internal.ssl.client.auth") == (
        "required", STATIC_BROKER, False, True, [
            ("ssl.client.auth", "required", STATIC_BROKER),
            ("ssl.client.auth", "requested", STATIC_BROKER),
            ("ssl.client.auth", "none", DEFAULT),
        ],
    )  # fmt: skip
    assert told(location)[:4] == ("/etc/other.pem", DYNAMIC_BROKER, False, True)
    assert told("listener.name.internal.ssl.key.password")[:4] == (None, DYNAMIC_BROKER, True, True)
    assert told("listener.name.internal.plain.sasl.jaas.config") == (
        None, STATIC_BROKER, True, True, [
            ("plain.sasl.jaas.config", None, STATIC_BROKER),
            ("sasl.jaas.config", None, DEFAULT),
        ],
    )  # fmt: skip
    assert told("ssl.keystore.password")[:4] == (None, STATIC_BROKER, True, False), "it may change for a listener"
    assert not found["ssl.keystore.location"].read_only and not found["ssl.enabled.protocols"].read_only
    assert found["ssl.client.auth"].read_only and found["sasl.jaas.config"].read_only
    assert "hidden" not in repr(found)
    password = 9
    for key in ("ssl.keystore.password", "listener.name.internal.plain.sasl.jaas.config"):
        assert found[key].config_type == password


async def test_types_of_the_broker(world):
    found = await rows(world, BROKER, "1")
    boolean, string, whole, short, long, double, several = range(1, 8)
    for name, kind in [
        ("auto.create.topics.enable", boolean),
        ("compression.type", string),
        ("num.partitions", whole),
        ("offsets.topic.replication.factor", short),
        ("log.retention.ms", long),
        ("log.cleaner.min.cleanable.ratio", double),
        ("listeners", several),
    ]:
        assert found[name].config_type == kind


async def test_the_advertised_address_given_to_the_broker(world):
    told = {"PLAINTEXT": ("broker.example", 19092)}
    world.services.cluster = Cluster(Alone(1), "cluster", world.topics, told)
    found = await rows(world, BROKER, "1", ["advertised.listeners"])
    assert found["advertised.listeners"].value == "PLAINTEXT://broker.example:19092"


async def test_what_is_set_for_all_brokers_is_nothing(world):
    assert await rows(world, BROKER, "") == {}


async def test_a_group_has_what_kafkas_have(world):
    found = await rows(world, GROUP, "some-group", include_synonyms=True, include_documentation=True)
    assert set(found) == set(GROUP_KEYS)
    session = found["consumer.session.timeout.ms"]
    assert (session.value, session.config_source, session.read_only) == ("45000", DEFAULT, False)
    assert [(s.name, s.value) for s in session.synonyms] == [("group.consumer.session.timeout.ms", "45000")]
    assert [s.name for s in found["share.isolation.level"].synonyms] == ["share.isolation.level"]
    assert all(row.documentation for row in found.values())


async def test_a_group_goes_by_the_settings_of_its_broker(new_world):
    settings = {"group_consumer_session_timeout_ms": 50_000, "group_consumer_max_session_timeout_ms": 70_000}
    world = await new_world(**settings).start()
    row = (await rows(world, GROUP, "g", include_synonyms=True))["consumer.session.timeout.ms"]
    assert (row.value, row.config_source) == ("50000", STATIC_BROKER)
    assert [(s.value, s.source) for s in row.synonyms] == [
        ("50000", STATIC_BROKER),
        ("45000", DEFAULT),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "no-such", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (16, "client-metrics", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described(world, kind, name, error):
    result = await describe(world, kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert result.error_message
