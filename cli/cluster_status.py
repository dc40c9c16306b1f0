"""`ottla cluster status --cluster`: nodes, leaders and the server, straight from the database that the nodes share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.cli.cluster_database import DOWN, DRAINING, UP, Reached, Survey
from ottla.cli.output import Row, Styled, count_of, duration, print_fields, say
from ottla.clients.partitions import label
from ottla.protocol.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.records import TopicPartition

COLORS = {UP: "green", DRAINING: "yellow", DOWN: "red"}
SHOWN = 10
"""So many partitions without a leader are named."""
OLD_SNAPSHOT_MS = 3_600_000


async def status_of(reached: Reached) -> dict[str, Any]:
    """What the database knows, as one document."""
    survey, partitions = await reached.survey(), await reached.partitions()
    at_home = Counter(row.home for row in survey.logs)
    leaderless = _leaderless(survey, partitions)
    nodes = [
        {
            "node_id": node.node_id,
            "state": node.state,
            "address": node.address,
            "up_ms": None if node.state == DOWN else node.up_ms,
            "beat_ms": node.beat_ms,
            "partitions": len(led) if node.state != DOWN else 0,
            "at_home": at_home[node.node_id],
            "group_shards": _shards([row.log_id for row in led], partitions) if node.state != DOWN else 0,
            "why": node.why,
        }
        for node in survey.nodes.values()
        for led in [survey.led_by(node)]
    ]
    return {
        "cluster_id": reached.database.cluster_id,
        "supervisor": None,
        "nodes": nodes,
        "leaderless": len(leaderless),
        "without_leader": leaderless,
        "database": dict(survey.database),
    }


def _shards(log_ids: list[int], partitions: Mapping[int, TopicPartition]) -> int:
    return sum(partitions[one].topic == OFFSETS_TOPIC for one in log_ids if one in partitions)


def _leaderless(survey: Survey, partitions: Mapping[int, TopicPartition]) -> list[Row]:
    """The partitions that nobody leads who is up, each with who led it last, and since when nobody does."""
    lives = {(node.node_id, node.incarnation): node for node in survey.nodes.values()}
    rows: list[Row] = []
    for log in survey.logs:
        leader = lives.get((log.leader_id, log.leader_incarnation))
        if log.log_id not in partitions or (leader is not None and leader.state != DOWN):
            continue
        since_ms = survey.leaderless_ms.get(log.log_id) if leader is None else leader.beat_ms
        was = None if log.leader_id < 0 else log.leader_id
        rows.append({"partition": label(partitions[log.log_id]), "led_by_last": was, "since_ms": since_ms})
    return sorted(rows, key=lambda row: str(row["partition"]))


def lasting(document: dict[str, Any]) -> dict[str, Any]:
    """A document without what changes by the mere passing of time."""
    changing = {"size_bytes": None, "oldest_snapshot": None}
    return document | {
        "nodes": [row | {"up_ms": None, "beat_ms": None} for row in document.get("nodes", ())],
        "without_leader": [row["partition"] for row in document.get("without_leader", ())],
        "database": document.get("database", {}) | changing,
    }


def print_status(document: dict[str, Any]) -> None:
    """The document for people."""
    print_fields(
        ("node", "state", "address", "last beat", "up for", "partitions", "at home", "group shards", "why"),
        document["nodes"],
        "node_id",
        lambda row: Styled(row["state"], COLORS[row["state"]]),
        "address",
        lambda row: _ago(row["beat_ms"]),
        lambda row: None if row["up_ms"] is None else duration(row["up_ms"] / 1000),
        *("partitions", "at_home", "group_shards"),
        lambda row: row["why"] or None,
    )
    rows = document["without_leader"]
    if rows:
        say(f"{count_of(len(rows), 'partition')} without a leader:", fg="red")
        for row in rows[:SHOWN]:
            last = "" if row["led_by_last"] is None else f", led by node {row['led_by_last']} before"
            since = "" if row["since_ms"] is None else f" for {duration(row['since_ms'] / 1000)}"
            say(f"  {row['partition']}{since}{last}")
        if len(rows) > SHOWN:
            say(f"  … and {len(rows) - SHOWN} more")
    _print_database(document["database"])


def _ago(age_ms: int | None) -> str | None:
    return None if age_ms is None else f"{duration(age_ms / 1000)} ago"


def _print_database(database: Mapping[str, Any]) -> None:
    where = "a local socket" if database["host"] is None else f"{database['host']}:{database['port']}"
    size = f"{database['size_bytes'] / (1 << 20):,.0f} MiB"
    say(f"Database: PostgreSQL {database['version']} at {where}, timeline {database['timeline']}, {size}.")
    names = database["synchronous_standby_names"]
    standbys = ", ".join(
        one["name"] + (f" ({one['sync_state']})" if one["sync_state"] else "") for one in database["standbys"]
    )
    asked = f"commits wait for {names}" if names else "commits wait for none"
    say(f"Standbys: {standbys or 'none'}; {asked}.")
    snapshot = database["oldest_snapshot"]
    if snapshot is not None:
        whose = snapshot["application"] or f"user {snapshot['user']}"
        old = snapshot["age_ms"] >= OLD_SNAPSHOT_MS
        more = ": as long as it is open, the room of deleted rows is not used again" if old else ""
        say(f"Oldest snapshot: {duration(snapshot['age_ms'] / 1000)}, of {whose}{more}.", fg="yellow" if old else None)
