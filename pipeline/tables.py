"""The tables of the lake, declared once: what Arrow, Spark, Parquet and the documentation know of them comes from here.

Times are UTC with microseconds, made from milliseconds; ``*_ms`` are milliseconds. Every table begins with
``cluster_id``; silver tables are partitioned by ``log_date``, gold tables by ``date``, and both stand last. All columns
may be NULL as far as files are concerned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 3
"""Version of the schemas here; it is noted in the lake, and a lake of a later one is refused."""


class Column(NamedTuple):
    """A column; ``kind`` is a type as Spark writes it."""

    name: str
    kind: str
    text: str = ""


class Table(NamedTuple):
    """A table of the lake.

    Attributes:
        layer: ``bronze``, ``silver`` or ``gold``.
        columns: all but ``cluster_id`` and the partition column.
        key: the columns that name a row, besides ``cluster_id``.
        text: what it holds.
    """

    layer: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    text: str

    @property
    def partition_column(self) -> str:
        return "date" if self.layer == "gold" else "log_date"

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns as they stand in the lake."""
        first = Column("cluster_id", "STRING", "the cluster that it was read from")
        return first, *self.columns, Column(self.partition_column, "DATE", "the day of the row, in UTC")

    def ddl(self, *, whole: bool = True) -> str:
        """The schema in Spark's words; without the first and the last column it is what the source gives."""
        return ", ".join(f"`{one.name}` {one.kind}" for one in (self.all_columns if whole else self.columns))

    def arrow(self, *, whole: bool = True) -> pa.Schema:
        """The schema in Arrow's words, as Spark wants it."""
        import pyarrow as pa

        columns = self.all_columns if whole else self.columns
        return pa.schema([pa.field(one.name, arrow_type(one.kind)) for one in columns])


def arrow_type(kind: str) -> pa.DataType:
    """Arrow's type for one of Spark's.

    Raises:
        ValueError: it is none that tables use.
    """
    import pyarrow as pa

    simple = {
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "BOOLEAN": pa.bool_(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    if kind in simple:
        return simple[kind]
    if inner := re.fullmatch(r"ARRAY<(.*)>", kind):
        return pa.list_(pa.field("element", arrow_type(inner[1])))
    if inner := re.fullmatch(r"STRUCT<(.*)>", kind):
        pairs = (part.strip().partition(" ") for part in _split(inner[1]))
        return pa.struct([pa.field(name, arrow_type(of.strip())) for name, _, of in pairs])
    raise ValueError(f"no such type: {kind}")


def _split(fields: str) -> list[str]:
    """At the commas that stand in no inner brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(fields):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append(fields[start:index])
            start = index + 1
    return [*parts, fields[start:]]


TABLES: dict[str, Table] = {}
"""All by name, in the order in which they are declared: gold tables may read those before them."""


def _table(name: str, text: str, key: str, *columns: Column) -> Table:
    """Declare a table: ``layer.name``, what it holds, and the names of its key's columns."""
    layer, _, name = name.partition(".")
    TABLES[name] = Table(layer, name, columns, tuple(key.split()), text)
    return TABLES[name]


OWNED = "ARRAY<STRUCT<topic STRING, partition INT>>"
MEMBERS = (
    "ARRAY<STRUCT<member_id STRING, group_instance_id STRING, client_id STRING, client_host STRING, "
    "rebalance_timeout_ms INT, session_timeout_ms INT, subscription_version SMALLINT, topics ARRAY<STRING>, "
    f"owned {OWNED}, assigned {OWNED}>>"
)
_LOG = (
    Column("log_partition", "INT", "partition of __consumer_offsets, 0 to 49"),
    Column("log_offset", "BIGINT", "offset in it"),
    Column("log_ts", "TIMESTAMP", "time of the record"),
)
_GROUP = Column("group_id", "STRING", "the group")
_CLIENT = (Column("client_id", "STRING"), Column("client_host", "STRING"))
_PLACE = (_GROUP, Column("topic", "STRING", "topic of the partition"), Column("partition", "INT", "the partition"))

OFFSETS_LOG = _table(
    "bronze.offsets_log",
    "Every record of __consumer_offsets as it is; only with --keep-raw.",
    "log_partition log_offset",
    *_LOG,
    Column("key", "BINARY", "as written"),
    Column("value", "BINARY", "as written; NULL deletes the key"),
)
OFFSET_COMMITS = _table(
    "silver.offset_commits",
    "Every offset that was committed, deleted or expired.",
    "log_partition log_offset",
    *_LOG,
    Column("key_version", "SMALLINT", "0 or 1"),
    _GROUP,
    Column("topic", "STRING", "topic whose offset is committed"),
    Column("partition", "INT", "its partition"),
    Column("committed_offset", "BIGINT", "next offset to read; NULL in a tombstone"),
    Column("leader_epoch", "INT", "-1 is unknown; NULL in a tombstone"),
    Column("metadata", "STRING", "what the client noted"),
    Column("commit_ts", "TIMESTAMP", "when the coordinator took it"),
    Column("expire_ts", "TIMESTAMP", "only in values of version 1"),
    Column("value_version", "SMALLINT", "0 to 4; NULL in a tombstone"),
    Column("is_tombstone", "BOOLEAN", "the offset was deleted or has expired"),
)
GROUP_GENERATIONS = _table(
    "silver.group_generations",
    "Every generation that became stable or empty.",
    "log_partition log_offset",
    *_LOG,
    _GROUP,
    Column("value_version", "SMALLINT", "0 to 4; NULL in a tombstone"),
    Column("protocol_type", "STRING", "consumer, connect, …"),
    Column("generation", "INT"),
    Column("protocol", "STRING", "the assignor that was chosen"),
    Column("leader_id", "STRING", "member id of the leader"),
    Column("state_ts", "TIMESTAMP", "last change of state, since version 2"),
    Column("is_tombstone", "BOOLEAN", "the group was deleted"),
    Column("member_count", "INT"),
    Column("members", MEMBERS, "details only where protocol_type is consumer"),
)
_PARTITIONS = "ARRAY<STRUCT<topic_id STRING, partition INT>>"
CONSUMER_GROUP_CHANGES = _table(
    "silver.consumer_group_changes",
    "Every record of a group of the consumer protocol (KIP-848). What a record does not say is NULL.",
    "log_partition log_offset",
    *_LOG,
    _GROUP,
    Column("record", "STRING", "group_epoch, member, target_epoch, target, assignment, regex or old_topics"),
    Column("is_tombstone", "BOOLEAN", "what it is of is gone"),
    Column("member_id", "STRING", "of member, target and assignment"),
    Column("epoch", "INT", "of the group, of its target, or of the member"),
    Column("previous_epoch", "INT", "of the member"),
    Column("state", "STRING", "of an assignment: STABLE, UNREVOKED_PARTITIONS or UNRELEASED_PARTITIONS"),
    Column("partitions", _PARTITIONS, "that the member has, or of a target, that it shall have"),
    Column("to_revoke", _PARTITIONS, "that the member has to give up first"),
    Column("metadata_hash", "BIGINT", "of the group's topics; 0 if there are none"),
    Column("computed_at", "TIMESTAMP", "of a target or regex: when"),
    Column("topics", "ARRAY<STRING>", "that the member names, or that the regex matches"),
    Column("regex", "STRING"),
    Column("assignor", "STRING", "that the member asks for"),
    Column("group_instance_id", "STRING", "of a static member"),
    Column("rack_id", "STRING"),
    *_CLIENT,
    Column("rebalance_timeout_ms", "INT"),
    Column("session_timeout_ms", "INT", "of a member of the classic protocol"),
    Column("is_classic", "BOOLEAN", "the member uses the classic protocol"),
)
LOG_END_SAMPLES = _table(
    "silver.log_end_samples",
    "Where logs began and ended, every ten seconds.",
    "topic partition sample_ts",
    Column("sample_ts", "TIMESTAMP", "when it was seen"),
    Column("topic", "STRING"),
    Column("partition", "INT"),
    Column("log_start_offset", "BIGINT"),
    Column("log_end_offset", "BIGINT", "the high watermark"),
)
RECORD_TIMES = _table(
    "silver.record_times",
    "How old the first unread record of each partition was when a run began: of running clusters.",
    "topic partition record_offset",
    Column("topic", "STRING"),
    Column("partition", "INT"),
    Column("record_offset", "BIGINT", "where a group stood with records unread"),
    Column("record_ts", "TIMESTAMP", "time of the record there, as the log has it"),
)
GROUP_EVENTS = _table(
    "silver.group_events",
    "What happened to groups, from __ottla_group_events; empty for Apache Kafka.",
    "group_id ts event member_id",
    Column("ts", "TIMESTAMP", "when it happened"),
    _GROUP,
    Column("generation", "INT"),
    Column("event", "STRING", "see docs/group-events.md"),
    Column("reason", "STRING", "cause, and the client's or the coordinator's words"),
    Column("member_id", "STRING"),
    *_CLIENT,
    Column("duration_ms", "BIGINT", "from the start of the rebalance to its end; only of rebalance_completed"),
)
QUARANTINE = _table(
    "silver.quarantine",
    "Records of __consumer_offsets that are of no type or version that is known, or damaged.",
    "log_partition log_offset",
    *_LOG,
    Column("error", "STRING", "why it could not be read"),
    Column("key", "BINARY", "as written"),
    Column("value", "BINARY", "as written"),
)
_table(
    "gold.lag_by_partition",
    "Lag of every partition in every minute.",
    "group_id topic partition minute",
    *_PLACE,
    Column("minute", "TIMESTAMP", "its beginning"),
    Column("committed_offset", "BIGINT", "the last one up to the end of the minute"),
    Column("log_end_offset", "BIGINT", "at the last sample of the minute"),
    Column("lag_records", "BIGINT", "at least 0"),
    Column("lag_seconds", "DOUBLE", "age of the oldest record that is not read"),
    Column("lag_seconds_is_minimum", "BOOLEAN", "the group stands before the first sample: it is at least that"),
    Column("commits", "BIGINT", "in the minute; 0 carries the last one forward"),
    Column("last_commit_ts", "TIMESTAMP"),
    Column("consumed", "BIGINT", "records in the minute"),
    Column("produced", "BIGINT", "records in the minute"),
)
_table(
    "gold.lag_by_topic",
    "Lag of every topic in every minute.",
    "group_id topic minute",
    _GROUP,
    Column("topic", "STRING"),
    Column("minute", "TIMESTAMP", "its beginning"),
    Column("lag_seconds", "DOUBLE", "of the worst partition"),
    Column("lag_records", "BIGINT", "of all partitions together"),
    Column("lag_seconds_is_minimum", "BOOLEAN", "of any partition"),
    Column("partitions", "BIGINT", "how many of them"),
)
_table(
    "gold.group_members",
    "Who owned what in every generation: a row for each partition.",
    "group_id generation log_ts member_id topic partition",
    _GROUP,
    Column("generation", "INT"),
    Column("log_ts", "TIMESTAMP", "when the generation was written"),
    Column("protocol", "STRING"),
    Column("is_leader", "BOOLEAN"),
    Column("member_id", "STRING"),
    Column("group_instance_id", "STRING", "of a static member"),
    *_CLIENT,
    Column("session_timeout_ms", "INT"),
    Column("rebalance_timeout_ms", "INT"),
    Column("topic", "STRING", "NULL for a member that owns nothing"),
    Column("partition", "INT"),
)
_table(
    "gold.partition_owners",
    "From when to when each member owned a partition.",
    "group_id topic partition since generation",
    _GROUP,
    Column("topic", "STRING"),
    Column("partition", "INT"),
    Column("member_id", "STRING"),
    *_CLIENT,
    Column("generation", "INT", "in which the member got the partition"),
    Column("since", "TIMESTAMP", "when that was written"),
    Column("until", "TIMESTAMP", "NULL while it has it"),
)
_table(
    "gold.rebalances",
    "Every generation beside the one before it.",
    "group_id generation completed_at",
    _GROUP,
    Column("generation", "INT"),
    Column("prev_generation", "INT", "NULL for the first that is known"),
    Column("completed_at", "TIMESTAMP"),
    Column("duration_ms", "BIGINT", "NULL without the event topic"),
    Column("reason", "STRING", "NULL without the event topic"),
    Column("trigger_member", "STRING", "the culprit, else the trigger; without the event topic who left or joined"),
    Column("members_after", "INT"),
    Column("members_before", "INT"),
    Column("joined", "ARRAY<STRING>", "member ids"),
    Column("left_members", "ARRAY<STRING>", "member ids"),
    Column("partitions_moved", "INT"),
    Column("partitions_total", "INT"),
    Column("since_prev_ms", "BIGINT"),
    Column(
        "commit_gap_ms",
        "BIGINT",
        "from the last commit before to the first one after it, of the partition in the middle; NULL if the next "
        "rebalance came before a commit, or an hour passed",
    ),
    Column("generations_missing", "INT", "more than 0: compacted away, or never written"),
)
_table(
    "gold.consumer_rebalances",
    "Rebalances of groups of the consumer protocol, and their upgrades and downgrades.",
    "group_id log_offset",
    _GROUP,
    Column("log_offset", "BIGINT", "of the record that began it, in its partition of __consumer_offsets"),
    Column("kind", "STRING", "rebalance, or upgrade or downgrade: of the group to and from this protocol"),
    Column("started_at", "TIMESTAMP", "when the epoch of the group rose"),
    Column("ended_at", "TIMESTAMP", "when the last member had all of its target; NULL while one has not"),
    Column("outcome", "STRING", "stable, empty, superseded (another one began before) or running"),
    Column("duration_ms", "BIGINT", "NULL while it is running, and where it was superseded"),
    Column("epoch_before", "INT", "of the group"),
    Column("epoch", "INT", "of the group, and of its target"),
    Column("bumps", "INT", "how often the epoch rose before there was a target"),
    Column("cause", "STRING", "as far as records show: member-joined, member-left, subscription-changed, …"),
    Column("trigger_member", "STRING", "who came, went or changed"),
    Column("members", "INT", "in the end"),
    Column("moved_members", "INT", "whose target changed"),
    Column("slowest_member", "STRING", "who was the last to have its target"),
    Column("revocation_ms", "BIGINT", "the longest time that a member took to give partitions up"),
    Column("revoked_by", "STRING", "that member"),
)
REBALANCE_RUNS = _table(
    "gold.rebalance_runs",
    "Rebalances that followed each other within a minute; one alone is a run too.",
    "group_id sid",
    _GROUP,
    Column("sid", "BIGINT", "names the run in its group: seconds since 1970 of its first rebalance"),
    Column("kind", "STRING", "storm or rolling_restart; NULL for fewer than five"),
    Column("started_at", "TIMESTAMP", "of the first rebalance; without the event topic, when that ended"),
    Column("ended_at", "TIMESTAMP", "when the last one ended"),
    Column("rebalances", "BIGINT"),
    Column("generations_missing", "BIGINT", "more that came before or between: compacted away, or never written"),
    Column("paused_ms", "BIGINT", "sum of the durations; NULL without the event topic"),
    Column("commit_gap_ms", "BIGINT", "the longest of them, see rebalances"),
    Column("worst_lag_seconds", "DOUBLE", "from the first rebalance to three minutes after the last"),
    Column("partitions_moved", "BIGINT"),
    Column("members", "INT", "at most"),
    Column("client", "STRING", "whose coming or going began most of them"),
    Column("suspect_client", "STRING", "of a storm: the client that began half of it"),
    Column("main_reason", "STRING", "NULL without the event topic"),
    Column("distinct_triggers", "BIGINT"),
    Column("distinct_clients", "BIGINT"),
)
_table(
    "gold.rebalance_storms",
    "Runs of five rebalances or more.",
    "group_id sid",
    *REBALANCE_RUNS.columns,
)
_table(
    "gold.member_sessions",
    "From when to when each member was there.",
    "group_id member_id",
    _GROUP,
    Column("member_id", "STRING"),
    *_CLIENT,
    Column("first_seen", "TIMESTAMP"),
    Column("last_seen", "TIMESTAMP"),
    Column("first_generation", "INT"),
    Column("last_generation", "INT"),
    Column("generations", "BIGINT"),
    Column("departed", "BOOLEAN", "it is not in the last generation"),
)
_table(
    "gold.flapping_clients",
    "Clients of which three members or more left on one day.",
    "group_id client_id date",
    _GROUP,
    Column("client_id", "STRING"),
    Column("sessions", "BIGINT", "that ended on this day"),
    Column("shortest_generations", "BIGINT", "generations of the shortest"),
    Column("median_seconds", "DOUBLE", "that a session lasted"),
    Column("hosts", "ARRAY<STRING>"),
    Column("last_seen", "TIMESTAMP"),
)
_table(
    "gold.commit_rates",
    "How much each group writes to __consumer_offsets, day by day.",
    "log_partition group_id date",
    Column("log_partition", "INT", "partition of __consumer_offsets"),
    _GROUP,
    Column("commits", "BIGINT", "of the group on this day"),
    Column("per_s", "DOUBLE", "between its first and its last on this day"),
    Column("partition_commits", "BIGINT", "of all groups of the partition on this day"),
    Column("last_commit", "TIMESTAMP"),
)
_table(
    "gold.rewinds",
    "Every commit that lies before the one that preceded it.",
    "group_id log_offset",
    *_PLACE,
    Column("log_offset", "BIGINT", "of the commit, in its partition of __consumer_offsets"),
    Column("log_ts", "TIMESTAMP", "when it was written"),
    Column("committed_offset", "BIGINT"),
    Column("records_repeated", "BIGINT", "between it and the commit before"),
)
_table(
    "gold.partition_status",
    "How each partition stands, at the newest record.",
    "group_id topic partition",
    *_PLACE,
    Column("lag", "BIGINT"),
    Column("status", "STRING", "OK, WARN, STOP, REWIND or STALL, by Burrow's rules"),
    Column("last_commit", "TIMESTAMP"),
)
_table(
    "gold.lag_forecast",
    "Where the lag of the last half hour leads.",
    "group_id topic",
    _GROUP,
    Column("topic", "STRING"),
    Column("as_of", "TIMESTAMP"),
    Column("lag_now", "BIGINT"),
    Column("lag_per_s", "DOUBLE", "records per second that the lag grows by"),
    Column("r2", "DOUBLE", "how well a line fits, up to 1"),
    Column("minutes_to_500k", "DOUBLE", "NULL where it does not grow"),
    Column("minutes_to_drain", "DOUBLE", "NULL where it does not shrink"),
)
_table(
    "gold.slo_breaches",
    "Runs of minutes in which a group was behind by more than its objective.",
    "group_id topic started_at",
    _GROUP,
    Column("topic", "STRING"),
    Column("started_at", "TIMESTAMP"),
    Column("last_minute", "TIMESTAMP"),
    Column("minutes", "BIGINT"),
    Column("worst_lag_seconds", "DOUBLE"),
)
_table(
    "gold.findings",
    "What an operator would want to know of, one row for each thing that is wrong.",
    "group_id kind started_at topic",
    _GROUP,
    Column("kind", "STRING", "see docs/pipeline.md"),
    Column("started_at", "TIMESTAMP"),
    Column("ended_at", "TIMESTAMP", "NULL while it lasts"),
    Column("topic", "STRING", "NULL where it is of the group as a whole"),
    Column("partitions", "INT", "how many of them"),
    Column("suspect", "STRING", "client or member that is to blame, NULL if nobody can be named"),
    Column("evidence", "STRING", "a sentence with the figures"),
)

BRONZE, SILVER, GOLD = (
    tuple(table for table in TABLES.values() if table.layer == layer) for layer in ("bronze", "silver", "gold")
)
