"""Settings: sources, ranges, and errors that say what is allowed."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ottla.broker.setting_sources import from_environment, load, parse_properties
from ottla.broker.settings import FIELDS, BadSetting, Settings, parse_value, type_of


def test_later_sources_win() -> None:
    loaded = load({"num.partitions": "2", "group.max.size": "9"}, {"num.partitions": "3"})
    assert loaded.settings.num_partitions == 3
    assert loaded.settings.group_max_size == 9


def test_unknown_keys_and_keys_without_effect_are_told() -> None:
    loaded = load({"no.such.key": "1", "log.retention.hours": "1", "log.cleaner.threads": "3"})
    assert loaded.unknown == ["no.such.key"]
    assert loaded.without_effect == ["log.cleaner.threads"]
    assert loaded.settings.log_retention_ms == 3_600_000


@pytest.mark.parametrize(
    ("given", "listeners"),
    [
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "PLAINTEXT://:9092"),
        ({"listeners": "PLAINTEXT://:1, Ctl://:2", "controller.listener.names": "ctl"}, "PLAINTEXT://:1"),
        ({"listeners": "A://:1,PLAINTEXT://:2,B://:3", "controller.listener.names": "A, B"}, "PLAINTEXT://:2"),
        # What the broker does not know how to serve stays, to be refused.
        ({"listeners": "SSL://:1,CONTROLLER://:2"}, "SSL://:1"),
        ({"listeners": "CONTROLLER://:9093"}, "CONTROLLER://:9093"),
        (
            {"listeners": "PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names": "OTHER"},
            "PLAINTEXT://:1,CONTROLLER://:2",
        ),
        ({"listeners": "PLAINTEXT://:1,B://:2", "controller.listener.names": "PLAINTEXT"}, "PLAINTEXT://:1,B://:2"),
    ],
)
def test_listeners_of_controllers_are_left_out(given: dict[str, str], listeners: str) -> None:
    loaded = load(given)
    assert loaded.settings.listeners == listeners
    assert loaded.unknown == []
    assert bool(loaded.left_out) == (listeners != given["listeners"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("ssl.keystore.location", "/keys.jks"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.internal.ssl.keystore.location", "/keys.jks"),
        ("listener.name.internal.plain.sasl.jaas.config", "…"),
        ("ssl.client.auth", "required"),
        ("listener.name.internal.sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("security.inter.broker.protocol", "SASL_SSL"),
        ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT, INTERNAL:sasl_ssl"),
    ],
)
def test_security_settings_are_told_from_typos(key: str, value: str) -> None:
    loaded = load({key: value})
    assert (loaded.unprotected, loaded.unknown) == ([key], [])
    assert from_environment({"KAFKA_" + key.upper().replace(".", "_"): value}) == {key: value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", ""),
        ("ssl.client.auth", "none"),
        ("ssl.enabled.protocols", "TLSv1.2, TLSv1.3"),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("listener.name.internal.ssl.keystore.type", "jks"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        # As in the server.properties that comes with Kafka.
        ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"),
        ("listener.name.internal.max.connections", "5"),
    ],
)
def test_settings_that_would_protect_nothing_in_kafka_either(key: str, value: str) -> None:
    loaded = load({key: value})
    assert (loaded.unprotected, loaded.unknown) == ([], [key])


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("num.partitions", "0", "1 to 2147483647"),
        ("num.partitions", "many", "1 to 2147483647"),
        ("auto.create.topics.enable", "yes", "true and false"),
        ("ottla.durability", "never", "fsync, interval, os"),
        ("group.generation.persist", "", "sync, join"),
        ("log.cleanup.policy", "compact,keep", "delete, compact"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "half", "0 to 1"),
        ("log.cleaner.io.max.bytes.per.second", "0", "1 or more"),
    ],
)
def test_a_bad_value_names_the_key_the_value_and_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load({key: value})
    for part in (key, value, allowed):
        assert part in str(caught.value)


def test_a_later_source_takes_security_back() -> None:
    loaded = load({"ssl.keystore.location": "/keys.jks", "so.so": "1"}, {"ssl.keystore.location": ""})
    assert (loaded.unprotected, loaded.unknown) == ([], ["ssl.keystore.location", "so.so"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("group.min.session.timeout.ms=10 group.max.session.timeout.ms=5", "group.max.session.timeout.ms=5"),
        (
            "group.consumer.session.timeout.ms=1000",
            "group.consumer.session.timeout.ms=1000: must not be below group.consumer.min.session.timeout.ms=45000: "
            "lower that as well; "
            "group.consumer.session.timeout.ms=1000: must exceed group.consumer.heartbeat.interval.ms=5000: "
            "lower that as well",
        ),
        (
            "group.consumer.heartbeat.interval.ms=16000",
            "group.consumer.heartbeat.interval.ms=16000: must not exceed "
            "group.consumer.max.heartbeat.interval.ms=15000: raise that as well",
        ),
        (
            "group.consumer.max.heartbeat.interval.ms=4000",
            "group.consumer.max.heartbeat.interval.ms=4000: must not be below "
            "group.consumer.heartbeat.interval.ms=5000: lower that as well",
        ),
        ("group.consumer.min.assignment.interval.ms=1001", "group.consumer.assignment.interval.ms=1000"),
        (
            "group.consumer.heartbeat.interval.ms=45000 group.consumer.max.heartbeat.interval.ms=50000",
            "must be less than group.consumer.session.timeout.ms=45000",
        ),
        ("group.consumer.assignors=range,range", "names one twice"),
        ("group.consumer.assignors=", "allowed are uniform and range"),
        ("group.coordinator.rebalance.protocols=consumer", "classic has to be among them"),
    ],
)
def test_settings_that_contradict_each_other(settings: str, words: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(words)):
        load(dict(pair.split("=") for pair in settings.split(" ")))


def test_properties_files() -> None:
    text = "# comment\n! also\n a.b = 1\nc:2\nd\ne = x\\\n  y\n\n"
    assert parse_properties(text) == {"a.b": "1", "c": "2", "d": "", "e": "xy"}


def test_the_environment() -> None:
    found = from_environment(
        {
            "KAFKA_NUM_PARTITIONS": "4",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CTL",
            "KAFKA_HEAP_OPTS": "-Xmx1g",  # not ours to warn about
            "OTTLA_GROUP_MAX_SIZE": "7",
            "OTTLA_DURABILITY": "os",
            "OTTLA_TYPO": "1",
            "OTTLA_BOOTSTRAP_SERVERS": "h:9092",  # the command-line tools'
            "PATH": "/bin",
        }
    )
    assert found == {
        "num.partitions": "4",
        "controller.listener.names": "CTL",
        "group.max.size": "7",
        "ottla.durability": "os",
        "typo": "1",
    }


def test_every_default_is_a_value_that_may_be_written() -> None:
    for row in Settings().describe():
        assert parse_value(row.name, row.default) == FIELDS[row.name].default
        assert row.documentation.endswith(".")
        assert row.is_default


def test_a_set_value_is_described_as_such() -> None:
    row = next(row for row in Settings(num_partitions=8).describe() if row.name == "num.partitions")
    assert (row.value, row.default, row.is_default) == ("8", "1", False)


def test_a_value_that_was_set_to_its_default_was_set() -> None:
    settings = load({"num.partitions": "1"}).settings
    assert settings.is_given("num.partitions")
    assert not settings.is_given("group.max.size")
    assert settings == Settings()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("log.cleaner.enable", "boolean"),
        ("compression.type", "string"),
        ("log.cleanup.policy", "list"),
        ("offsets.topic.replication.factor", "short"),
        ("num.partitions", "int"),
        ("log.retention.ms", "long"),
        ("log.cleaner.min.cleanable.ratio", "double"),
    ],
)
def test_types_have_kafkas_names(key: str, name: str) -> None:
    assert type_of(key) == name


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().num_partitions = 2  # type: ignore[misc]
