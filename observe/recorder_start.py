"""Makes the recorder as the settings say, and begins its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.broker.clock import Clock
from ottla.broker.settings import Settings
from ottla.observe.recorder import Recorder
from ottla.observe.recorder_hashes import Hashes


def new_recorder(settings: Settings, new_key: Callable[[], bytes]) -> Recorder:
    """A recorder that hides what the settings say, with a key of its own."""
    hides = Hashes(
        new_key(),
        group_ids=settings.ottla_recorder_hash_group_ids,
        client_hosts=settings.ottla_recorder_hash_client_hosts,
    )
    return Recorder(
        settings.ottla_recorder_memory_bytes,
        hashes=hides if hides.group_ids or hides.client_hosts else None,
        wants_all=bool(settings.ottla_recorder_file),
    )


def records(settings: Settings) -> bool:
    """True if anything is recorded."""
    return bool(settings.ottla_recorder_memory_bytes or settings.ottla_recorder_file)


def begin_file(
    recorder: Recorder,
    settings: Settings,
    coordinator_settings: dict[str, int | str],
    *,
    partitions: int,
    clock: Clock,
    soon: Callable[..., Any],
    log: Any,
    **identity: Any,
) -> None:
    """Let the recorder write the file that the settings name, if they do.

    Args:
        identity: further fields of the header: who the broker is.

    Raises:
        OSError: it cannot be written.
    """
    hashes = recorder.hashes
    if hashes is not None:
        hashes.partition_count = partitions
    if not settings.ottla_recorder_file:
        return
    from importlib.metadata import version  # takes long to import, as the rest of this

    from ottla.observe.recording import Header
    from ottla.observe.recording_writer import RecordingWriter

    hidden = [] if hashes is None else ["group.ids"] * hashes.group_ids + ["client.hosts"] * hashes.client_hosts
    header = Header(
        version=version("ottla"),
        **identity,
        started_ms=clock.wall_ms(),
        started_at_ms=clock.monotonic_ms(),
        partitions=partitions,
        settings=coordinator_settings,
        hashed=hidden,
    )
    writer = RecordingWriter(
        Path(settings.ottla_recorder_file),
        header,
        limit_bytes=settings.ottla_recorder_file_bytes,
        limit_parts=settings.ottla_recorder_file_count,
        clock=clock,
        soon=soon,
        log=log,
    )
    writer.start(recorder.last_seq + 1)
    writer.pull = recorder.write_new
    recorder.file = writer
