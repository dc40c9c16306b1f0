"""The settings in force for a topic.

A topic stores the values that were given for it; every other key takes the broker's setting of the same meaning, and
where the broker has none, Kafka's default. `TopicConfig` is the part that our code reads, parsed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.kinds import ConfigSource, Synonym, as_list
from ottla.broker.core.topics.keys import TOPIC_KEYS, TopicKey
from ottla.broker.settings import INT64_MAX, Settings, as_text, key_of
from ottla.protocol.compression import Codec


class EffectiveValue(NamedTuple):
    """A key's value in force: that of its first synonym; its own default where there is none."""

    key: TopicKey
    value: str
    source: ConfigSource
    synonyms: tuple[Synonym, ...]


def invalid(configs: Iterable[tuple[str, str | None]]) -> str | None:
    """The fault of the settings given for a topic, or None.

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


def effective_value(key: TopicKey, overrides: Mapping[str, str], broker: BrokerConfigs) -> EffectiveValue:
    """A key's value in force for a topic, and where it comes from."""
    synonyms: list[Synonym] = []
    if (given := overrides.get(key.name)) is not None:
        synonyms.append(Synonym(key.name, given, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    if key.broker_key:
        if key.broker_attribute:
            synonyms.extend(broker.synonyms(key.broker_key))
        else:
            synonyms.append(Synonym(key.broker_key, key.default, ConfigSource.DEFAULT_CONFIG))
    value, source = synonyms[0][1:] if synonyms else (key.default, ConfigSource.DEFAULT_CONFIG)
    return EffectiveValue(key, value or "", source, tuple(synonyms))


def effective_values(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[EffectiveValue]:
    """Every key's value in force for a topic, by name."""
    return [effective_value(key, overrides, broker) for key in TOPIC_KEYS.values()]


_CODECS = {"uncompressed" if codec is Codec.NONE else codec.name.lower(): codec for codec in Codec}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings in force for one topic, parsed. Times in ms, sizes in bytes; names as Kafka's keys.

    ``compacted``, ``deletes``, ``log_append_time`` and ``codec`` are cleanup.policy, message.timestamp.type and
    compression.type as the questions that are asked of them: ``codec`` is None where the producer chooses, and
    ``compression_level`` is the codec's, None where it has none.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    compression_level: int | None = None
    compacted: bool = False
    deletes: bool = True
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    ottla_durability: str = "fsync"

    @classmethod
    def of(cls, overrides: Mapping[str, str], settings: Settings) -> TopicConfig:
        """Parse what is in force for a topic with these settings of its own, on a broker with those."""
        values = {}
        for key in TOPIC_KEYS.values():
            value = overrides.get(key.name)
            if value is None:
                attribute = key.broker_attribute
                value = as_text(getattr(settings, attribute)) if attribute else key.default
            values[key.name] = value.strip()
        policies = as_list(values["cleanup.policy"])
        codec = _CODECS.get(values["compression.type"])
        level = values.get(f"compression.{values['compression.type']}.level")
        same: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if (text := values.get(key_of(field.name))) is not None:
                kind: Any = type(field.default)
                same[field.name] = kind(text)
        return cls(
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            codec=codec,
            compression_level=None if level is None else int(level),
            compacted="compact" in policies,
            deletes="delete" in policies,
            **same,
        )

    @property
    def roll_after_ms(self) -> int:
        """The age at which a segment is ended: a compacted topic must not keep records out of compaction for longer
        than it may, and the segment that is written is never compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms
