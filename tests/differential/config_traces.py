"""Changing settings of topics, brokers and groups, and what is described afterwards."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import WHO, alter, configs, made
from tests.differential.quota_traces import SEEN_MS
from tests.differential.tracing import Trace

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def replace(t: Trace, kind: int, name: str, version: int = 2, only_check: bool = False, **keys: str | None) -> None:
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in keys.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    t.call(WHO, ApiKey.ALTER_CONFIGS, version, resources=[resource], validate_only=only_check)


def trace_alter_topics(t: Trace) -> None:
    name = made(t)
    for version in range(2):
        alter(t, TOPIC, name, ("retention.ms", SET, " 1000 "), version=version)
        configs(t, TOPIC, name, ["retention.ms"])
        alter(t, TOPIC, name, ("retention.ms", SET, "604800000"), version=version)
        configs(t, TOPIC, name, ["retention.ms"])
        alter(t, TOPIC, name, ("retention.ms", DELETE, None), version=version)
        configs(t, TOPIC, name, ["retention.ms"])
    alter(t, TOPIC, name)
    alter(t, TOPIC, name, ("retention.ms", SET, "5"), only_check=True)
    configs(t, TOPIC, name, ["retention.ms"])


def trace_alter_lists(t: Trace) -> None:
    name = made(t)
    for operation, value in (
        (APPEND, "compact"), (APPEND, "compact"), (SUBTRACT, "delete"), (SUBTRACT, "compact"), (SUBTRACT, "delete"),
        (SET, "delete,delete"), (SET, ""), (APPEND, "delete"), (APPEND, "shrink"), (SET, "shrink"), (DELETE, ""),
    ):  # fmt: skip
        alter(t, TOPIC, name, ("cleanup.policy", operation, value))
        configs(t, TOPIC, name, ["cleanup.policy"])
    alter(t, TOPIC, name, ("leader.replication.throttled.replicas", APPEND, "0:1"))
    configs(t, TOPIC, name, ["leader.replication.throttled.replicas"])


def trace_alter_topics_refused(t: Trace) -> None:
    name = made(t, retention_ms="7")
    for changes in (
        [("nonsense", SET, "1")],
        [("nonsense", DELETE, "")],
        [("retention.ms", SET, "x")],
        [("retention.ms", SET, "")],
        [("retention.ms", SET, "-2")],
        [("retention.ms", SET, None)],
        [("retention.ms", APPEND, "5")],
        [("retention.ms", SUBTRACT, "5")],
        [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
        [("retention.ms", SET, "5"), ("retention.ms", DELETE, "")],
        [("retention.ms", SET, "5"), ("nonsense", SET, "1")],
        [("min.compaction.lag.ms", SET, "6"), ("max.compaction.lag.ms", SET, "5")],
        [("compression.type", SET, "rar")],
        [("compression.gzip.level", SET, "0")],
        [("compression.zstd.level", SET, "23")],
        [("segment.bytes", SET, "1048575")],
        [("max.message.bytes", SET, "-1")],
        [("min.cleanable.dirty.ratio", SET, "1.1")],
        [("preallocate", SET, "yes")],
        [("remote.storage.enable", SET, "true")],
        [("leader.replication.throttled.replicas", SET, "x")],
        [("flush.ms", SET, "-1")],
    ):
        alter(t, TOPIC, name, *changes)
        alter(t, TOPIC, name, *changes, only_check=True)
    configs(t, TOPIC, name, None)
    for other in (f"{t.name}-absent", "", "a b"):
        alter(t, TOPIC, other, ("retention.ms", SET, "5"))
        alter(t, TOPIC, other, ("nonsense", SET, "5"))
    for kind in (0, 3, 77):
        alter(t, kind, "x", ("a", SET, "b"))
    twice = {"resource_type": TOPIC, "resource_name": name}
    t.call(WHO, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[twice, twice])


def trace_replace_settings(t: Trace) -> None:
    name = made(t)
    for version in range(3):
        replace(t, TOPIC, name, version, retention_ms="500", segment_ms="600")
        configs(t, TOPIC, name, ["retention.ms", "segment.ms"])
        replace(t, TOPIC, name, version, segment_ms="700")
        configs(t, TOPIC, name, ["retention.ms", "segment.ms"])
        replace(t, TOPIC, name, version, True, segment_ms="800")
        replace(t, TOPIC, name, version, segment_ms=None)
        replace(t, TOPIC, name, version, segment_ms="x")
        replace(t, TOPIC, name, version, nonsense="1")
        replace(t, TOPIC, f"{name}-absent", version, segment_ms="1")
        configs(t, TOPIC, name, ["retention.ms", "segment.ms"])
        replace(t, TOPIC, name, version)
        configs(t, TOPIC, name, ["retention.ms", "segment.ms"])


def trace_alter_brokers(t: Trace) -> None:
    for name in ("", "1"):
        for key, value in (
            ("node.id", "3"),
            ("group.max.size", "3"),
            ("log.cleaner.enable", "false"),
            ("log.retention.hours", "3"),
            ("log.retention.ms", "x"),
            ("log.retention.ms", None),
            ("log.cleaner.min.cleanable.ratio", "2"),
            ("log.segment.bytes", "100"),
            ("compression.type", "rar"),
        ):
            alter(t, BROKER, name, (key, SET, value))
        alter(t, BROKER, name, ("log.retention.bytes", APPEND, "5"))
        alter(t, BROKER, name, ("log.retention.bytes", SET, "5"), only_check=True)
    for name in ("7", "x", "-1"):
        alter(t, BROKER, name, ("log.retention.bytes", SET, "5"))
    configs(t, BROKER, "1", ["log.retention.bytes", "log.cleaner.backoff.ms"])


def trace_secured_settings_of_listeners(t: Trace) -> None:
    """A key for one listener is read only, whatever may be changed of it; a secret has no value."""
    own = "listener.name.sasl_plaintext."
    mechanisms = [f"{own}{mechanism}.sasl.jaas.config" for mechanism in ("plain", "scram-sha-512")]
    stores = ["ssl.keystore.password", "ssl.truststore.password", "ssl.keystore.key", "ssl.key.password"]
    configs(t, BROKER, "1", [*mechanisms, *stores, "ssl.enabled.protocols", "ssl.cipher.suites"])
    alter(t, BROKER, "1", (f"{own}ssl.keystore.password", SET, "secret"), ("no.such.key", SET, "x"))
    t.settle(SEEN_MS)
    configs(t, BROKER, "1", [f"{own}ssl.keystore.password", "no.such.key"])
    alter(t, BROKER, "1", (f"{own}ssl.keystore.password", DELETE, None), ("no.such.key", DELETE, None))


def trace_alter_groups(t: Trace) -> None:
    name = t.name
    configs(t, GROUP, name, None)
    configs(t, GROUP, "", None)
    for key, value in (
        ("consumer.session.timeout.ms", "50000"),
        ("consumer.session.timeout.ms", "999"),
        ("consumer.session.timeout.ms", "5000"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.heartbeat.interval.ms", "499"),
        ("consumer.heartbeat.interval.ms", "16000"),
        ("consumer.heartbeat.interval.ms", "x"),
        ("consumer.assignment.interval.ms", "15001"),
        ("share.auto.offset.reset", "earliest"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.isolation.level", "read_committed"),
        ("share.isolation.level", "x"),
        ("share.record.lock.duration.ms", "1"),
        ("share.delivery.count.limit", "11"),
        ("streams.num.standby.replicas", "3"),
        ("nonsense", "1"),
    ):
        alter(t, GROUP, name, (key, SET, value))
        configs(t, GROUP, name, ["consumer.session.timeout.ms", "share.auto.offset.reset", "share.isolation.level"])
    alter(t, GROUP, name, ("consumer.session.timeout.ms", DELETE, ""))
    configs(t, GROUP, name, None, include_synonyms=True)
    alter(t, GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))
    replace(t, GROUP, name, consumer_heartbeat_interval_ms="6000")
    configs(t, GROUP, name, None)


def trace_alter_loggers(t: Trace) -> None:
    for name in ("1", "2", "x", ""):
        alter(t, LOGGER, name, ("root", SET, "WARN"))
        alter(t, LOGGER, name, ("root", SET, "LOUD"))
        alter(t, LOGGER, name, ("root", DELETE, ""))
        alter(t, LOGGER, name, ("root", APPEND, "WARN"))
        alter(t, LOGGER, name, ("no.such", SET, "WARN"))
        alter(t, LOGGER, name, ("no.such", DELETE, ""))
        alter(t, LOGGER, name, ("root", SET, "WARN"), ("root", SET, "INFO"))
        configs(t, LOGGER, name, ["root"])
        replace(t, LOGGER, name, root="WARN")
