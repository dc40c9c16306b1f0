"""AlterConfigs and IncrementalAlterConfigs: what may be changed, what is refused, and that it is in force at once."""

from types import SimpleNamespace

import pytest

from ottla.broker.core.configs.alterations import Operation
from ottla.broker.engine import Durability
from ottla.broker.settings import BadSetting
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT, GROUP_CONFIG = 1, 2, 3, 4, 5, 8


def resource(kind, name, **fields):
    return {"resource_type": kind, "resource_name": name} | fields


async def change_all(world, *resources, validate_only=False, version=1):
    """Resources are (type, name, (key, operation, value), …); returns (code, message) for each."""
    columns = "name", "config_operation", "value"
    rows = [
        resource(kind, name, configs=[dict(zip(columns, change, strict=True)) for change in changes])
        for kind, name, *changes in resources
    ]
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    responses = (await world.call(key, version, resources=rows, validate_only=validate_only)).responses
    assert [(row.resource_type, row.resource_name) for row in responses] == [resource[:2] for resource in resources]
    return [(row.error_code, row.error_message) for row in responses]


async def change(world, kind, name, *changes, **options):
    """Change one resource; returns the error code, and asserts that errors and messages come together."""
    ((code, message),) = await change_all(world, (kind, name, *changes), **options)
    assert bool(code) == bool(message)
    return code


async def replace(world, kind, name, validate_only=False, version=2, **configs):
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    rows = [resource(kind, name, configs=pairs)]
    (row,) = (await world.call(ApiKey.ALTER_CONFIGS, version, resources=rows, validate_only=validate_only)).responses
    return row.error_code


async def described(world, kind, name, key):
    """Value and source of one key; None if it is not shown."""
    rows = [resource(kind, name, configuration_keys=[key])]
    (result,) = (await world.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows)).results
    return (result.configs[0].value, result.configs[0].config_source) if result.configs else None


# ---------------------------------------------------------------------------------------------------------- topics


@pytest.mark.parametrize("version", range(2))
async def test_a_key_is_set_and_deleted(world, version):
    topic = await world.topic(retention_ms=1)
    assert await change(world, TOPIC, "t", ("segment.ms", SET, " 77 "), version=version) == 0
    assert await described(world, TOPIC, "t", "segment.ms") == ("77", DYNAMIC_TOPIC)
    assert await described(world, TOPIC, "t", "retention.ms") == ("1", DYNAMIC_TOPIC)
    assert topic.config.segment_ms == topic.partitions[0].log.config.segment_ms == 77
    assert await change(world, TOPIC, "t", ("segment.ms", DELETE, None), version=version) == 0
    assert await described(world, TOPIC, "t", "segment.ms") == ("604800000", DEFAULT)
    assert topic.partitions[0].log.config.segment_ms == 604_800_000


async def test_a_key_set_to_its_default_is_set(world, topic):
    assert await change(world, TOPIC, "t", ("retention.ms", SET, "604800000")) == 0
    assert await described(world, TOPIC, "t", "retention.ms") == ("604800000", DYNAMIC_TOPIC)


@pytest.mark.parametrize("version", range(3))
async def test_what_is_not_named_is_forgotten_by_the_older_api(world, version):
    topic = await world.topic(retention_ms=1, ottla_durability="os")
    assert await replace(world, TOPIC, "t", segment_ms="5", version=version) == 0
    assert topic.overrides == {"segment.ms": "5"}
    assert topic.partitions[0].log.config.durability is Durability.FSYNC
    assert await replace(world, TOPIC, "t", version=version) == 0
    assert topic.overrides == {}


async def test_changes_reach_every_partition_and_those_that_come_later(world):
    topic = await world.topic(partitions=2)
    assert await change(world, TOPIC, "t", ("ottla.durability", SET, "os")) == 0
    await world.topics.grow([("t", 3, None)])
    assert [partition.log.config.durability for partition in topic.partitions] == [Durability.OS] * 3


async def test_changes_are_durable(world, topic):
    await change(world, TOPIC, "t", ("retention.ms", SET, "5"))
    await change(world, BROKER, "1", ("log.roll.ms", SET, "6"))
    await change(world, BROKER, "", ("log.retention.bytes", SET, "7"))
    await change(world, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    await world.restart()
    assert await described(world, TOPIC, "t", "retention.ms") == ("5", DYNAMIC_TOPIC)
    assert await described(world, TOPIC, "t", "segment.ms") == ("6", DYNAMIC_BROKER)
    assert await described(world, TOPIC, "t", "retention.bytes") == ("7", DYNAMIC_DEFAULT)
    assert await described(world, GROUP, "g", "consumer.session.timeout.ms") == ("50000", GROUP_CONFIG)
    assert world.engine.logs["t", 0].config.segment_ms == 6


async def test_nothing_is_in_force_that_could_not_be_stored(world, topic):
    world.engine.catalog.store = world.refuse_to_store
    answers = await change_all(
        world, (TOPIC, "t", ("retention.ms", SET, "5")), (TOPIC, "u", ("retention.ms", SET, "5"))
    )
    assert [code for code, _ in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert topic.config.retention_ms == 604_800_000
    assert await described(world, TOPIC, "t", "retention.ms") == ("604800000", DEFAULT)


async def test_lists_grow_and_shrink(world, topic):

    async def after(operation, value):
        assert await change(world, TOPIC, "t", ("cleanup.policy", operation, value)) == 0
        return topic.overrides["cleanup.policy"], topic.config.compacted, topic.config.deletes

    assert await after(APPEND, "compact") == ("delete,compact", True, True)
    assert await after(APPEND, "compact,delete") == ("delete,compact", True, True)
    assert await after(SUBTRACT, "delete") == ("compact", True, False)
    assert await after(SUBTRACT, "delete,compact") == ("", False, False)
    assert await after(SET, "delete, delete") == ("delete", False, True)


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("t", [("no.such.key", SET, "1")], ErrorCode.INVALID_CONFIG),
        ("t", [("no.such.key", DELETE, None)], ErrorCode.NONE),
        ("t", [("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ("t", [("retention.ms", SET, "")], ErrorCode.INVALID_CONFIG),
        ("t", [("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG),
        ("t", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ("t", [("retention.ms", DELETE, "5")], ErrorCode.NONE),
        ("t", [("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ("t", [("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ("t", [("cleanup.policy", APPEND, "shrink")], ErrorCode.INVALID_CONFIG),
        ("t", [("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST),
        ("t", [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ("t", [("retention.ms", SET, "5"), ("no.such.key", SET, "1")], ErrorCode.INVALID_CONFIG),
        ("t", [("min.compaction.lag.ms", SET, "6"), ("max.compaction.lag.ms", SET, "5")], ErrorCode.INVALID_CONFIG),
        ("t", [("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        ("t", [], ErrorCode.NONE),
        ("u", [("retention.ms", SET, "5")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", [("no.such.key", SET, "5")], ErrorCode.INVALID_CONFIG),
        ("", [("retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        ("a b", [("retention.ms", SET, "5")], ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_topics_take(world, topic, name, changes, error):
    """Each as Kafka 4.3 answers it, but for the operation that there is not."""
    assert await change(world, TOPIC, name, *changes) == error
    assert topic.overrides == {}


@pytest.mark.parametrize(
    ("kind", "name", "configs", "error"),
    [
        (TOPIC, "t", {"segment_ms": None}, ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", {"no_such_key": "1"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "u", {"segment_ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", {"group_max_size": "5"}, ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
        (99, "", {"x": "1"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_the_older_api_refuses(world, topic, kind, name, configs, error):
    assert await replace(world, kind, name, **configs) == error


async def test_validating_changes_nothing(world):
    topic = await world.topic(retention_ms=1)
    assert await change(world, TOPIC, "t", ("retention.ms", SET, "2"), validate_only=True) == 0
    assert await change(world, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True) == ErrorCode.INVALID_CONFIG
    assert await replace(world, TOPIC, "t", validate_only=True) == 0
    assert topic.config.retention_ms == 1


@pytest.mark.parametrize(
    ("name", "change_of_it", "error"),
    [
        ("a b", ("segment.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        ("", ("segment.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        ("a b", ("segment.ms", SET, None), ErrorCode.INVALID_REQUEST),
        ("t", ("segment.ms", APPEND, "1", "retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        ("a b", ("segment.ms", SET, "x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ("segment.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
        ("absent", ("segment.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_is_asked_is_looked_at_before_of_whom(world, name, change_of_it, error):
    changes = [change_of_it[at : at + 3] for at in range(0, len(change_of_it), 3)]
    assert await change(world, TOPIC, name, *changes) == error


async def test_resources_are_changed_each_for_itself_but_not_twice(world):
    for name in "abc":
        await world.topic(name)
    one = ("retention.ms", SET, "5")
    answers = await change_all(
        world, (TOPIC, "a", one), (TOPIC, "b", ("x", SET, "1")), (TOPIC, "c", one), (TOPIC, "c", one)
    )
    assert [code for code, _ in answers] == [
        ErrorCode.NONE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST
    ]  # fmt: skip
    assert [world.topics.topics[name].config.retention_ms for name in "abc"] == [5, 604_800_000, 604_800_000]


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        *((kind, "x", "a") for kind in (0, 3, LOGGER, METRICS, 77)),
        *((BROKER, name, "log.retention.ms") for name in ("7", "one", "-1")),
        (GROUP, "", "consumer.session.timeout.ms"),  # groups have no settings in common
    ],
)
async def test_other_resources_are_refused(world, kind, name, key):
    assert await change(world, kind, name, (key, SET, "50000")) == ErrorCode.INVALID_REQUEST


# --------------------------------------------------------------------------------------------------------- brokers


async def test_a_broker_comes_before_all_brokers_and_topics_follow(world, topic):
    other = await world.topic("other", retention_ms=9)
    assert await change(world, BROKER, "", ("log.retention.ms", SET, "3")) == 0
    assert (topic.config.retention_ms, other.config.retention_ms) == (3, 9)
    assert await change(world, BROKER, "1", ("log.retention.ms", SET, "2")) == 0
    assert topic.config.retention_ms == 2
    assert await described(world, BROKER, "1", "log.retention.ms") == ("2", DYNAMIC_BROKER)
    assert await described(world, BROKER, "", "log.retention.ms") == ("3", DYNAMIC_DEFAULT)
    assert await described(world, TOPIC, "t", "retention.ms") == ("2", DYNAMIC_BROKER)
    assert await change(world, BROKER, "1", ("log.retention.ms", DELETE, None)) == 0
    assert topic.config.retention_ms == 3
    assert await replace(world, BROKER, "") == 0
    assert await described(world, BROKER, "", "log.retention.ms") is None
    assert topic.config.retention_ms == 604_800_000
    await world.topic("later")
    assert world.topics.topics["later"].config == topic.config


async def test_lists_of_brokers(world, topic):
    assert await change(world, BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == 0
    assert await described(world, BROKER, "1", "log.cleanup.policy") == ("delete,compact", DYNAMIC_BROKER)
    assert topic.config.compacted


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize(
    ("key", "operation", "value"),
    [
        ("node.id", SET, "3"),
        ("group.max.size", SET, "3"),
        ("log.cleaner.enable", SET, "false"),
        ("log.retention.check.interval.ms", SET, "1000"),
        ("log.retention.hours", SET, "5"),
        ("log.segment.bytes", SET, "1048575"),
        ("log.retention.ms", SET, "soon"),
        ("log.retention.ms", SET, None),
        ("log.retention.ms", APPEND, "5"),
        ("compression.type", SET, "best"),
        ("log.cleaner.min.cleanable.ratio", SET, "2"),
    ],
)
async def test_what_brokers_refuse(world, name, key, operation, value):
    expected = ErrorCode.INVALID_CONFIG if operation == APPEND else ErrorCode.INVALID_REQUEST
    assert await change(world, BROKER, name, (key, operation, value)) == expected


async def test_unknown_keys_of_brokers_are_kept_and_their_values_not_shown(world):
    assert await change(world, BROKER, "1", ("plugin.secret", SET, "sesame")) == 0
    assert await described(world, BROKER, "1", "plugin.secret") == (None, DYNAMIC_BROKER)
    assert await change(world, BROKER, "", ("plugin.secret", SET, "sesame")) == 0
    assert await described(world, BROKER, "", "plugin.secret") == (None, DYNAMIC_DEFAULT)
    assert "sesame" not in str(world.log.lines)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("num.io.threads", "9", 3),
        ("listener.name.plaintext.num.network.threads", "4", 3),
        ("leader.replication.throttled.rate", "1000", 5),
        ("metric.reporters", "a,b", 7),
        ("listener.name.num.io.threads", None, 0),
        ("plugin.secret", None, 0),
    ],
)
async def test_stored_keys_are_shown_if_kafka_knows_them(world, key, value, kind):
    for name, source in (("", DYNAMIC_DEFAULT), ("1", DYNAMIC_BROKER)):
        assert await change(world, BROKER, name, (key, SET, value or "sesame")) == 0
        rows = [resource(BROKER, name, configuration_keys=[key])]
        told = await world.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows, include_synonyms=True)
        ((row,),) = [result.configs for result in told.results]
        assert (row.value, row.config_source, row.config_type) == (value, source, kind)
        assert row.is_sensitive == row.read_only == (value is None)
    assert [(s.value, s.source) for s in row.synonyms] == [(value, DYNAMIC_BROKER), (value, DYNAMIC_DEFAULT)]


@pytest.mark.parametrize(
    ("key", "value", "shown", "error"),
    [
        ("listener.name.tls.ssl.keystore.location", "/keys/b.pem", "/keys/b.pem", 0),
        ("listener.name.tls.ssl.key.password", "sesame", None, 0),
        ("listener.name.tls.ssl.keystore.type", "JKS", None, 42),
        ("listener.name.tls.ssl.client.auth", "required", None, 42),
        ("listener.name.tls.sasl.jaas.config", "sesame", None, 42),
        ("ssl.keystore.location", "/keys/b.pem", "", 42),
    ],
)
async def test_keys_and_certificates_are_those_of_a_listener_of_one_broker(world, key, value, shown, error):
    assert await change(world, BROKER, "", (key, SET, value)) == 42
    assert await change(world, BROKER, "1", (key, SET, value)) == error
    if not error:
        assert await described(world, BROKER, "1", key) == (shown, DYNAMIC_BROKER)
        assert world.topics.broker_configs.settings.of_listener("TLS", key.removeprefix("listener.name.tls.")) == value
    assert "sesame" not in str(world.log.lines)


async def test_keys_that_cannot_be_used_change_nothing(world):
    asked = []

    async def renew(settings, validate_only):
        asked.append((settings.of_listener("TLS", "ssl.keystore.location"), validate_only))
        if asked[-1][0] == "/bad":
            raise BadSetting("it is bad")

    world.topics.keys.renew = renew
    key = "listener.name.tls.ssl.keystore.location"
    assert await change(world, BROKER, "1", (key, SET, "/good")) == 0
    assert await change(world, BROKER, "1", (key, SET, "/good")) == 0, "the file may be a new one"
    assert asked == [("/good", True), ("/good", False)] * 2
    assert await change(world, BROKER, "1", (key, SET, "/bad")) == ErrorCode.INVALID_CONFIG
    assert asked[4:] == [("/bad", True)]
    assert await described(world, BROKER, "1", key) == ("/good", DYNAMIC_BROKER)
    assert await change(world, BROKER, "1", ("log.retention.ms", SET, "77")) == 0
    assert len(asked) == 5


async def test_the_log_names_the_type_of_what_was_changed(world, topic):
    await change(world, TOPIC, "t", ("retention.ms", SET, "77"))
    await change(world, BROKER, "", ("log.retention.ms", SET, "77"))
    await change(world, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    told = [fields for event, fields in world.log.lines if event == "settings changed"]
    assert [(fields["resource_type"], fields["resource"]) for fields in told] == [
        ("topic", "t"),
        ("broker", ""),
        ("group", "g"),
    ]


# ---------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("consumer.session.timeout.ms", "60000", ErrorCode.NONE),
        ("consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:P1DT2H", ErrorCode.NONE),
        ("share.auto.offset.reset", "by_duration:P", ErrorCode.INVALID_CONFIG),
        ("share.isolation.level", "read_committed", ErrorCode.NONE),
        ("share.isolation.level", "serializable", ErrorCode.INVALID_CONFIG),
        ("streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("no.such.key", "1", ErrorCode.INVALID_CONFIG),
    ],
)
async def test_groups(world, key, value, error):
    assert await change(world, GROUP, "g", (key, SET, value)) == error
    if not error:
        assert await described(world, GROUP, "g", key) == (value, GROUP_CONFIG)
        assert await change(world, GROUP, "g", (key, DELETE, None)) == 0
        assert (await described(world, GROUP, "g", key))[1] == DEFAULT


async def test_groups_go_by_the_bounds_of_their_broker(new_world):
    """R9.1. The session has to be longer than the time between two heartbeats, as both are then."""
    bounds = {"group_consumer_min_session_timeout_ms": 1_000, "group_consumer_max_heartbeat_interval_ms": 50_000}
    world = await new_world(**bounds).start()
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert await change(world, GROUP, "g", (session, SET, "5001")) == 0
    assert await change(world, GROUP, "g", (session, SET, "5000")) == ErrorCode.INVALID_CONFIG
    assert await change(world, GROUP, "g", (heartbeat, SET, "6000")) == ErrorCode.INVALID_CONFIG
    assert await change(world, GROUP, "g", (heartbeat, SET, "46000"), (session, SET, "47000")) == 0
    assert await change(world, GROUP, "g", (session, DELETE, None)) == ErrorCode.INVALID_CONFIG


# --------------------------------------------------------------------------------------------------------- loggers


@pytest.fixture
def logger(world):
    world.services.logger = SimpleNamespace(level="info")
    return world.services.logger


@pytest.mark.parametrize(
    ("name", "key", "operation", "value", "error"),
    [
        ("1", "root", SET, "DEBUG", ErrorCode.NONE),
        ("1", "root", SET, "LOUD", ErrorCode.INVALID_CONFIG),
        ("1", "root", DELETE, "", ErrorCode.INVALID_REQUEST),
        ("1", "root", APPEND, "DEBUG", ErrorCode.INVALID_REQUEST),
        ("1", "no.such", SET, "DEBUG", ErrorCode.INVALID_CONFIG),
        ("1", "no.such", DELETE, "", ErrorCode.INVALID_CONFIG),
        ("2", "root", SET, "DEBUG", ErrorCode.INVALID_REQUEST),
        ("", "root", SET, "DEBUG", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_the_level_of_the_log(world, logger, name, key, operation, value, error):
    assert await change(world, LOGGER, name, (key, operation, value), validate_only=True) == error
    assert logger.level == "info"
    assert await change(world, LOGGER, name, (key, operation, value)) == error
    assert logger.level == ("info" if error else "debug")


@pytest.mark.parametrize(
    ("kafkas", "ours", "shown"),
    [
        ("TRACE", "debug", "DEBUG"),
        ("WARN", "warning", "WARN"),
        ("ERROR", "error", "ERROR"),
        ("FATAL", "error", "ERROR"),
    ],
)
async def test_levels_have_kafkas_names(world, logger, kafkas, ours, shown):
    assert await change(world, LOGGER, "1", ("root", SET, kafkas)) == 0
    assert logger.level == ours
    assert await described(world, LOGGER, "1", "root") == (shown, 6)


async def test_levels_beside_other_changes_and_not_twice(world, topic, logger):
    level = ("root", SET, "DEBUG")
    answers = await change_all(world, (LOGGER, "1", level), (TOPIC, "t", ("retention.ms", SET, "5")))
    assert answers == [(0, None), (0, None)]
    assert (logger.level, topic.config.retention_ms) == ("debug", 5)
    logger.level = "info"
    twice = await change_all(world, (LOGGER, "1", level), (LOGGER, "1", level))
    assert [code for code, _ in twice] == [ErrorCode.INVALID_REQUEST] * 2
    assert logger.level == "info"
    assert await replace(world, LOGGER, "1", root="DEBUG") == ErrorCode.INVALID_REQUEST
