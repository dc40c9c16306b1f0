"""`ottla cluster`: several nodes: who is up, and who has which partitions; and what operators want of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ottla.cli import cluster_database, cluster_moves, cluster_status
from ottla.cli.cluster_doctor import doctor, migrate
from ottla.cli.cluster_export import export_command
from ottla.cli.cluster_import import import_command
from ottla.cli.cluster_options import Place, of_database
from ottla.cli.cluster_restored import restored_command
from ottla.cli.common import Answer, Silent, bootstrap_option, duration_option, format_option, formatted, with_admin
from ottla.cli.homes import homes_of, topic_rows
from ottla.cli.node import MOST_NODES
from ottla.cli.output import Refused, Row, Styled, count_of, duration, note, print_fields, print_json, say
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition
from ottla.protocol.stored.cluster_file import (
    CLUSTER_NAME,
    DOWN,
    DRAINING,
    NODES_NAME,
    UP,
    BadClusterFile,
    ClusterFile,
    directory_of,
    node_directories,
    read_cluster,
)
from ottla.protocol.stored.files import is_locked
from ottla.protocol.stored.names import META_NAME, directory_name

if TYPE_CHECKING:
    from ottla.broker.storage.local.relocate import Relocation
    from ottla.clients.cluster_admin import ClusterAdmin

_COLORS = {UP: "green", DOWN: "red"}

data_dir_argument = click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group("cluster")
def command() -> None:
    """Show nodes, and move partitions between them: of `ottla serve --nodes N`, and of those that share a database."""


for _one in (cluster_database.drain, cluster_database.resume, cluster_database.remove, cluster_database.history):
    command.add_command(_one)
for _one in (cluster_moves.move, cluster_moves.balance, doctor, migrate, import_command, export_command):
    command.add_command(_one)
command.add_command(restored_command)


@command.command("status", short_help="Show nodes, and what each leads.")
@click.argument("data_dir", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--watch", is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")
@duration_option("--interval", shortest="100ms", default="1s", help="Time between two looks, with --watch.")
@format_option
@of_database
@bootstrap_option
@click.pass_context
def status(
    context: click.Context,
    data_dir: Path | None,
    watch: bool,
    interval: float,
    output_format: str,
    place: Place,
    bootstrap: str,
) -> None:
    """Show the nodes of DATA_DIR, or those that share a database, or those that a broker knows.

    DATA_DIR and the database tell of nodes that are down, too, and why, also while nothing runs. A broker tells which
    are up; it is asked if you name one, or no database. Exit code 1 if a node is down, or does not answer, or if a
    partition has no leader.
    """
    is_named = context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    has_url = place.url is not None and (
        not is_named or context.get_parameter_source("url") is ParameterSource.COMMANDLINE
    )

    def look() -> dict[str, Any]:
        if data_dir is not None:
            return _of_directory(data_dir)
        if has_url:
            return cluster_database.reach(place, cluster_status.status_of)
        from ottla.clients.cluster_admin import ClusterAdmin

        return with_admin(bootstrap, _of_brokers, ClusterAdmin)

    def show(document: dict[str, Any]) -> None:
        if output_format == "json":
            print_json(document, indent=None if watch else 2)
        elif "database" in document:
            cluster_status.print_status(document)
        else:
            _print(document)

    if not watch:
        document = look()
        show(document)
        if document["leaderless"] or any(
            row["state"] not in (UP, DRAINING) or (row["why"] and row["state"] == UP) for row in document["nodes"]
        ):
            raise click.exceptions.Exit(1)
        return
    with suppress(KeyboardInterrupt):
        _watch(look, show, interval)


def _watch(look: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], None], interval_s: float) -> None:
    before: dict[str, Any] = {}
    while True:
        try:
            document = look()
        except Refused as error:
            if not before:
                raise
            document = {**before, "trouble": error.lines[0]}
        if cluster_status.lasting(document) != cluster_status.lasting(before):
            if "trouble" in document:
                note(document["trouble"])
            else:
                show(document)
        before = document
        time.sleep(interval_s)


def _of_directory(data_dir: Path) -> dict[str, Any]:
    from ottla.broker.settings import BadSetting

    try:
        cluster = read_cluster(data_dir)
        if cluster is None:
            raise Refused(
                f"{data_dir} is not a directory of several nodes.",
                f"Start some with: ottla serve --data-dir {data_dir} --nodes 3",
            )
        first_id = min(cluster.nodes)
        homes, rows = homes_of(data_dir, first_id), topic_rows(data_dir)
    except (BadClusterFile, BadSetting, OSError) as error:
        raise Refused(str(error)) from None
    offsets = rows.get(OFFSETS_TOPIC, {"partitions": 0})
    shards = Counter(offsets.get("homes") or [first_id] * offsets["partitions"])
    runs = is_locked(data_dir / NODES_NAME)
    return {
        "cluster_id": cluster.cluster_id,
        "supervisor": cluster.supervisor_pid if runs else None,
        "nodes": _rows(cluster, homes, shards, runs=runs),
        "leaderless": sum(count for one, count in homes.items() if not _leads(cluster, one, runs=runs)),
    }


def _leads(cluster: ClusterFile, node_id: int, *, runs: bool) -> bool:
    return runs and node_id in cluster.nodes and cluster.nodes[node_id].is_up


def _rows(cluster: ClusterFile, homes: Counter[int], shards: Counter[int], *, runs: bool) -> list[Row]:
    now_ms = time.time_ns() // 1_000_000
    return [
        {
            "node_id": node.node_id,
            "state": node.state if runs else DOWN,
            "address": node.address or None,
            "http": node.http and f"{node.http[0] or 'localhost'}:{node.http[1]}",
            "directory": node.directory,
            "pid": (node.pid or None) if runs else None,
            "epoch": None if node.epoch < 0 else node.epoch,
            "up_ms": now_ms - node.since_ms if runs and node.state == UP else None,
            "partitions": homes[node.node_id] if _leads(cluster, node.node_id, runs=runs) else 0,
            "group_shards": shards[node.node_id] if _leads(cluster, node.node_id, runs=runs) else 0,
            "why": node.why if runs else "no supervisor runs",
        }
        for node in cluster.nodes.values()
    ]


async def _of_brokers(admin: ClusterAdmin) -> dict[str, Any]:
    silent = Silent()
    await silent.spare(admin.list_groups(states=["Dead"]))  # asks each of them, and none has much to say
    cluster, topics = await admin.describe_cluster(), await admin.describe_topics()
    fenced = await admin.fenced_brokers()
    places = [place for topic in topics.values() for place in topic.partitions.values()]
    led = Counter(place.leader_id for place in places)
    shards = Counter(place.leader_id for place in places if place.topic == OFFSETS_TOPIC)
    epochs: dict[int, int] = {}
    for place in places:
        epochs[place.leader_id] = max(epochs.get(place.leader_id, -1), place.leader_epoch)
    nodes = [
        {
            "node_id": one.node_id,
            "state": DRAINING if one.node_id in fenced else UP,
            "address": f"{one.host}:{one.port}",
            "http": None,
            "directory": None,
            "pid": None,
            "epoch": epochs.get(one.node_id),
            "up_ms": None,
            "partitions": led[one.node_id],
            "group_shards": shards[one.node_id],
            "why": "it does not answer" if f"{one.host}:{one.port}" in silent.addresses else "",
        }
        for one in sorted(cluster.brokers)
    ]
    return {"cluster_id": cluster.cluster_id, "supervisor": None, "nodes": nodes, "leaderless": led[-1]}


def _print(document: dict[str, Any]) -> None:
    print_fields(
        ("node", "state", "address", "http", "pid", "epoch", "up for", "partitions", "group shards", "why"),
        document["nodes"],
        "node_id",
        lambda row: Styled(row["state"], _COLORS.get(row["state"], "yellow")),
        *("address", "http", "pid", "epoch"),
        lambda row: None if row["up_ms"] is None else duration(row["up_ms"] / 1000),
        *("partitions", "group_shards"),
        lambda row: row["why"] or None,
    )
    if document["leaderless"]:
        say(f"{count_of(document['leaderless'], 'partition')} without a leader.")


@command.command("spread", short_help="Move partitions until nodes have as many as each other.")
@data_dir_argument
@click.option("--nodes", metavar="N", type=click.IntRange(1, MOST_NODES), required=True, help="So many nodes.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and move nothing.")
@formatted
def spread(data_dir: Path, nodes: int, dry_run: bool) -> Answer:
    """Move partitions of DATA_DIR so that each of N nodes is the home of as many of each topic as the others.

    Nothing may run, and everything must have been stopped in order. Directories of logs are renamed: that takes no room
    and hardly any time. It may be interrupted; say the same again, and it goes on. No node starts before that.
    """
    from ottla.broker.engine import EngineError
    from ottla.broker.settings import BadSetting
    from ottla.broker.storage.local.files import SyncFailed

    try:
        with locked(data_dir) as first_id:
            return _spread(data_dir, first_id, nodes, dry_run=dry_run)
    except (EngineError, SyncFailed, BadSetting) as error:
        raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    except OSError as error:
        raise Refused(f"{error.filename or data_dir}: {error.strerror}.", "Say the same again to go on.") from None


def _spread(data_dir: Path, first_id: int, count: int, *, dry_run: bool) -> Answer:
    from ottla.broker.storage.local.relocate import Move
    from ottla.cli.spread import even

    node_ids = range(first_id, first_id + count)
    known = {one: directory_of(one, first_id) for one in sorted({*node_ids, *node_directories(data_dir), first_id})}
    relocation = _relocation(data_dir.absolute(), known)
    finished = relocation.finish() if relocation.is_begun and not dry_run else 0
    rows = topic_rows(data_dir)
    before = {name: row.get("homes") or [first_id] * row["partitions"] for name, row in rows.items()}
    after = even(before, node_ids)
    moved = [
        (TopicPartition(topic, partition), old, new)
        for topic in before
        for partition, (old, new) in enumerate(zip(before[topic], after[topic], strict=True))
        if old != new
    ]
    if not dry_run and (moved or any("homes" not in row for row in rows.values())):
        relocation.begin(after, [Move(directory_name(tp), known[old], known[new]) for tp, old, new in moved])
        relocation.finish()
        _move_snapshots(data_dir, [(directory_name(tp), known[old], known[new]) for tp, old, new in moved])
    if count == 1 and not dry_run:
        (data_dir / CLUSTER_NAME).unlink(missing_ok=True)  # a single broker's again
    was, now = (Counter(one for homes in all.values() for one in homes) for all in (before, after))
    found = [{"node_id": one, "before": was[one], "after": now[one]} for one in known]
    document = {"moved": len(moved), "finished": finished, "dry_run": dry_run, "nodes": found}

    def print_text() -> None:
        if finished:
            say(f"Finished what was interrupted: {count_of(finished, 'log')} moved.")
        print_fields(("node", "partitions before", "after"), found, "node_id", "before", "after")
        if dry_run:
            say(f"{count_of(len(moved), 'partition')} would be moved.")
        else:
            say(f"{count_of(len(moved), 'partition')} moved. Go on with this, and with your other options:")
            say(f"  ottla serve --data-dir {data_dir}{f' --nodes {count}' if count > 1 else ''}")

    return Answer(document, print_text)


def _relocation(data_dir: Path, directories: dict[int, str]) -> Relocation:
    from ottla.broker.storage.local.files import Files
    from ottla.broker.storage.local.relocate import Relocation

    devices = {(data_dir / one).stat().st_dev for one in directories.values() if (data_dir / one).exists()}
    if len(devices) > 1:
        raise Refused(f"Directories of nodes below {data_dir} are on several file systems: logs cannot be renamed.")
    return Relocation(Files(), str(data_dir), directories)


@contextmanager
def locked(data_dir: Path) -> Iterator[int]:
    """The id of the first node, while nobody else has one. Raises EngineError, OSError, SyncFailed and Refused."""
    from ottla.broker.storage.local.directory import make_data_directory, take_lock
    from ottla.broker.storage.local.files import Files, read_file
    from ottla.broker.storage.local.layout import Layout, decode_meta

    files, layout = Files(), Layout(str(data_dir.absolute()))
    meta = read_file(files, layout.meta)
    if meta is None:
        raise Refused(f"{data_dir} is no data directory: there is no {META_NAME}.")
    first_id = decode_meta(meta, layout.meta)[1]
    below = Layout(str(data_dir.absolute() / NODES_NAME))
    make_data_directory(files, below)
    locks = []
    try:
        for one in (below, layout, *(Layout(str(path.absolute())) for path in node_directories(data_dir).values())):
            locks.append(take_lock(files, one))
        yield first_id
    finally:
        for lock in locks:
            files.close(lock)


def _move_snapshots(data_dir: Path, moves: list[tuple[str, str, str]]) -> None:
    """Let what partitions remember of producers go along. It saves time at the next start, and may be lost."""
    from ottla.broker.storage.local.snapshots import PRODUCERS, SUFFIX

    for name, source, target in moves:
        with suppress(OSError):
            there, file = data_dir / target / PRODUCERS, f"{name}{SUFFIX}"
            there.mkdir(mode=0o700, exist_ok=True)
            (data_dir / source / PRODUCERS / file).replace(there / file)
