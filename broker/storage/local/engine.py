"""The local engine: one directory, one writer, plain Kafka segments."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.engine import (
    Corrupt,
    EngineError,
    InUse,
    LogConfig,
    Unavailable,
    ignore_appended,
)
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.files import (
    Files,
    OsFiles,
    SyncFailed,
    engine_error,
    read_file,
    replace_file,
    sync_directory,
    write_all,
)
from ottla.broker.storage.local.layout import (
    DELETED_SUFFIX,
    METADATA_NAME,
    Checkpoint,
    Layout,
    decode_catalog,
    decode_checkpoint,
    decode_meta,
    decode_metadata,
    directory_name,
    encode_catalog,
    encode_checkpoint,
    encode_meta,
    parse_directory_name,
    parse_segment_name,
)
from ottla.broker.storage.local.log import LocalLog
from ottla.broker.storage.local.operations import Append, Close, Delete, Operation, Register, StoreCatalog
from ottla.broker.storage.local.partition_writer import PartitionWriter
from ottla.broker.storage.local.recovery import RecoveredLog, make_durable, recover
from ottla.broker.storage.local.segment import Readers
from ottla.broker.storage.local.workers import Workers
from ottla.broker.storage.local.writer import InlineWriter, Writer, WriterThread
from ottla.protocol.records import TopicPartition

_DEFAULT_INTERVAL_MS: Final = 50
_SYNC_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A torn tail that recovery removed: nothing in it had been acknowledged under ``Durability.FSYNC``."""

    tp: TopicPartition
    cut_bytes: int
    reason: str


class LocalCatalog:
    """The document in catalog.json."""

    def __init__(self, engine: "LocalEngine") -> None:
        self._engine = engine
        self._state: bytes | None = None

    def load(self) -> dict[str, Any] | None:
        if self._state is None:
            return None
        return decode_catalog(self._state, self._engine.layout.catalog)[1]

    async def store(self, state: Mapping[str, Any]) -> None:
        data = encode_catalog(self._engine.leader_epoch, state)
        operation = StoreCatalog(data, lambda: self.loaded(data))
        self._engine.submit(operation)
        await operation.future

    def loaded(self, data: bytes) -> None:
        """This is what the file says."""
        self._state = data


class LocalEngine:
    """Logs in a directory. ``recovered`` tells what recovery cut off, and ``was_clean`` whether it had to look.

    ``interval_ms`` is that of ``Durability.INTERVAL``. ``threaded=False`` runs the writer on the event loop, so that a
    simulation sees one order of events; ``files`` and ``monotonic`` (seconds) stand in for the disk and the clock.
    At most ``most_readers`` and ``most_writers`` segments are open to be read and to be written.
    """

    def __init__(
        self,
        data_dir: str,
        *,
        node_id: int,
        new_uuid: Callable[[], UUID],
        interval_ms: int = _DEFAULT_INTERVAL_MS,
        files: Files | None = None,
        threaded: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        most_readers: int = 64,
        most_writers: int = 128,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = ""
        self.leader_epoch = -1
        self.layout = Layout(os.path.abspath(data_dir))
        self.catalog = LocalCatalog(self)
        self.on_appended: Callable[[TopicPartition], None] = ignore_appended
        self.on_fatal: Callable[[EngineError], None] = lambda error: None
        self.recovered: list[Cut] = []
        self.was_clean = False
        self._new_uuid = new_uuid
        self._interval_s = interval_ms / 1000
        self._files = files or OsFiles()
        self._threaded = threaded
        self._monotonic = monotonic
        self._readers = Readers(self._files, most_readers)
        self._most_writers = most_writers
        self._logs: dict[TopicPartition, LocalLog] = {}
        self._on_disk: set[str] = set()
        self._checkpoint = Checkpoint()
        self._lock: int | None = None
        self._workers = Workers(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: WriterThread | InlineWriter | None = None

    @property
    def logs(self) -> Mapping[TopicPartition, LocalLog]:
        return self._logs

    # --- open and close ---

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(_SYNC_THREADS if self._threaded else 0)
        try:
            self._take()
        except SyncFailed as error:
            self._release()
            raise Unavailable(str(error)) from error
        except OSError as error:
            self._release()
            raise engine_error(error, f"opening {self.layout.data_dir}") from error
        except EngineError:
            self._release()
            raise
        writer = Writer(
            self._files,
            self.layout,
            self._checkpoint,
            self._reported_by_writer if self._threaded else self._complete,
            self._workers,
            monotonic=self._monotonic,
            interval_s=self._interval_s,
            unique=self.leader_epoch << 20,
            most_handles=self._most_writers,
        )
        self._writer = WriterThread(writer) if self._threaded else InlineWriter(writer, self._loop.call_soon)

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        for log in self._logs.values():
            log.shut(Unavailable("the engine is closed"))
        operation = Close()
        writer.submit(operation)
        # A failure was reported as it happened; what there is to let go of is let go of all the same.
        with contextlib.suppress(EngineError):
            await operation.future
        writer.join()
        self._logs.clear()
        self._release()

    def _take(self) -> None:
        """Lock the directory, read what it says of itself, and begin a new epoch in it."""
        files, layout = self._files, self.layout
        self._make_data_directory()
        self._take_lock()
        self._read_meta()
        stored = read_file(files, layout.catalog)
        previous, state = (-1, None) if stored is None else decode_catalog(stored, layout.catalog)
        self._checkpoint = decode_checkpoint(read_file(files, layout.checkpoint))
        self.was_clean = self._checkpoint.clean
        self.leader_epoch = previous + 1
        catalog = encode_catalog(self.leader_epoch, state)
        with contextlib.suppress(FileExistsError):
            files.make_directory(layout.logs)
        if self.was_clean:
            # From here on it is no longer true. The logs' own entries stay as they are until they are opened.
            undone = encode_checkpoint(Checkpoint(False, self._checkpoint.logs))
            replace_file(files, layout.checkpoint, undone, sync_name=False)
        # This syncs the directory, and with it every name made in it until here.
        replace_file(files, layout.catalog, catalog)
        if state is not None:
            self.catalog.loaded(catalog)
        names = files.list(layout.logs)
        if names and not self.was_clean:
            # A process that died may have made and renamed directories without this being on the disk yet.
            sync_directory(files, layout.logs)
        for name in names:
            if name.endswith(DELETED_SUFFIX):
                self._remove_deleted(name)
        self._on_disk = {name for name in names if parse_directory_name(name) is not None}
        if not self.was_clean:
            self._workers.run([partial(make_durable, files, layout.log_directory(name)) for name in self._on_disk])

    def _make_data_directory(self) -> None:
        missing = []
        path = self.layout.data_dir
        while not os.path.isdir(path) and isinstance(self._files, OsFiles):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            self._files.make_directory(path)
            sync_directory(self._files, os.path.dirname(path))

    def _take_lock(self) -> None:
        files, layout = self._files, self.layout
        try:
            self._lock = files.lock(layout.lock)
        except BlockingIOError:
            holder = (read_file(files, layout.lock) or b"").decode(errors="replace").strip()
            raise InUse(
                f"{layout.data_dir} is in use by another process (pid {holder or 'unknown'}); "
                "stop it or choose another data directory"
            ) from None
        files.truncate(self._lock, 0)
        write_all(files, self._lock, [b"%d\n" % os.getpid()], 0)

    def _read_meta(self) -> None:
        path = self.layout.meta
        data = read_file(self._files, path)
        if data is None:
            self.cluster_id = new_cluster_id(self._new_uuid)
            replace_file(self._files, path, encode_meta(self.cluster_id, self.node_id), sync_name=False)
            return
        self.cluster_id, node_id = decode_meta(data, path)
        if node_id != self.node_id:
            raise Corrupt(f"{path}: the directory belongs to node {node_id}, this is node {self.node_id}")

    def _remove_deleted(self, name: str) -> None:
        """Finish a deletion that a crash interrupted."""
        directory = self.layout.log_directory(name)
        for entry in self._files.list(directory):
            self._files.remove(os.path.join(directory, entry))
        self._files.remove_directory(directory)

    def _release(self) -> None:
        self._workers.close()
        self._readers.close_all()
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None

    # --- logs ---

    def open_log(self, topic: str, topic_id: UUID, partition: int, config: LogConfig) -> LocalLog:
        tp = TopicPartition(topic, partition)
        if tp in self._logs:
            raise ValueError(f"{topic}-{partition} is open already")
        if self._loop is None or self._writer is None:
            raise Unavailable("the engine is not open")
        name = directory_name(tp)
        found = self._find(tp, name, topic_id, config)
        target = PartitionWriter(name, self.layout.log_directory(name), topic_id, [])
        if found is None:
            found = RecoveredLog([], 0, 0, EpochHistory())
        else:
            target.exists = True
        target.log_start_offset = found.log_start_offset
        target.next_offset = found.log_end_offset
        if found.active_index is not None:
            active = found.segments[-1]
            target.resume(found.active_index, active.size, found.log_end_offset, index_saved=found.active_index_saved)
        log = LocalLog(
            tp, topic_id, config, self.leader_epoch, found, target, self._readers, self.submit, self._loop.call_soon
        )
        target.epochs = found.epochs.entries
        self._logs[tp] = log
        self.submit(Register(target))
        return log

    async def delete_log(self, tp: TopicPartition) -> None:
        log = self._logs.pop(tp, None)
        if log is None:
            return
        log.shut(Unavailable(f"{tp.topic}-{tp.partition} is deleted"))
        name = directory_name(tp)
        self._on_disk.discard(name)
        operation = Delete(name, log.target)
        self.submit(operation)
        await operation.future

    async def remove_orphans(self) -> list[TopicPartition]:
        orphans = []
        for name in sorted(self._on_disk):
            tp = parse_directory_name(name)
            if tp is not None and tp not in self._logs:
                orphans.append(tp)
                self._on_disk.discard(name)
        operations = [Delete(directory_name(tp), None) for tp in orphans]
        for operation in operations:
            self.submit(operation)
        for operation in operations:
            await operation.future
        return orphans

    def _find(self, tp: TopicPartition, name: str, topic_id: UUID, config: LogConfig) -> RecoveredLog | None:
        """What is on the disk of this log, None if there is nothing; another topic's log of this name is discarded."""
        if name not in self._on_disk:
            return None
        directory = self.layout.log_directory(name)
        known = self._checkpoint.logs.get(name)
        if known is not None and known.topic_id != topic_id.hex:
            known = None
        try:
            stored_id = decode_metadata(read_file(self._files, os.path.join(directory, METADATA_NAME)))
            if stored_id is None and any(
                parse_segment_name(entry) is not None for entry in self._files.list(directory)
            ):
                # The file is synced before there is a segment, so this is damage and no reason to discard records.
                raise Corrupt(f"{os.path.join(directory, METADATA_NAME)} is missing or cannot be understood")
            if stored_id != topic_id:
                self._on_disk.discard(name)
                self.submit(Delete(name, None))
                return None
            found = recover(self._readers, directory, known, config.index_interval_bytes)
        except OSError as error:
            raise Corrupt(f"{directory} cannot be read: {error.strerror or error}") from error
        except SyncFailed as error:
            raise Unavailable(str(error)) from error
        if found.cut_bytes:
            self.recovered.append(Cut(tp, found.cut_bytes, found.cut_reason))
        return found

    # --- the way to the writer and back ---

    def submit(self, operation: Operation) -> None:
        """Queue an operation for the writer. When the engine is closed it fails at once."""
        if self._writer is None:
            operation.error = Unavailable("the engine is closed")
            operation.complete()
        else:
            self._writer.submit(operation)

    def _reported_by_writer(self, operations: Sequence[Operation], fatal: EngineError | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._complete, operations, fatal)
        except RuntimeError:
            # The loop was closed without closing the engine; nobody is left to be told.
            return

    def _complete(self, operations: Sequence[Operation], fatal: EngineError | None) -> None:
        moved: dict[TopicPartition, None] = {}
        failures: list[Exception] = []
        for operation in operations:
            try:
                operation.complete()
            except Exception as failure:
                failures.append(failure)
            if operation.error is None and isinstance(operation, Append):
                moved[operation.log.tp] = None
        for tp in moved:
            self.on_appended(tp)
        if fatal is not None:
            self.on_fatal(fatal)
        if failures:
            # One caller's bug must not keep the others from hearing of their appends.
            raise ExceptionGroup("callbacks of appends failed", failures)
