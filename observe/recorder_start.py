"""Makes the recorder as the settings say, and begins its file."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING
from uuid import uuid4

from ottla.broker.clock import Clock
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.engine import Engine
from ottla.broker.logger import Logger
from ottla.broker.observing import CannotObserve
from ottla.broker.settings import Settings
from ottla.observe.recorder import Recorder
from ottla.observe.recorder_hashes import Hashes

if TYPE_CHECKING:
    from ottla.observe.recording import Header


def new_recorder(settings: Settings, *, wants_all: bool = False) -> Recorder:
    """A recorder that hides what the settings say, with a key of its own.

    Args:
        wants_all: whether it keeps every event, as a file does.
    """
    hides = Hashes(
        token_bytes(32),
        group_ids=settings.ottla_recorder_hash_group_ids,
        client_hosts=settings.ottla_recorder_hash_client_hosts,
    )
    return Recorder(
        settings.ottla_recorder_memory_bytes,
        hashes=hides if hides.group_ids or hides.client_hosts else None,
        wants_all=wants_all or bool(settings.ottla_recorder_file),
    )


def new_header(
    recorder: Recorder, settings: Settings, engine: Engine, partitions: int, *, started_ms: int, started_at_ms: int
) -> Header:
    """The beginning of a recording of this broker; see `Header`."""
    from importlib.metadata import version  # takes long to import, as the rest of this

    from ottla.observe.recording import Header

    hashes = recorder.hashes
    return Header(
        version=version("ottla"),
        node_id=engine.node_id,
        cluster_id=engine.cluster_id,
        run_id=str(uuid4()),
        started_ms=started_ms,
        started_at_ms=started_at_ms,
        partitions=partitions,
        settings=asdict(GroupConfig.of(settings)),
        hashed=[] if hashes is None else ["group.ids"] * hashes.group_ids + ["client.hosts"] * hashes.client_hosts,
    )


def begin_file(
    recorder: Recorder, settings: Settings, engine: Engine, partitions: int, clock: Clock, log: Logger
) -> None:
    """Let the recorder write the file that the settings name, if they do.

    Args:
        partitions: of ``__consumer_offsets``.

    Raises:
        CannotObserve: it cannot be written.
    """
    hashes = recorder.hashes
    if hashes is not None:
        hashes.partition_count = partitions
    if not settings.ottla_recorder_file:
        return
    from ottla.observe.recording_writer import RecordingWriter

    header = new_header(
        recorder, settings, engine, partitions, started_ms=clock.wall_ms(), started_at_ms=clock.monotonic_ms()
    )
    writer = RecordingWriter(
        Path(settings.ottla_recorder_file),
        header,
        limit_bytes=settings.ottla_recorder_file_bytes,
        limit_parts=settings.ottla_recorder_file_count,
        clock=clock,
        soon=asyncio.get_running_loop().call_soon_threadsafe,
        log=log,
    )
    try:
        writer.start(recorder.last_seq + 1)
    except OSError as error:
        reason = error.strerror or error
        raise CannotObserve(f"cannot record in {settings.ottla_recorder_file}: {reason}") from error
    recorder.file = writer
