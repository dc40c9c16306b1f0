"""Topic-level keys: what values they take, and which value is in force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.kinds import ConfigSource
from ottla.broker.core.topics.configs import TopicConfig, effective_value, effective_values, invalid
from ottla.broker.core.topics.keys import TOPIC_KEYS
from ottla.broker.settings import Settings
from ottla.protocol.compression import Codec


def test_every_default_is_a_valid_value():
    assert invalid((key.name, key.default) for key in TOPIC_KEYS.values()) is None


def test_kafkas_keys_are_all_known():
    kafka = """cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
    index.interval.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
    max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
    message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
    remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
    segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable"""
    assert set(TOPIC_KEYS) == {*kafka.split(), "ottla.durability"}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("max.message.bytes", ["0", " 5 ", "2147483647"], ["-1", "2147483648", "many", "", "1.5"]),
        ("retention.ms", ["-1", "0", "9223372036854775807"], ["-2", "9223372036854775808"]),
        ("retention.bytes", ["-1", "-500"], ["x"]),
        ("segment.bytes", ["1048576"], ["1048575"]),
        ("cleanup.policy", ["delete", "compact", "compact, delete", "compact,compact", ""], ["shrink"]),
        ("compression.type", ["producer", "zstd", "uncompressed"], ["none", "ZSTD"]),
        ("compression.gzip.level", ["-1", "1", "9"], ["0", "10"]),
        ("min.cleanable.dirty.ratio", ["0", "0.25", "1"], ["-0.1", "1.1", "half", "nan"]),
        ("preallocate", ["true", "FALSE"], ["yes", "1"]),
        ("message.timestamp.type", ["CreateTime", "LogAppendTime"], ["createtime"]),
        ("leader.replication.throttled.replicas", ["*", "none", "", "0:1,1:2"], ["0", "a:b", "*,0:1"]),
        ("ottla.durability", ["fsync", "interval", "os"], ["never"]),
    ],
)
def test_values(name, good, bad):
    for value in good:
        assert invalid([(name, value)]) is None, value
    for value in bad:
        assert name in (invalid([(name, value)]) or ""), value


def test_unknown_keys_nulls_and_contradictions():
    assert "no.such" in invalid([("no.such", "1")])
    assert "retention.ms" in invalid([("retention.ms", None)])
    assert invalid([("remote.storage.enable", "true")]) is not None
    assert invalid([("min.compaction.lag.ms", "6"), ("max.compaction.lag.ms", "5")]) is not None
    assert invalid([("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "5")]) is None


def test_the_topic_comes_before_the_broker_and_the_broker_before_kafka():
    key = TOPIC_KEYS["max.message.bytes"]
    plain, changed = BrokerConfigs(Settings()), BrokerConfigs(Settings(message_max_bytes=7))
    by_default = effective_value(key, {}, plain)
    assert (by_default.value, by_default.source) == ("1048588", ConfigSource.DEFAULT_CONFIG)
    by_broker = effective_value(key, {}, changed)
    assert (by_broker.value, by_broker.source) == ("7", ConfigSource.STATIC_BROKER_CONFIG)
    by_topic = effective_value(key, {"max.message.bytes": "5"}, changed)
    assert (by_topic.value, by_topic.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [synonym.value for synonym in by_topic.synonyms] == ["5", "7", "1048588"]


def test_where_broker_and_topic_have_a_setting_their_defaults_agree():
    for effective in effective_values({}, BrokerConfigs(Settings())):
        assert effective.value == effective.key.default, effective.key.name


def test_dynamic_settings_of_brokers_come_before_static_ones():
    key = TOPIC_KEYS["retention.ms"]
    static = Settings(log_retention_ms=4)
    layers = BrokerConfigs(static, default={"log.retention.ms": "3"}, own={"log.retention.ms": "2"})
    found = effective_value(key, {"retention.ms": "1"}, layers)
    assert [(synonym.value, synonym.source) for synonym in found.synonyms] == [
        ("1", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("2", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("4", ConfigSource.STATIC_BROKER_CONFIG),
        ("604800000", ConfigSource.DEFAULT_CONFIG),
    ]
    assert layers.settings.log_retention_ms == 2
    assert BrokerConfigs(static, default=layers.default).settings.log_retention_ms == 3


def test_a_default_that_was_given_is_given():
    key = TOPIC_KEYS["retention.ms"]
    found = effective_value(key, {}, BrokerConfigs(Settings(given=frozenset({"log.retention.ms"}))))
    assert (found.value, found.source) == ("604800000", ConfigSource.STATIC_BROKER_CONFIG)
    found = effective_value(key, {"retention.ms": "604800000"}, BrokerConfigs(Settings()))
    assert found.source == ConfigSource.DYNAMIC_TOPIC_CONFIG


def test_dynamic_settings_that_cannot_be_used_are_left_alone():
    layers = BrokerConfigs(Settings(), own={"log.retention.ms": "soon", "node.id": "9", "plugin.secret": "x"})
    assert layers.settings == Settings()


@pytest.mark.parametrize(
    ("kind", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", Codec.NONE, None),
        ("snappy", Codec.SNAPPY, None),
        ("gzip", Codec.GZIP, 5),
        ("lz4", Codec.LZ4, 9),
        ("zstd", Codec.ZSTD, 3),
    ],
)
def test_the_codec_and_its_level(kind, codec, level):
    config = TopicConfig.of({"compression.type": kind, "compression.gzip.level": "5"}, Settings())
    assert (config.codec, config.compression_level) == (codec, level)


def test_a_compacted_topic_rolls_before_records_are_out_of_compaction_for_too_long():
    lag = {"max.compaction.lag.ms": "50", "segment.ms": "100"}
    assert TopicConfig.of(lag, Settings()).roll_after_ms == 100
    assert TopicConfig.of({**lag, "cleanup.policy": "compact"}, Settings()).roll_after_ms == 50


def test_what_our_code_reads():
    config = TopicConfig.of(
        {
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "segment.bytes": " 2097152 ",
            "ottla.durability": "os",
        },
        Settings(log_retention_ms=9),
    )
    assert (config.compacted, config.deletes, config.log_append_time) == (True, True, True)
    assert (config.segment_bytes, config.ottla_durability, config.retention_ms) == (2_097_152, "os", 9)
    assert not TopicConfig.of({"cleanup.policy": "compact"}, Settings()).deletes
    assert TopicConfig.of({}, Settings()) == TopicConfig()


@given(st.dictionaries(st.sampled_from(sorted(TOPIC_KEYS)), st.text(max_size=12) | st.integers().map(str)))
def test_whatever_is_accepted_can_be_parsed(overrides):
    if invalid(overrides.items()) is None:
        TopicConfig.of(overrides, Settings())
