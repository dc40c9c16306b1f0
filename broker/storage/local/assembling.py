"""A data directory that is put together batch by batch, and is as an orderly stop leaves it: of logs from elsewhere.

The batches keep their offsets and epochs. Until `Assembly.finish` there is no checkpoint, so nothing starts with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.broker.engine import LogConfig
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.directory import make_data_directory, read_meta, take_lock
from ottla.broker.storage.local.files import Files, replace_file
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.layout import Layout, encode_catalog
from ottla.broker.storage.local.materialise import Materialiser
from ottla.broker.storage.local.sizes import Sizes
from ottla.broker.storage.local.snapshots import PRODUCERS, SnapshotFiles
from ottla.protocol.compression import Buffer
from ottla.protocol.records import TopicPartition, parse_header
from ottla.protocol.stored.checkpoint import Checkpoint, encode_checkpoint
from ottla.protocol.stored.names import directory_name

_MOST_RELATIVE = 2**31 - 1


class _Placed:
    """A batch on its way to a segment. See `Batch`.

    Args:
        base_offset: where it begins, or before that, where the log begins in a gap.
    """

    def __init__(self, batch: bytes, base_offset: int, config: LogConfig, *, begins_segment: bool) -> None:
        header = parse_header(batch)
        self.base_offset = base_offset
        self.count = header.last_offset + 1 - base_offset
        self.max_timestamp_ms = header.max_timestamp
        self.body: Sequence[Buffer] = (batch,)
        self.size = len(batch)
        self.begins_segment = begins_segment
        self.config = config


class AssembledLog:
    """A log of the directory. Made by `Assembly.begin`."""

    def __init__(self, kept: KeptLog, config: LogConfig, materialiser: Materialiser) -> None:
        self._kept = kept
        self._config = config
        self._materialiser = materialiser
        # Of the segment that is being written: where it begins, its bytes, and its first timestamp.
        self._base, self._size, self._first_ms = kept.log_start_offset, 0, -1

    def put(self, batches: Sequence[bytes]) -> None:
        """Put whole batches behind it, of which the first may begin before the log. Raises ``OSError``."""
        for batch in batches:
            self._kept.backlog.append(self._placed(batch))
        _, error = self._materialiser.write(self._kept)
        if error is not None:
            raise error

    def _placed(self, batch: bytes) -> _Placed:
        header, config = parse_header(batch), self._config
        is_first = not self._size
        base_offset = min(header.base_offset, self._base) if is_first else header.base_offset
        begins = (
            is_first
            or self._size + len(batch) > config.segment_bytes
            or header.last_offset - self._base > _MOST_RELATIVE
            or 0 <= self._first_ms < header.max_timestamp - config.segment_ms
        )
        if begins:
            self._base, self._size, self._first_ms = base_offset, 0, header.max_timestamp
        self._size += len(batch)
        return _Placed(batch, base_offset, config, begins_segment=begins)


class Assembly:
    """See the module.

    Args:
        directory: new, or left of an attempt that was interrupted.
        epoch: at least the newest of all logs.

    Attributes:
        snapshots: keeps those of producers.
    """

    def __init__(self, directory: str, cluster_id: str, node_id: int, epoch: int, new_uuid: Callable[[], UUID]) -> None:
        files, layout = Files(), Layout(os.path.abspath(directory))
        make_data_directory(files, layout)
        self._lock = take_lock(files, layout)
        read_meta(files, layout, node_id, new_uuid, cluster_id)
        for path in (layout.logs, layout.journal):
            files.make_directory(path)
        self.snapshots = SnapshotFiles(Path(directory) / PRODUCERS)
        self._files, self._layout, self._epoch = files, layout, epoch
        self._materialiser = Materialiser(files, layout, most_handles=Sizes().most_writers)
        self._ends: dict[KeptLog, int] = {}

    def begin(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        start_offset: int,
        end_offset: int,
        epochs: Mapping[int, int],
    ) -> AssembledLog:
        """Begin a log that is to have these offsets, and such starts of its epochs."""
        name, logs = directory_name(tp), self._materialiser.logs
        kept = KeptLog(
            log_id=len(logs) + 1,
            name=name,
            directory=self._layout.log_directory(name),
            topic_id=topic_id.hex,
            log_start_offset=start_offset,
            epochs=EpochHistory(sorted(epochs.items())).entries,
        )
        logs[kept.log_id] = kept
        self._ends[kept] = end_offset
        self._materialiser.make_directory(kept)
        return AssembledLog(kept, config, self._materialiser)

    def finish(self, catalog: Mapping[str, Any]) -> None:
        """Make everything durable. Raises ``OSError`` and ``SyncFailed``."""
        self._materialiser.complete(self._ends)
        self._materialiser.sync()
        for kept, end_offset in self._ends.items():
            kept.next_offset = end_offset  # compaction may have taken the last batches
        states = [kept.state() for kept in self._ends]
        checkpoint = Checkpoint(epoch=self._epoch, next_log_id=len(states) + 1, clean=True, logs=states)
        replace_file(self._files, self._layout.catalog, encode_catalog(catalog, 1))
        replace_file(self._files, self._layout.checkpoint, encode_checkpoint(checkpoint))

    def close(self) -> None:
        """Let go of all files."""
        self._materialiser.close()
        self._files.close(self._lock)
