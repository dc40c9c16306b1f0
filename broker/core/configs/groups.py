"""The settings of groups: of the consumer, share and streams protocols (KIP-848, KIP-932, KIP-1071).

Those of the consumer protocol are in effect, within the bounds that the broker's settings have for them. Share and
streams groups are not served here: their settings are checked, kept and described. Their bounds are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.kinds import Check, ConfigSource, ConfigType, Synonym, boolean, one_of, whole
from ottla.broker.settings import FIELDS, INT32_MAX, Settings

_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE)


SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


class GroupKey(NamedTuple):
    """One key of a group. ``broker_key`` names the broker setting of the same meaning, as synonyms show it."""

    name: str
    type: ConfigType
    default: str
    check: Check
    documentation: str

    @property
    def broker_key(self) -> str:
        shared = self.name in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
        return self.name if shared else f"group.{self.name}"

    @property
    def effective(self) -> bool:
        """Whether anything here goes by it."""
        return self.name.startswith("consumer.")


def _reset(text: str) -> str | None:
    if text in ("earliest", "latest") or _DURATION.fullmatch(text):
        return None
    return "allowed are earliest, latest, or by_duration: and an ISO 8601 duration of days or less"


_INT, _STRING, _BOOLEAN = ConfigType.INT, ConfigType.STRING, ConfigType.BOOLEAN
_SESSION, _HEARTBEAT, _ASSIGNMENT = whole(45_000, 60_000), whole(5_000, 15_000), whole(0, 15_000)
_SESSION_TEXT = "How long a member may be silent before it is taken for gone, with the {} protocol."
_HEARTBEAT_TEXT = "How often a member is to send heartbeats, with the {} protocol."
_ASSIGNMENT_TEXT = "The least time between two assignments, with the {} protocol."

_ROWS = (
    GroupKey("consumer.assignment.interval.ms", _INT, "1000", _ASSIGNMENT, _ASSIGNMENT_TEXT.format("consumer")),
    GroupKey("consumer.heartbeat.interval.ms", _INT, "5000", _HEARTBEAT, _HEARTBEAT_TEXT.format("consumer")),
    GroupKey("consumer.session.timeout.ms", _INT, "45000", _SESSION, _SESSION_TEXT.format("consumer")),
    GroupKey("share.assignment.interval.ms", _INT, "1000", _ASSIGNMENT, _ASSIGNMENT_TEXT.format("share")),
    GroupKey("share.auto.offset.reset", _STRING, "latest", _reset, "Where a new share group begins to read."),
    GroupKey("share.delivery.count.limit", _INT, "5", whole(2, 10), "How often a share group is given a record."),
    GroupKey("share.heartbeat.interval.ms", _INT, "5000", _HEARTBEAT, _HEARTBEAT_TEXT.format("share")),
    GroupKey(
        "share.isolation.level", _STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"),
        "Whether a share group is given records of transactions that are open or were aborted.",
    ),
    GroupKey(
        "share.partition.max.record.locks", _INT, "2000", whole(100, 4_000),
        "Records of a partition that a share group may have acquired at a time.",
    ),
    GroupKey(
        "share.record.lock.duration.ms", _INT, "30000", whole(15_000, 60_000),
        "How long a member of a share group may keep a record that it acquired.",
    ),
    GroupKey(
        "share.renew.acknowledge.enable", _BOOLEAN, "true", boolean,
        "Whether members of a share group may keep acquired records for longer.",
    ),
    GroupKey("share.session.timeout.ms", _INT, "45000", _SESSION, _SESSION_TEXT.format("share")),
    GroupKey("streams.assignment.interval.ms", _INT, "1000", _ASSIGNMENT, _ASSIGNMENT_TEXT.format("streams")),
    GroupKey("streams.heartbeat.interval.ms", _INT, "5000", _HEARTBEAT, _HEARTBEAT_TEXT.format("streams")),
    GroupKey(
        "streams.initial.rebalance.delay.ms", _INT, "3000", whole(0, INT32_MAX),
        "How long the first rebalance of an empty streams group waits for more members.",
    ),
    GroupKey("streams.num.standby.replicas", _INT, "0", whole(0, 2), "Standby tasks that a streams group has."),
    GroupKey("streams.session.timeout.ms", _INT, "45000", _SESSION, _SESSION_TEXT.format("streams")),
)  # fmt: skip

GROUP_KEYS: Mapping[str, GroupKey] = {row.name: row for row in _ROWS}
"""Every key of groups, by name."""


def invalid_group_configs(configs: Mapping[str, str], settings: Settings) -> str | None:
    """The fault of a group's settings, or None.

    Args:
        settings: the broker's, which have the bounds, and what holds where a group has nothing of its own.
    """
    for name, value in configs.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            return f"Unknown group config name: {name}"
        if problem := _bounds(name, settings, key.check)(value):
            return f"Invalid value {value} for configuration {name}: {problem}"
    session_ms = int(configs.get(SESSION, settings.group_consumer_session_timeout_ms))
    heartbeat_ms = int(configs.get(HEARTBEAT, settings.group_consumer_heartbeat_interval_ms))
    if session_ms > heartbeat_ms:
        return None
    session, heartbeat = (
        f"{name} ({value}{'' if name in configs else ', as the broker has it'})"
        for name, value in ((SESSION, session_ms), (HEARTBEAT, heartbeat_ms))
    )
    return f"{session} must be greater than {heartbeat}"


def _bounds(name: str, settings: Settings, otherwise: Check) -> Check:
    """The check of a key by the bounds that the broker's settings have for it, if they have any."""
    match name:
        case "consumer.session.timeout.ms":
            low, high = settings.group_consumer_min_session_timeout_ms, settings.group_consumer_max_session_timeout_ms
        case "consumer.heartbeat.interval.ms":
            low = settings.group_consumer_min_heartbeat_interval_ms
            high = settings.group_consumer_max_heartbeat_interval_ms
        case "consumer.assignment.interval.ms":
            low = settings.group_consumer_min_assignment_interval_ms
            high = settings.group_consumer_max_assignment_interval_ms
        case _:
            return otherwise

    def check(text: str) -> str | None:
        try:
            int(text)
        except ValueError:
            return "not a whole number of milliseconds, such as 7000"
        least, most = (f"group.{name.replace('consumer.', f'consumer.{end}.')}" for end in ("min", "max"))
        problem = whole(low, high)(text)
        return problem and f"{problem}; to change that, restart the broker with another {least} or {most}"

    return check


def group_synonyms(key: GroupKey, configs: Mapping[str, str], broker: BrokerConfigs) -> tuple[Synonym, ...]:
    """Every place that gives a key of a group a value; the first one counts."""
    defaults: tuple[Synonym, ...] = (Synonym(key.broker_key, key.default, ConfigSource.DEFAULT_CONFIG),)
    if key.broker_key in FIELDS:
        defaults = broker.synonyms(key.broker_key)
    given = configs.get(key.name)
    return defaults if given is None else (Synonym(key.name, given, ConfigSource.GROUP_CONFIG), *defaults)
