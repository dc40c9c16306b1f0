"""Settings under Kafka's own names, checked once.

A setting is declared once, as an attribute of `Settings` with its default, range and documentation; the key that users
write is the attribute with dots (``group_max_size`` is ``group.max.size``). Sources, later ones win: the defaults, a
properties file, the environment (``OTTLA_…`` and ``KAFKA_…``, dots as underscores), ``--set key=value``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class BadSetting(Exception):
    """A value that cannot be used; the message names the key, the value and what is allowed."""


class SettingRow(NamedTuple):
    """One setting as DescribeConfigs shows it. ``type`` is ``int``, ``bool``, ``str`` or ``list``."""

    name: str
    value: str
    default: str
    type: str
    documentation: str
    is_default: bool


def setting(
    default: Any,
    documentation: str,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    effective: bool = True,
) -> Any:
    """Declare a setting: its default, what it does, and its range (both ends included) or choices.

    One that is not ``effective`` is checked and described, as Kafka's tools and properties files know it, and has no
    effect yet; the user is warned.
    """
    metadata = {
        "documentation": documentation,
        "low": low,
        "high": high,
        "choices": choices,
        "effective": effective,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything about a broker that can be set. Times are in the unit that the name ends with."""

    # Who and where
    node_id: int = setting(1, "The id of this broker.", low=0, high=INT32_MAX)
    listeners: str = setting("PLAINTEXT://:9092", "Where to listen: PLAINTEXT://host:port.")
    advertised_listeners: str = setting(
        "", "What clients are told to connect to. Empty: the address at which each client reached the broker."
    )
    log_dirs: str = setting("", "The data directory. Empty: ./ottla-data.")

    # Connections
    max_connections: int = setting(
        10_000, "Connections open at a time; more are closed at once.", low=1, high=INT32_MAX
    )
    connections_max_idle_ms: int = setting(
        600_000, "A connection without traffic and without an open request is closed after this.", low=1, high=INT64_MAX
    )
    socket_request_max_bytes: int = setting(
        104_857_600, "The largest request; a frame that announces more closes its connection.", low=1, high=INT32_MAX
    )
    queued_max_request_bytes: int = setting(
        536_870_912,
        "Bytes of unfinished requests held in memory; above it, connections with large requests are not read. -1: any.",
        low=-1,
        high=INT64_MAX,
    )
    listener_backlog_size: int = setting(1024, "Connections that may wait to be accepted.", low=1, high=65_535)
    shutdown_drain_ms: int = setting(
        5_000, "How long a stopping broker waits for open requests to be answered.", low=0, high=INT32_MAX
    )
    protocol_codec: str = setting(
        "fused", "fused: compiled codecs; construct: the interpreted reference, for debugging.",
        choices=("fused", "construct"),
    )  # fmt: skip

    # Groups
    group_min_session_timeout_ms: int = setting(
        6_000, "The shortest session timeout a member may ask for.", low=1, high=INT32_MAX
    )
    group_max_session_timeout_ms: int = setting(1_800_000, "The longest session timeout.", low=1, high=INT32_MAX)
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "How long the first rebalance of an empty group waits for more members.", low=0, high=INT32_MAX
    )
    group_max_size: int = setting(INT32_MAX, "Members that a group may have.", low=1, high=INT32_MAX)
    group_generation_persist: str = setting(
        "sync", "When a generation is logged: at sync, as Kafka does, or already at join.", choices=("sync", "join")
    )
    offset_metadata_max_bytes: int = setting(
        4_096, "The longest metadata of a commit, in UTF-16 units.", low=0, high=INT32_MAX
    )
    offsets_retention_minutes: int = setting(
        10_080, "How long offsets outlive their group's members.", low=1, high=INT32_MAX
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, "How often expired offsets are looked for.", low=1, high=INT64_MAX
    )
    offsets_topic_num_partitions: int = setting(50, "Partitions of __consumer_offsets.", low=1, high=INT32_MAX)
    offsets_topic_replication_factor: int = setting(
        1, "Replicas of __consumer_offsets; one node has one.", low=1, high=32_767, effective=False
    )
    offsets_topic_segment_bytes: int = setting(
        104_857_600, "Segment size of __consumer_offsets.", low=1, high=INT32_MAX
    )
    offsets_commit_timeout_ms: int = setting(
        5_000, "How long a write of the coordinator may take.", low=1, high=INT32_MAX, effective=False
    )

    # Topics
    auto_create_topics_enable: bool = setting(True, "Create a topic when a client asks for its metadata.")
    delete_topic_enable: bool = setting(True, "Allow topics to be deleted.")
    num_partitions: int = setting(1, "Partitions of a topic that is created without a count.", low=1, high=INT32_MAX)
    default_replication_factor: int = setting(
        1, "Replicas of a topic that is created without a factor.", low=1, high=32_767
    )
    min_insync_replicas: int = setting(
        1, "Replicas that must have a record before acks=all is answered.", low=1, high=INT32_MAX, effective=False
    )
    unclean_leader_election_enable: bool = setting(False, "Allow a replica that is behind to lead.", effective=False)

    # Records and logs
    message_max_bytes: int = setting(1_048_588, "The largest record batch.", low=0, high=INT32_MAX)
    compression_type: str = setting(
        "producer",
        "Codec of stored batches.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        effective=False,
    )
    log_message_timestamp_type: str = setting(
        "CreateTime", "Whose time a record carries.", choices=("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_before_max_ms: int = setting(
        INT64_MAX, "How old a record's timestamp may be.", low=0, high=INT64_MAX
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000, "How far ahead a record's timestamp may be.", low=0, high=INT64_MAX
    )
    log_cleanup_policy: str = setting("delete", "What happens to old segments: delete, compact, or both.")
    log_retention_ms: int = setting(
        604_800_000, "How long records are kept; -1: for ever.", low=-1, high=INT64_MAX, effective=False
    )
    log_retention_bytes: int = setting(
        -1, "How large a partition may grow; -1: any.", low=-1, high=INT64_MAX, effective=False
    )
    log_segment_bytes: int = setting(1_073_741_824, "The size at which a new segment is begun.", low=14, high=INT32_MAX)
    log_roll_ms: int = setting(604_800_000, "The age at which a new segment is begun.", low=1, high=INT64_MAX)
    log_index_interval_bytes: int = setting(4_096, "Bytes of log between two index entries.", low=0, high=INT32_MAX)
    ottla_durability: str = setting(
        "fsync",
        "When a record counts as written: after fdatasync, or after the write.",
        choices=("fsync", "interval", "os"),
    )
    ottla_durability_interval_ms: int = setting(
        50, "Time between syncs under the policy interval.", low=1, high=INT32_MAX
    )

    # Reading
    fetch_max_bytes: int = setting(57_671_680, "The most that one Fetch is answered with.", low=1024, high=INT32_MAX)
    fetch_max_wait_ms: int = setting(
        300_000, "The longest that a Fetch is parked, whatever the client asks.", low=0, high=INT32_MAX
    )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def describe(self) -> list[SettingRow]:
        """Every setting, by name."""
        rows = []
        for field in dataclasses.fields(self):
            value, default = getattr(self, field.name), field.default
            rows.append(
                SettingRow(
                    key_of(field.name),
                    as_text(value),
                    as_text(default),
                    type(default).__name__,
                    field.metadata["documentation"],
                    value == default,
                )
            )
        return sorted(rows)


def key_of(attribute: str) -> str:
    """``group_max_size`` → ``group.max.size``."""
    return attribute.replace("_", ".")


def as_text(value: Any) -> str:
    """A value as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


FIELDS = {key_of(field.name): field for field in dataclasses.fields(Settings)}

NOT_SETTINGS = frozenset({"OTTLA_BOOTSTRAP_SERVERS", "OTTLA_TESTS", "OTTLA_SIM_SEEDS"})
"""Environment variables that the command-line tools and the tests read."""

# Kafka's older or finer-grained spellings of settings that we hold in one unit.
ALIASES: dict[str, tuple[str, int]] = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}


def parse_value(key: str, text: str) -> Any:
    """Read a value as its setting's type and check its range.

    Raises:
        BadSetting: it does not parse, or is out of range.
        KeyError: there is no such setting.
    """
    field = FIELDS[key]
    low, high, choices = field.metadata["low"], field.metadata["high"], field.metadata["choices"]
    text = text.strip()
    match field.default:
        case bool():
            if text.lower() not in ("true", "false"):
                raise BadSetting(f"{key}={text!r}: allowed are true and false")
            return text.lower() == "true"
        case int():
            try:
                value = int(text)
            except ValueError:
                raise BadSetting(f"{key}={text!r}: not a whole number; allowed are {low} to {high}") from None
            if (low is not None and value < low) or (high is not None and value > high):
                raise BadSetting(f"{key}={value}: allowed are {low} to {high}")
            return value
        case _:
            if choices and text not in choices:
                raise BadSetting(f"{key}={text!r}: allowed are {', '.join(choices)}")
            return text


def parse_properties(text: str) -> dict[str, str]:
    """Read the lines of a properties file: ``key=value``, ``#`` and ``!`` begin comments, ``\\`` continues a line."""
    pairs: dict[str, str] = {}
    logical = ""
    for raw in text.splitlines():
        line = logical + raw.strip()
        logical = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            logical = line[:-1]
            continue
        cut = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=len(line))
        pairs[line[:cut].strip()] = line[cut + 1 :].strip()
    return pairs


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among environment variables.

    Names that are no setting are left out if they begin with KAFKA_ (other tools share that prefix) and kept, to be
    warned about, if they begin with OTTLA_; but for those that other commands of ours read.
    """
    pairs: dict[str, str] = {}
    for prefix in ("KAFKA_", "OTTLA_"):
        for name, value in environment.items():
            if not name.startswith(prefix) or name in NOT_SETTINGS:
                continue
            key = name.removeprefix(prefix).lower().replace("_", ".")
            if key not in FIELDS and f"ottla.{key}" in FIELDS:
                key = f"ottla.{key}"
            if prefix == "OTTLA_" or key in FIELDS or key in ALIASES:
                pairs[key] = value
    return pairs


class Loaded(NamedTuple):
    """Checked settings, the keys that were not known, and those that were given and have no effect yet."""

    settings: Settings
    unknown: list[str]
    without_effect: list[str]


def load(*sources: Mapping[str, str] | Iterable[tuple[str, str]]) -> Loaded:
    """Merge sources (later ones win) and check every value.

    Raises:
        BadSetting: one line that names the key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for source in sources:
        for key, text in dict(source).items():
            target, factor = ALIASES.get(key, (key, 1))
            if target not in FIELDS:
                unknown.append(key)
            elif factor == 1:
                values[target] = parse_value(target, text)
            else:
                try:
                    number = int(text)
                except ValueError:
                    raise BadSetting(f"{key}={text!r}: not a whole number") from None
                values[target] = parse_value(target, str(number * factor if number >= 0 else number))
    if "," in values.get("log.dirs", ""):
        raise BadSetting(f"log.dirs={values['log.dirs']!r}: allowed is one directory")
    settings = Settings(**{FIELDS[key].name: value for key, value in values.items()})
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        raise BadSetting(
            f"group.min.session.timeout.ms={settings.group_min_session_timeout_ms}: must not exceed "
            f"group.max.session.timeout.ms={settings.group_max_session_timeout_ms}"
        )
    return Loaded(settings, unknown, [key for key in values if not FIELDS[key].metadata["effective"]])
