"""Settings: sources, ranges, and errors that say what is allowed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from ottla.broker.setting_sources import did_you_mean, from_environment, load, parse_properties
from ottla.broker.settings import FIELDS, BadSetting, Settings, parse_value, type_of


def test_later_sources_win() -> None:
    loaded = load({"num.partitions": "2", "group.max.size": "9"}, {"num.partitions": "3"})
    assert loaded.settings.num_partitions == 3
    assert loaded.settings.group_max_size == 9


def test_settings_of_disks_have_no_effect_where_a_database_has_the_logs() -> None:
    given = {"ottla.durability": "os", "log.dirs": "data", "num.partitions": "3"}
    assert load(given).without_effect == []
    loaded = load(given | {"ottla.cluster.url": "postgresql://a/logs"})
    assert loaded.without_effect == ["log.dirs", "ottla.durability"]


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
        ("ssl.engine.factory.class", "a.b.C"),
        ("principal.builder.class", "a.b.C"),
        ("listener.name.internal.oauthbearer.sasl.server.callback.handler.class", "a.b.C"),
        ("sasl.oauthbearer.jwt.validator.class", "a.b.C"),
        ("ssl.of.a.later.version", "1"),
        ("listener.name.internal.sasl.of.a.later.version", "1"),
    ],
)
def test_what_would_protect_and_is_not_there_is_told_from_typos(key: str, value: str) -> None:
    loaded = load({key: value})
    assert (loaded.unprotected, loaded.unknown, loaded.without_effect) == ([key], [], [])
    assert from_environment({"KAFKA_" + key.upper().replace(".", "_"): value}) == {key: value}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("autorizer.class.name", "authorizer.class.name"),
        ("super.user", "super.users"),
        ("ssl.client.auht", "ssl.client.auth"),
        ("otla.audit.file", "ottla.audit.file"),
        ("ottla.http.token.fil", "ottla.http.token.file"),
        ("listener.name.mtls.ssl.client.auht", "listener.name.mtls.ssl.client.auth"),
        ("listener.name.in.plain.sasl.jaas.conf", "listener.name.in.plain.sasl.jaas.config"),
    ],
)
def test_a_slip_for_a_key_of_security_is_told_from_others(key: str, meant: str) -> None:
    loaded = load({key: "x", "log.retention.hour": "1", "delegation.token.max": "3"})
    assert (loaded.unprotected, loaded.unknown) == ([key], ["log.retention.hour", "delegation.token.max"])
    assert did_you_mean(key) == f"; did you mean {meant}?"
    assert load({key: ""}).unprotected == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.provider", "BC"),
        ("security.providers", "a.b.C"),
        ("sasl.kerberos.service.name", "kafka"),
        ("sasl.login.class", "a.b.C"),
        ("sasl.oauthbearer.token.endpoint.url", "https://issuer/token"),  # the jwks endpoint's is another
        ("listener.name.internal.ssl.trustmanager.algorithm", "X"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        ("security.inter.broker.protocol", "SASL_SSL"),
    ],
)
def test_what_is_accepted_and_does_nothing_is_told(key: str, value: str) -> None:
    loaded = load({key: value})
    assert (loaded.unprotected, loaded.unknown, loaded.without_effect) == ([], [], [key])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("ssl.protocol", "TLSv1.3"),
        ("sasl.login.retry.backoff.ms", "100"),
        ("principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        ("sasl.oauthbearer.jwt.validator.class", ""),
    ],
)
def test_whoever_repeats_what_kafka_does_by_itself_is_told_nothing(key: str, value: str) -> None:
    loaded = load({key: value})
    assert (loaded.unprotected, loaded.without_effect) == ([], [])


def test_settings_of_a_listener_and_of_a_mechanism() -> None:
    settings = load(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.Internal.connections.max.reauth.ms": "2",
            "listener.name.internal.scram-sha-512.connections.max.reauth.ms": "3",
            "listener.name.internal.max.connections": "5",
            "listener.name.internal.plain.sasl.jaas.config": "secret",
        }
    ).settings
    key = "connections.max.reauth.ms"
    assert [settings.of_listener("OTHER", key), settings.of_listener("INTERNAL", key)] == [1, 2]
    assert settings.of_listener("INTERNAL", key, "SCRAM-SHA-512") == 3
    assert settings.of_listener("INTERNAL", key, "PLAIN") == 2
    assert settings.of_listener("INTERNAL", "max.connections") == 5
    assert settings.of_listener("INTERNAL", "sasl.jaas.config", "PLAIN") == "secret"


def test_a_setting_of_a_listener_is_checked_as_any() -> None:
    key = "listener.name.internal.connections.max.reauth.ms"
    with pytest.raises(BadSetting, match=f"{key}: .*allowed are 0 to"):
        load({key: "-1"})
    assert load({"listener.name.internal.num.partitions": "3"}).unknown == ["listener.name.internal.num.partitions"]


def test_keys_of_listeners_from_the_environment() -> None:
    """As Kafka's images have it: two underscores are one, three a dash."""
    given = {
        "KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___512_SASL_JAAS_CONFIG": "x",
        "OTTLA_LISTENER_NAME_INTERNAL_MAX_CONNECTIONS": "5",
    }
    assert from_environment(given) == {
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "x",
        "listener.name.internal.max.connections": "5",
    }


def test_values_that_stand_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "secrets.properties").write_text("key = kept\n")
    given = {
        "ssl.keystore.password": f"${{file:{tmp_path}/secret}}",
        "ssl.key.password": f"<${{file:{tmp_path}/secrets.properties:key}}>",
        "ssl.truststore.password": "${env:TRUSTED}",
    }
    settings = load(given, environment={"TRUSTED": "from here"}).settings
    assert settings.ssl_keystore_password == "s3cret"
    assert settings.ssl_key_password == "<kept>"
    assert settings.ssl_truststore_password == "from here"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${env:NOWHERE}", "the environment has no NOWHERE"),
        ("${file:/no/such/file}", "/no/such/file cannot be read: No such file"),
        ("${file:%s:other}", "has no line other="),
    ],
)
def test_a_value_that_is_not_where_it_should_be(value: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("key=s3cret\n")
    value = value.replace("%s", str(tmp_path / "file"))
    with pytest.raises(BadSetting, match=said) as caught:
        load({"ssl.key.password": value})
    assert "s3cret" not in str(caught.value)


def test_a_text_of_a_file_is_not_repeated_where_it_is_no_value(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("s3cret")
    with pytest.raises(BadSetting) as caught:
        load({"ssl.client.auth": f"${{file:{tmp_path}/file}}"})
    assert "s3cret" not in str(caught.value) and "ssl.client.auth" in str(caught.value)


def test_secrets_are_shown_to_nobody() -> None:
    secrets = {key: "s3cret" for key, field in FIELDS.items() if field.metadata["sensitive"]}
    settings = load(secrets | {"listener.name.x.ssl.key.password": "s3cret"}).settings
    assert len(secrets) >= 7 and "ssl.keystore.key" in secrets
    assert "s3cret" not in repr(settings)
    assert {row.value for row in settings.describe() if row.name in secrets} == {None}


def test_a_failure_is_told_before_its_connection_counts_as_idle() -> None:
    with pytest.raises(BadSetting) as caught:
        load({"connection.failed.authentication.delay.ms": "600000"})
    assert "connection.failed.authentication.delay.ms=600000" in str(caught.value)
    assert "connections.max.idle.ms=600000" in str(caught.value)


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
    loaded = load({"ssl.later": "/keys.jks", "so.so": "1"}, {"ssl.later": ""})
    assert (loaded.unprotected, loaded.unknown) == ([], ["ssl.later", "so.so"])


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
