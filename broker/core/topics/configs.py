"""The settings of a topic: Kafka's topic-level keys, their types, ranges, defaults and what they do.

A topic stores the values that were given for it; every other key takes the broker's setting of the same meaning, and
where the broker has none, Kafka's default. `TopicConfig` is the part that our code reads, parsed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.broker.settings import INT32_MAX, INT64_MAX, Settings, as_text, key_of


class ConfigType(IntEnum):
    """The type of a setting, as DescribeConfigs tells it (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs tells it (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


Check = Callable[[str], str | None]
"""Says what is wrong with a value, or None."""


class TopicKey(NamedTuple):
    """One topic-level key.

    ``broker_key`` is the broker setting that gives its default (its synonym); ``broker_attribute`` the attribute of
    `Settings` where we have it. ``effective`` tells whether this version of the broker acts on the key.
    """

    name: str
    type: ConfigType
    default: str
    check: Check
    documentation: str
    broker_key: str | None = None
    effective: bool = False

    @property
    def broker_attribute(self) -> str | None:
        attribute = self.broker_key.replace(".", "_") if self.broker_key else None
        return attribute if attribute in _SETTING_DEFAULTS else None


class Synonym(NamedTuple):
    """A place that gives a key its value."""

    name: str
    value: str
    source: ConfigSource


class EffectiveValue(NamedTuple):
    """A key's value in force: that of its first synonym; its own default where there is none."""

    key: TopicKey
    value: str
    source: ConfigSource
    synonyms: tuple[Synonym, ...]


def _whole(low: int, high: int, *extra: int) -> Check:
    def check(text: str) -> str | None:
        try:
            value = int(text)
        except ValueError:
            return "not a whole number"
        return None if low <= value <= high or value in extra else f"allowed are {low} to {high}"

    return check


def _ratio(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return "not a number"
    return None if 0 <= value <= 1 else "allowed are 0 to 1"


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "allowed are true and false"


def _one_of(*choices: str) -> Check:
    def check(text: str) -> str | None:
        return None if text in choices else f"allowed are {', '.join(choices)}"

    return check


def _policies(text: str) -> str | None:
    items = as_list(text)
    if len(set(items)) != len(items):
        return "the same policy twice"
    return None if set(items) <= {"delete", "compact"} else "allowed are delete, compact, or both"


def _throttled(text: str) -> str | None:
    """``*``, ``none``, or partition:broker pairs (KIP-73)."""
    items = as_list(text)
    if items in (["*"], ["none"]):
        return None
    for item in items:
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            return "allowed are *, none, or a list of partition:broker"
    return None


def as_list(text: str) -> list[str]:
    """The items of a comma-separated value."""
    return [item.strip() for item in text.split(",") if item.strip()]


_SETTING_DEFAULTS = {field.name: as_text(field.default) for field in dataclasses.fields(Settings)}
_INT, _LONG = ConfigType.INT, ConfigType.LONG
_STRING, _LIST, _BOOLEAN, _DOUBLE = ConfigType.STRING, ConfigType.LIST, ConfigType.BOOLEAN, ConfigType.DOUBLE
_WEEK = "604800000"
_DAY = "86400000"

_ROWS = (
    TopicKey(
        "cleanup.policy", _LIST, "delete", _policies,
        "delete drops old segments, compact keeps the last record of each key; a compacted topic takes no record "
        "without a key. Both may be given.",
        "log.cleanup.policy", effective=True,
    ),
    TopicKey(
        "compression.gzip.level", _INT, "-1", _whole(1, 9, -1), "Level where the broker itself compresses with gzip.",
        "compression.gzip.level",
    ),
    TopicKey(
        "compression.lz4.level", _INT, "9", _whole(1, 17), "Level where the broker itself compresses with lz4.",
        "compression.lz4.level",
    ),
    TopicKey(
        "compression.type", _STRING, "producer",
        _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "The codec of stored batches; producer keeps each batch as it was sent.",
        "compression.type",
    ),
    TopicKey(
        "compression.zstd.level", _INT, "3", _whole(-131072, 22), "Level where the broker itself compresses with zstd.",
        "compression.zstd.level",
    ),
    TopicKey(
        "delete.retention.ms", _LONG, _DAY, _whole(0, INT64_MAX),
        "How long a compacted topic keeps the markers of deleted keys.",
        "log.cleaner.delete.retention.ms",
    ),
    TopicKey(
        "file.delete.delay.ms", _LONG, "60000", _whole(0, INT64_MAX),
        "How long the file of a dropped segment stays on disk.",
        "log.segment.delete.delay.ms",
    ),
    TopicKey(
        "flush.messages", _LONG, str(INT64_MAX), _whole(1, INT64_MAX),
        "Records after which the log is synced to disk. What counts as durable here is ottla.durability.",
        "log.flush.interval.messages",
    ),
    TopicKey(
        "flush.ms", _LONG, str(INT64_MAX), _whole(0, INT64_MAX),
        "Time after which the log is synced to disk. What counts as durable here is ottla.durability.",
        "log.flush.interval.ms",
    ),
    TopicKey(
        "follower.replication.throttled.replicas", _LIST, "", _throttled,
        "Replicas whose copying is throttled on the side of the follower.",
    ),
    TopicKey(
        "index.interval.bytes", _INT, "4096", _whole(0, INT32_MAX), "Bytes of log between two entries of its index.",
        "log.index.interval.bytes", effective=True,
    ),
    TopicKey(
        "leader.replication.throttled.replicas", _LIST, "", _throttled,
        "Replicas whose copying is throttled on the side of the leader.",
    ),
    TopicKey(
        "local.retention.bytes", _LONG, "-2", _whole(-2, INT64_MAX),
        "Bytes of a tiered topic kept on local disk; -2 takes retention.bytes.",
        "log.local.retention.bytes",
    ),
    TopicKey(
        "local.retention.ms", _LONG, "-2", _whole(-2, INT64_MAX),
        "How long a tiered topic is kept on local disk; -2 takes retention.ms.",
        "log.local.retention.ms",
    ),
    TopicKey(
        "max.compaction.lag.ms", _LONG, str(INT64_MAX), _whole(1, INT64_MAX),
        "The longest that a record may stay out of compaction.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    TopicKey(
        "max.message.bytes", _INT, "1048588", _whole(0, INT32_MAX), "The largest record batch, as it is sent.",
        "message.max.bytes", effective=True,
    ),
    TopicKey(
        "message.timestamp.after.max.ms", _LONG, "3600000", _whole(0, INT64_MAX),
        "How far ahead of the broker's clock a record's timestamp may be (KIP-937).",
        "log.message.timestamp.after.max.ms", effective=True,
    ),
    TopicKey(
        "message.timestamp.before.max.ms", _LONG, str(INT64_MAX), _whole(0, INT64_MAX),
        "How far behind the broker's clock a record's timestamp may be (KIP-937).",
        "log.message.timestamp.before.max.ms", effective=True,
    ),
    TopicKey(
        "message.timestamp.type", _STRING, "CreateTime", _one_of("CreateTime", "LogAppendTime"),
        "Whether records carry the producer's time or the broker's.",
        "log.message.timestamp.type", effective=True,
    ),
    TopicKey(
        "min.cleanable.dirty.ratio", _DOUBLE, "0.5", _ratio, "How much of a log must be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    TopicKey(
        "min.compaction.lag.ms", _LONG, "0", _whole(0, INT64_MAX),
        "The least time that a record stays out of compaction.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    TopicKey(
        "min.insync.replicas", _INT, "1", _whole(1, INT32_MAX),
        "Replicas that must have a record before acks=all is answered. Never more than the topic has replicas.",
        "min.insync.replicas",
    ),
    TopicKey(
        "preallocate", _BOOLEAN, "false", _boolean, "Whether a segment's file is allocated at once.",
        "log.preallocate",
    ),
    TopicKey("remote.log.copy.disable", _BOOLEAN, "false", _boolean, "Stop copying a tiered topic to remote storage."),
    TopicKey(
        "remote.log.delete.on.disable", _BOOLEAN, "false", _boolean,
        "Delete the remote part of a topic when its tiered storage is turned off.",
    ),
    TopicKey(
        "remote.storage.enable", _BOOLEAN, "false", _boolean,
        "Tiered storage. This broker has none, so it cannot be turned on.",
    ),
    TopicKey(
        "retention.bytes", _LONG, "-1", _whole(-INT64_MAX - 1, INT64_MAX),
        "How large a partition may grow before old segments are dropped; -1: any.",
        "log.retention.bytes",
    ),
    TopicKey(
        "retention.ms", _LONG, _WEEK, _whole(-1, INT64_MAX), "How long records are kept; -1: for ever.",
        "log.retention.ms",
    ),
    TopicKey(
        "segment.bytes", _INT, "1073741824", _whole(1 << 20, INT32_MAX), "The size at which a new segment is begun.",
        "log.segment.bytes", effective=True,
    ),
    TopicKey(
        "segment.index.bytes", _INT, "10485760", _whole(4, INT32_MAX), "The largest size of a segment's index.",
        "log.index.size.max.bytes", effective=True,
    ),
    TopicKey(
        "segment.jitter.ms", _LONG, "0", _whole(0, INT64_MAX), "Random time taken off segment.ms.",
        "log.roll.jitter.ms",
    ),
    TopicKey(
        "segment.ms", _LONG, _WEEK, _whole(1, INT64_MAX), "The age at which a new segment is begun.",
        "log.roll.ms", effective=True,
    ),
    TopicKey(
        "unclean.leader.election.enable", _BOOLEAN, "false", _boolean, "Whether a replica that is behind may lead.",
        "unclean.leader.election.enable",
    ),
    TopicKey(
        "ottla.durability", _STRING, "fsync", _one_of("fsync", "interval", "os"),
        "When a record counts as written: fsync after it is on disk; interval and os after it was handed to the "
        "operating system, which interval is told to sync every ottla.durability.interval.ms.",
        "ottla.durability", effective=True,
    ),
)  # fmt: skip

TOPIC_KEYS: Mapping[str, TopicKey] = {row.name: row for row in sorted(_ROWS)}
"""Every topic-level key, by name."""


def invalid(configs: Iterable[tuple[str, str | None]]) -> str | None:
    """What is wrong with the settings given for a topic, or None if nothing is.

    The sentence is meant for the `error_message` beside INVALID_CONFIG.
    """
    given: dict[str, str] = {}
    for name, value in configs:
        key = TOPIC_KEYS.get(name)
        if key is None:
            return f"Unknown topic config name: {name}"
        if value is None:
            return f"Null value not supported for topic configs: {name}"
        if problem := key.check(value.strip()):
            return f"Invalid value {value} for configuration {name}: {problem}"
        given[name] = value.strip()
    if given.get("remote.storage.enable", "").lower() == "true":
        return "Tiered storage is not available on this broker: remote.storage.enable cannot be true"
    lag = int(given.get("min.compaction.lag.ms", "0"))
    if lag > int(given.get("max.compaction.lag.ms", str(INT64_MAX))):
        return f"min.compaction.lag.ms ({lag}) exceeds max.compaction.lag.ms ({given['max.compaction.lag.ms']})"
    return None


def effective_value(key: TopicKey, overrides: Mapping[str, str], settings: Settings) -> EffectiveValue:
    """A key's value in force for a topic, and where it comes from."""
    synonyms = []
    if (given := overrides.get(key.name)) is not None:
        synonyms.append(Synonym(key.name, given, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    default = key.default
    if attribute := key.broker_attribute:
        set_to = as_text(getattr(settings, attribute))
        default = _SETTING_DEFAULTS[attribute]
        if set_to != default:
            synonyms.append(Synonym(key_of(attribute), set_to, ConfigSource.STATIC_BROKER_CONFIG))
    if key.broker_key:
        synonyms.append(Synonym(key.broker_key, default, ConfigSource.DEFAULT_CONFIG))
    value, source = synonyms[0][1:] if synonyms else (default, ConfigSource.DEFAULT_CONFIG)
    return EffectiveValue(key, value, source, tuple(synonyms))


def effective_values(overrides: Mapping[str, str], settings: Settings) -> list[EffectiveValue]:
    """Every key's value in force for a topic, by name."""
    return [effective_value(key, overrides, settings) for key in TOPIC_KEYS.values()]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings in force for one topic, parsed. Times in ms, sizes in bytes; names as Kafka's keys.

    ``compacted``, ``deletes`` and ``log_append_time`` are cleanup.policy and message.timestamp.type as the questions
    that are asked of them.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    deletes: bool = True
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    ottla_durability: str = "fsync"

    @classmethod
    def of(cls, overrides: Mapping[str, str], settings: Settings) -> TopicConfig:
        """Parse what is in force for a topic with these settings of its own."""
        values = {entry.key.name: entry.value.strip() for entry in effective_values(overrides, settings)}
        policies = as_list(values["cleanup.policy"])
        return cls(
            max_message_bytes=int(values["max.message.bytes"]),
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            message_timestamp_before_max_ms=int(values["message.timestamp.before.max.ms"]),
            message_timestamp_after_max_ms=int(values["message.timestamp.after.max.ms"]),
            compacted="compact" in policies,
            deletes="delete" in policies,
            retention_ms=int(values["retention.ms"]),
            retention_bytes=int(values["retention.bytes"]),
            segment_bytes=int(values["segment.bytes"]),
            segment_ms=int(values["segment.ms"]),
            segment_index_bytes=int(values["segment.index.bytes"]),
            index_interval_bytes=int(values["index.interval.bytes"]),
            ottla_durability=values["ottla.durability"],
        )
