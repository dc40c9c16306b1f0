"""`ottla cluster export`: what is in the database of a cluster into a data directory; `ottla cluster restored`."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ottla.broker.settings import Settings
from ottla.cli.cluster_import import Moved, Progress, all_compared, at_rest, numbered, of_cluster, opened
from ottla.cli.common import Answer
from ottla.cli.output import Refused, say
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.core.topics.catalog import Catalog, TopicEntry
    from ottla.broker.storage.local.assembling import Assembly
    from ottla.broker.storage.postgres.at_rest import ClusterAtRest

UNFINISHED_SUFFIX = ".unfinished"
"""Ends the name of a directory that is not complete yet."""


@click.command("export", short_help="Bring a cluster out of its database into a data directory.")
@click.argument("data_dir", type=click.Path(path_type=Path))
@of_cluster
def export_command(data_dir: Path, settings: Settings) -> Answer:
    """Bring all of a cluster into DATA_DIR, which must not be there yet: a single broker goes on with it.

    No node of the cluster may run. What was brought is compared with the database, in which everything stays: start no
    node on it any more. If it is interrupted, say the same again; it begins anew.
    """
    moved = asyncio.run(_export(data_dir, settings))

    def print_text() -> None:
        say(f"Exported and compared: {moved.text}.", "Go on with this, and with your other options:")
        say(f"  ottla serve --data-dir {data_dir}")

    return Answer(moved._asdict(), print_text)


async def _export(data_dir: Path, settings: Settings) -> Moved:
    beside = _made(data_dir)
    async with at_rest(settings) as (rest, database):
        await rest.catalog.refresh()
        catalog = _catalog(rest).without_homes()
        await rest.depose(1)
        await _assemble(beside, database.cluster_id, catalog, rest)
        async with opened(beside) as directory:
            moved = await all_compared(rest, numbered(rest, await directory.open_logs()))
    _renamed(beside, data_dir)
    return moved


def _made(data_dir: Path) -> Path:
    """The directory beside it that becomes it in the end; what is left of another attempt is gone."""
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise Refused(f"{data_dir} is there already.", "Name a directory that is not.")
    beside = data_dir.absolute().with_name(data_dir.absolute().name + UNFINISHED_SUFFIX)
    if beside.exists():
        shutil.rmtree(beside)
    return beside


def _renamed(beside: Path, data_dir: Path) -> None:
    from ottla.broker.storage.local.files import Files, sync_directory

    os.rename(beside, data_dir)
    sync_directory(Files(), str(data_dir.absolute().parent))


def _catalog(rest: ClusterAtRest) -> Catalog:
    """The catalog of a cluster. Raises `Refused` if it has none, and ``BadCatalog`` if an import is not finished."""
    from ottla.broker.core.topics.catalog import Catalog

    catalog = Catalog.from_state(rest.catalog.load())
    if not catalog.topics:
        raise Refused("The cluster has no topics: no node of it was ever started.")
    return catalog


async def _assemble(beside: Path, cluster_id: str, catalog: Catalog, rest: ClusterAtRest) -> None:
    from uuid import uuid4

    from ottla.broker.storage.local.assembling import Assembly

    epoch = max(rest.epochs.values())
    assembly = Assembly(str(beside), cluster_id, Settings().node_id, epoch, uuid4)
    progress = Progress("Copied", len(rest.epochs))
    try:
        for entry in catalog.topics.values():
            for partition, log_id in enumerate(rest.catalog.logs_of(entry.topic_id)):
                await _copy(rest, log_id, entry, partition, assembly, progress)
        assembly.finish(catalog.state())
    finally:
        assembly.close()


async def _copy(
    rest: ClusterAtRest, log_id: int, entry: TopicEntry, partition: int, assembly: Assembly, progress: Progress
) -> None:
    from ottla.broker.core.topics.configs import TopicConfig
    from ottla.broker.engine import LogConfig

    loaded = await rest.load(log_id)
    start, end = loaded.start_offset, loaded.end_offset
    if end:  # else it never had anything, and has no directory
        topic = TopicConfig.of(entry.configs, Settings())
        config = LogConfig(segment_bytes=topic.segment_bytes, segment_ms=topic.roll_after_ms)
        tp = TopicPartition(entry.name, partition)
        log = assembly.begin(tp, entry.topic_id, config, start, end, loaded.epochs)
        async for batches in rest.batches(log_id, start, end):
            log.put(batches)
            progress.went_on(sum(map(len, batches)))
        if loaded.snapshot is not None and loaded.snapshot[1]:
            await assembly.snapshots.save({tp: cast("dict[str, Any]", loaded.snapshot[1])})  # or the log is read
    progress.next()
