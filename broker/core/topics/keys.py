"""The settings of a topic: Kafka's topic-level keys, their types, ranges, defaults and what they do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.core.configs.kinds import Check, ConfigType, boolean, one_of, policies, ratio, throttled, whole
from ottla.broker.settings import INT32_MAX, INT64_MAX, Settings, as_text


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


_SETTING_DEFAULTS = {field.name: as_text(field.default) for field in dataclasses.fields(Settings)}
_INT, _LONG = ConfigType.INT, ConfigType.LONG
_STRING, _LIST, _BOOLEAN, _DOUBLE = ConfigType.STRING, ConfigType.LIST, ConfigType.BOOLEAN, ConfigType.DOUBLE
_WEEK = "604800000"
_DAY = "86400000"

_ROWS = (
    TopicKey(
        "cleanup.policy", _LIST, "delete", policies,
        "delete drops old segments, compact keeps the last record of each key; a compacted topic takes no record "
        "without a key. Both may be given.",
        "log.cleanup.policy", effective=True,
    ),
    TopicKey(
        "compression.gzip.level", _INT, "-1", whole(1, 9, -1), "Level where the broker itself compresses with gzip.",
        "compression.gzip.level", effective=True,
    ),
    TopicKey(
        "compression.lz4.level", _INT, "9", whole(1, 17), "Level where the broker itself compresses with lz4.",
        "compression.lz4.level", effective=True,
    ),
    TopicKey(
        "compression.type", _STRING, "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "The codec of stored batches; producer keeps each batch as it was sent.",
        "compression.type", effective=True,
    ),
    TopicKey(
        "compression.zstd.level", _INT, "3", whole(-131072, 22), "Level where the broker itself compresses with zstd.",
        "compression.zstd.level", effective=True,
    ),
    TopicKey(
        "delete.retention.ms", _LONG, _DAY, whole(0, INT64_MAX),
        "How long a compacted topic keeps the markers of deleted keys.",
        "log.cleaner.delete.retention.ms", effective=True,
    ),
    TopicKey(
        "file.delete.delay.ms", _LONG, "60000", whole(0, INT64_MAX),
        "How long the file of a dropped segment stays on disk.",
        "log.segment.delete.delay.ms",
    ),
    TopicKey(
        "flush.messages", _LONG, str(INT64_MAX), whole(1, INT64_MAX),
        "Records after which the log is synced to disk. What counts as durable here is ottla.durability.",
        "log.flush.interval.messages",
    ),
    TopicKey(
        "flush.ms", _LONG, str(INT64_MAX), whole(0, INT64_MAX),
        "Time after which the log is synced to disk. What counts as durable here is ottla.durability.",
        "log.flush.interval.ms",
    ),
    TopicKey(
        "follower.replication.throttled.replicas", _LIST, "", throttled,
        "Replicas whose copying is throttled on the side of the follower.",
    ),
    TopicKey(
        "index.interval.bytes", _INT, "4096", whole(0, INT32_MAX), "Bytes of log between two entries of its index.",
        "log.index.interval.bytes", effective=True,
    ),
    TopicKey(
        "leader.replication.throttled.replicas", _LIST, "", throttled,
        "Replicas whose copying is throttled on the side of the leader.",
    ),
    TopicKey(
        "local.retention.bytes", _LONG, "-2", whole(-2, INT64_MAX),
        "Bytes of a tiered topic kept on local disk; -2 takes retention.bytes.",
        "log.local.retention.bytes",
    ),
    TopicKey(
        "local.retention.ms", _LONG, "-2", whole(-2, INT64_MAX),
        "How long a tiered topic is kept on local disk; -2 takes retention.ms.",
        "log.local.retention.ms",
    ),
    TopicKey(
        "max.compaction.lag.ms", _LONG, str(INT64_MAX), whole(1, INT64_MAX),
        "The longest that a record may stay out of compaction.",
        "log.cleaner.max.compaction.lag.ms", effective=True,
    ),
    TopicKey(
        "max.message.bytes", _INT, "1048588", whole(0, INT32_MAX), "The largest record batch, as it is sent.",
        "message.max.bytes", effective=True,
    ),
    TopicKey(
        "message.timestamp.after.max.ms", _LONG, "3600000", whole(0, INT64_MAX),
        "How far ahead of the broker's clock a record's timestamp may be (KIP-937).",
        "log.message.timestamp.after.max.ms", effective=True,
    ),
    TopicKey(
        "message.timestamp.before.max.ms", _LONG, str(INT64_MAX), whole(0, INT64_MAX),
        "How far behind the broker's clock a record's timestamp may be (KIP-937).",
        "log.message.timestamp.before.max.ms", effective=True,
    ),
    TopicKey(
        "message.timestamp.type", _STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
        "Whether records carry the producer's time or the broker's.",
        "log.message.timestamp.type", effective=True,
    ),
    TopicKey(
        "min.cleanable.dirty.ratio", _DOUBLE, "0.5", ratio, "How much of a log must be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio", effective=True,
    ),
    TopicKey(
        "min.compaction.lag.ms", _LONG, "0", whole(0, INT64_MAX),
        "The least time that a record stays out of compaction.",
        "log.cleaner.min.compaction.lag.ms", effective=True,
    ),
    TopicKey(
        "min.insync.replicas", _INT, "1", whole(1, INT32_MAX),
        "Replicas that must have a record before acks=all is answered. Never more than the topic has replicas.",
        "min.insync.replicas",
    ),
    TopicKey(
        "preallocate", _BOOLEAN, "false", boolean, "Whether a segment's file is allocated at once.",
        "log.preallocate",
    ),
    TopicKey("remote.log.copy.disable", _BOOLEAN, "false", boolean, "Stop copying a tiered topic to remote storage."),
    TopicKey(
        "remote.log.delete.on.disable", _BOOLEAN, "false", boolean,
        "Delete the remote part of a topic when its tiered storage is turned off.",
    ),
    TopicKey(
        "remote.storage.enable", _BOOLEAN, "false", boolean,
        "Tiered storage. This broker has none, so it cannot be turned on.",
    ),
    TopicKey(
        "retention.bytes", _LONG, "-1", whole(-INT64_MAX - 1, INT64_MAX),
        "How large a partition may grow before old segments are dropped; -1: any.",
        "log.retention.bytes", effective=True,
    ),
    TopicKey(
        "retention.ms", _LONG, _WEEK, whole(-1, INT64_MAX), "How long records are kept; -1: for ever.",
        "log.retention.ms", effective=True,
    ),
    TopicKey(
        "segment.bytes", _INT, "1073741824", whole(1 << 20, INT32_MAX), "The size at which a new segment is begun.",
        "log.segment.bytes", effective=True,
    ),
    TopicKey(
        "segment.index.bytes", _INT, "10485760", whole(4, INT32_MAX), "The largest size of a segment's index.",
        "log.index.size.max.bytes", effective=True,
    ),
    TopicKey(
        "segment.jitter.ms", _LONG, "0", whole(0, INT64_MAX),
        "Random time, up to this, taken off segment.ms for each partition.",
        "log.roll.jitter.ms", effective=True,
    ),
    TopicKey(
        "segment.ms", _LONG, _WEEK, whole(1, INT64_MAX), "The age at which a new segment is begun.",
        "log.roll.ms", effective=True,
    ),
    TopicKey(
        "unclean.leader.election.enable", _BOOLEAN, "false", boolean, "Whether a replica that is behind may lead.",
        "unclean.leader.election.enable",
    ),
    TopicKey(
        "ottla.durability", _STRING, "fsync", one_of("fsync", "interval", "os"),
        "When a record counts as written: fsync after it is on disk; interval and os after it was handed to the "
        "operating system, which interval is told to sync every ottla.durability.interval.ms.",
        "ottla.durability", effective=True,
    ),
)  # fmt: skip

TOPIC_KEYS: Mapping[str, TopicKey] = {row.name: row for row in sorted(_ROWS)}
"""Every topic-level key, by name."""
