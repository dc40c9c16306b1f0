"""`ottla cluster import`: the topics, groups and records of a data directory into the database of a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.broker.settings import BadSetting, Settings
from ottla.cli.cluster_options import Place, of_database
from ottla.cli.common import Answer, formatted
from ottla.cli.damage import refuse_a_part
from ottla.cli.output import Refused, count_of, note, say
from ottla.protocol.records import BatchError, TopicPartition, check_crc, iter_batches
from ottla.protocol.stored.cluster_file import NODES_NAME, node_directories
from ottla.protocol.stored.names import META_NAME

if TYPE_CHECKING:
    from ottla.broker.core.topics.catalog import Catalog
    from ottla.broker.storage.local.engine import LocalEngine
    from ottla.broker.storage.local.log import LocalLog
    from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase
    from ottla.broker.storage.postgres.at_rest import ClusterAtRest

TOLD_EVERY_S = 2.0
"""How often it is told how far it is."""
READ_BYTES = 4 << 20


def of_cluster(function: Callable[..., Answer]) -> Callable[..., None]:
    """A command that goes to a database of which no node runs; its function gets ``settings``."""

    @of_database
    @wraps(function)
    def command(place: Place, **options: Any) -> Answer:
        from ottla.broker.core.topics.catalog import BadCatalog
        from ottla.broker.engine import EngineError
        from ottla.broker.storage.local.files import SyncFailed

        try:
            return function(settings=place.loaded().settings, **options)
        except BadSetting as error:
            raise click.UsageError(str(error)) from None
        except (EngineError, BadCatalog, BatchError, SyncFailed) as error:
            text = str(error)
            is_place = text.startswith("postgresql:")
            raise Refused(f"{text if is_place else text[:1].upper() + text[1:]}.") from None
        except OSError as error:
            raise Refused(f"{error.filename or 'The directory'}: {error.strerror or error}.") from None

    return formatted(command)


class Moved(NamedTuple):
    """What is in its new place, and was compared."""

    topics: int = 0
    partitions: int = 0
    records: int = 0
    bytes: int = 0

    @property
    def text(self) -> str:
        return ", ".join(count_of(count, noun.removesuffix("s"), ",") for noun, count in self._asdict().items())


class Progress:
    """Tells on standard error how far it is, now and then."""

    def __init__(self, verb: str, partitions: int) -> None:
        self._verb = verb
        self._of = partitions
        self._partitions = 0
        self._bytes = 0
        self._due_s = time.monotonic() + TOLD_EVERY_S

    def went_on(self, count: int) -> None:
        """So many bytes more."""
        self._bytes += count
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + TOLD_EVERY_S
            note(f"{self._verb}: {self._partitions} of {count_of(self._of, 'partition')}, {self._bytes >> 20} MiB.")

    def next(self) -> None:
        """One partition more."""
        self._partitions += 1
        self.went_on(0)


class Stored(NamedTuple):
    """A partition of a topic, and its log in a directory, with the last snapshot of its producers if there is one."""

    tp: TopicPartition
    log: LocalLog
    snapshot: Mapping[str, Any] | None


class Directory:
    """A data directory, of one broker or of several nodes, open as at a start. See `opened`."""

    def __init__(self, engines: Mapping[int, LocalEngine], catalog: Catalog) -> None:
        self._engines = engines
        self._first = engines[min(engines)]
        self.catalog = catalog

    @property
    def cluster_id(self) -> str:
        return self._first.cluster_id

    @property
    def epoch(self) -> int:
        """The newest epoch of any of its logs."""
        return max(engine.leader_epoch for engine in self._engines.values())

    async def open_logs(self) -> list[Stored]:
        """Open the logs of all partitions. Raises `EngineError`."""
        from ottla.broker.engine import LogConfig

        found = []
        for entry in self.catalog.topics.values():
            homes = entry.homes or [self._first.node_id] * entry.partition_count
            for partition, home in enumerate(homes):
                engine, snapshot = self._engines[home], None
                log = await engine.open_log(entry.name, entry.topic_id, partition, LogConfig())
                with suppress(OSError, ValueError):  # it only spares a node to read the log
                    snapshot = engine.snapshots.load(log.tp)
                found.append(Stored(log.tp, log, snapshot))
        return found


def directories(data_dir: Path) -> dict[int, Path]:
    """The directories of the nodes of a data directory, by their ids, in ascending order: one, if it is a broker's.

    Raises:
        Refused: it is none, or a part of one.
        BadSetting: moving partitions between its nodes was interrupted, or a node's directory is missing.
        EngineError: it cannot be used.
    """
    from ottla.broker.storage.local.layout import decode_meta
    from ottla.cli.homes import check_homes

    refuse_a_part(data_dir, "ottla cluster import")
    meta = data_dir / META_NAME
    if not meta.exists():
        raise Refused(f"{data_dir} is no data directory: there is no {META_NAME}.")
    first_id = decode_meta(meta.read_bytes(), str(meta))[1]
    found = {first_id: data_dir, **node_directories(data_dir)}
    check_homes(data_dir, first_id, max(found) - first_id + 1 if (data_dir / NODES_NAME).is_dir() else None)
    return {node_id: path.absolute() for node_id, path in found.items()}


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[Directory]:
    """A data directory on which nothing runs. Its journal is brought to the segments, as at each start.

    Raises as `directories`, and ``EngineError`` where it is in use, or damaged.
    """
    from uuid import uuid4

    from ottla.broker.core.topics.catalog import Catalog
    from ottla.broker.storage.local.directory import take_lock
    from ottla.broker.storage.local.engine import LocalEngine
    from ottla.broker.storage.local.files import Files
    from ottla.broker.storage.local.layout import Layout

    files, found = Files(), directories(data_dir)
    first_id = min(found)
    async with AsyncExitStack() as stack:
        if len(found) > 1:  # their supervisor starts any of them at any time
            stack.callback(files.close, take_lock(files, Layout(str(found[first_id] / NODES_NAME))))
        engines = {}
        for node_id, path in found.items():
            engine = engines[node_id] = LocalEngine(str(path), node_id=node_id, new_uuid=uuid4)
            stack.push_async_callback(engine.close)
            await engine.open()
        yield Directory(engines, Catalog.from_state(engines[first_id].catalog.load()))


@asynccontextmanager
async def at_rest(settings: Settings, cluster_id: str = "") -> AsyncIterator[tuple[ClusterAtRest, AsyncpgDatabase]]:
    """The database of a cluster of which no node runs.

    Args:
        cluster_id: of a cluster that is new with this.

    Raises:
        BadSetting, EngineError: it cannot be used, or reached; `InUse` names a node that runs.
    """
    from ottla.broker.clock import LoopClock
    from ottla.broker.core.topics.homes import FOLLOWERS
    from ottla.broker.storage.postgres.at_rest import ClusterAtRest
    from ottla.cli.database_node import database_of

    database = database_of(settings, cluster_id)
    await database.open()
    clock, writer = LoopClock(asyncio.get_running_loop()), f"command/{os.urandom(8).hex()}"
    rest = ClusterAtRest(database.connect, clock, FOLLOWERS, writer)
    telling = asyncio.create_task(_tell_of_waiting(rest, database))
    try:
        await rest.refuse_nodes()
        yield rest, database
    finally:
        telling.cancel()
        rest.close()
        database.close()


async def _tell_of_waiting(rest: ClusterAtRest, database: AsyncpgDatabase) -> None:
    """Say so when the database goes away: it is waited for."""
    was_connected = True
    while True:
        await asyncio.sleep(TOLD_EVERY_S)
        if not rest.is_connected and was_connected:
            note(f"Waiting for the database: {database.why}.")
        was_connected = rest.is_connected


async def compared(rest: ClusterAtRest, log_id: int, stored: Stored, progress: Progress) -> Moved:
    """Read a log from the database and from a directory, and see that both are the same and undamaged.

    Raises:
        Refused: they differ.
        BatchError: a batch is damaged.
    """
    (topic, partition), log, _ = stored
    loaded = await rest.load(log_id)
    found, offset, end = Moved(), log.log_start_offset, log.log_end_offset
    is_same = (loaded.start_offset, loaded.end_offset) == (offset, end)
    async for batches in rest.batches(log_id, offset, end):
        data = b"".join(batches)
        is_same = is_same and log.read(offset, max_bytes=len(data)) == data
        if not is_same:
            break
        for header, batch in iter_batches(data):
            check_crc(header, batch)
            found = found._replace(records=found.records + header.record_count)
            offset = header.last_offset + 1
        found = found._replace(bytes=found.bytes + len(data))
        progress.went_on(len(data))
    if not is_same or log.read(offset, max_bytes=1):
        raise Refused(f"{topic}-{partition} is not the same in the database and in the directory, from {offset} on.")
    progress.next()
    return found


async def all_compared(rest: ClusterAtRest, logs: Mapping[int, Stored]) -> Moved:
    """Compare all logs, by their numbers in the database. Raises as `compared`."""
    progress = Progress("Compared", len(logs))
    found = Moved(len({stored.tp.topic for stored in logs.values()}), len(logs))
    for log_id, stored in logs.items():
        one = await compared(rest, log_id, stored, progress)
        found = found._replace(records=found.records + one.records, bytes=found.bytes + one.bytes)
    return found


def numbered(rest: ClusterAtRest, logs: list[Stored]) -> dict[int, Stored]:
    """Logs by their numbers in the database."""
    return {rest.catalog.logs_of(one.log.topic_id)[one.tp.partition]: one for one in logs}


@click.command("import", short_help="Bring a data directory into the database of a cluster.")
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@of_cluster
def import_command(data_dir: Path, settings: Settings) -> Answer:
    """Bring all of DATA_DIR into the database of a new cluster: topics, records with their offsets, groups with members
    and commits, transactions, users, rules, quotas and settings.

    Neither a broker on DATA_DIR nor a node of the cluster may run. What was brought is read back and compared. It may
    be interrupted; say the same again, and it goes on. No node starts before that. DATA_DIR stays as it is: start no
    broker on it any more.
    """
    moved, shown = asyncio.run(_import(data_dir, settings))

    def print_text() -> None:
        say(f"Imported and compared: {moved.text}.", "Start nodes with this, each at an address of its own:")
        schema = settings.ottla_cluster_schema
        more = "" if schema == Settings().ottla_cluster_schema else f" --set ottla.cluster.schema={schema}"
        say(f"  ottla serve --cluster {shown}{more} --listen HOST:9092")

    return Answer(moved._asdict(), print_text)


async def _import(data_dir: Path, settings: Settings) -> tuple[Moved, str]:
    async with opened(data_dir) as directory, at_rest(settings, directory.cluster_id) as (rest, database):
        wanted = await _begin(data_dir, directory, rest)
        await rest.depose(directory.epoch + 1)
        logs = numbered(rest, await directory.open_logs())
        ends = await rest.ends()
        progress = Progress("Copied", len(logs))
        for log_id, stored in logs.items():
            try:
                await _copy(rest, log_id, ends[log_id], stored, progress)
            except BatchError as error:
                topic, partition = stored.tp
                raise Refused(
                    f"{topic}-{partition} is damaged: {error}.",
                    f"Restore {data_dir} from a backup, or see what is damaged: ottla recover {data_dir}",
                ) from None
        moved = await all_compared(rest, logs)
        await rest.catalog.store(wanted, over=rest.catalog.version)
        return moved, repr(database.address)


async def _begin(data_dir: Path, directory: Directory, rest: ClusterAtRest) -> dict[str, Any]:
    """Store the catalog with a mark, so that no node starts; gives it without. Logs get numbers by that.

    Raises:
        Refused: there is something in the database already.
    """
    from ottla.broker.core.topics.catalog import UNFINISHED

    wanted: dict[str, Any] = json.loads(json.dumps(directory.catalog.without_homes().state()))
    marked = {**wanted, UNFINISHED: f"ottla cluster import {data_dir}"}
    await rest.catalog.refresh()
    found = rest.catalog.load() or {}
    if UNFINISHED in found:
        if {**found, UNFINISHED: ""} != {**wanted, UNFINISHED: ""}:
            raise Refused(
                f"Another import was begun (`{found[UNFINISHED]}`), or {data_dir} has changed since.",
                "To begin anew, drop the schema of the cluster first.",
            )
        note("Going on with what was interrupted.")
    elif any(value for key, value in found.items() if key != "format"):
        raise Refused(
            "The cluster has topics, users or settings of its own: a node of it was started.",
            "Import into another database, or into another schema: --set ottla.cluster.schema=NAME.",
        )
    else:
        await rest.catalog.store(marked, over=rest.catalog.version)
    return wanted


async def _copy(rest: ClusterAtRest, log_id: int, end_offset: int, stored: Stored, progress: Progress) -> None:
    """Bring what is missing of a log to the database."""
    log = stored.log
    offset = max(end_offset, log.log_start_offset)
    while offset < log.log_end_offset and (batches := log.read(offset, max_bytes=READ_BYTES)):
        offset = end_offset = await rest.put(log_id, end_offset, batches)
        progress.went_on(len(batches))
    epochs = [(epoch, start) for epoch, start in log.kept.epochs if epoch < rest.epochs[log_id]]
    await rest.finish(log_id, log.log_start_offset, log.log_end_offset, epochs)
    if stored.snapshot is not None:
        await rest.keep_snapshot(log_id, stored.snapshot)
    progress.next()
