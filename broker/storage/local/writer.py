"""The only code that changes files while the engine is open.

The event loop queues operations; the writer takes everything that is queued, writes it, syncs each touched file once,
and reports all of it back with one call. While it syncs, more is queued: the slower the disk, the larger the groups.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ottla.broker.storage.engine import Durability, EngineError, StorageFull, Unavailable, Unknown
from ottla.broker.storage.local.files import (
    Files,
    SyncFailed,
    engine_error,
    replace_file,
    sync,
    sync_directory,
    write_all,
)
from ottla.broker.storage.local.layout import (
    Checkpoint,
    Layout,
    LogCheckpoint,
    deleted_name,
    encode_checkpoint,
)
from ottla.broker.storage.local.operations import Append, Close, Operation
from ottla.broker.storage.local.partition_writer import PartitionWriter
from ottla.broker.storage.local.workers import Workers
from ottla.protocol.compression import Buffer

Report = Callable[[Sequence[Operation], EngineError | None], None]
"""Told of operations that are over, and of the error that ended the writer, once."""
Checkpointed = Callable[["Writer", EngineError | None], None]


class Writer:
    """Executes operations group by group. Whoever calls ``run`` is the one thread that does."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        checkpoint: Checkpoint,
        report: Report,
        workers: Workers,
        *,
        monotonic: Callable[[], float],
        interval_s: float,
        unique: int,
        most_handles: int,
    ) -> None:
        self.files = files
        self.layout = layout
        self.logs: dict[str, PartitionWriter] = {}
        self.carried: dict[str, LogCheckpoint] = dict(checkpoint.logs)
        """What the last checkpoint knew of logs that nobody has opened yet."""
        self._report = report
        self._workers = workers
        self._monotonic = monotonic
        self._interval_s = interval_s
        self._most_handles = most_handles
        self._unique = unique
        self._failure: EngineError | None = None
        self._handles: dict[PartitionWriter, None] = {}
        self._due: dict[PartitionWriter, float] = {}
        self._to_sync: dict[PartitionWriter, None] = {}
        self._directories: dict[str, None] = {}
        self._after_checkpoint: list[Checkpointed] = []

    def run(self, operations: Sequence[Operation]) -> None:
        """Execute a group and report it."""
        fatal: EngineError | None = None
        if self._failure is None:
            try:
                self._execute(operations)
            except SyncFailed as error:
                fatal = self._give_up(operations, str(error))
            except Exception as error:
                fatal = self._give_up(operations, f"unexpected: {error!r}")
                fatal.__cause__ = error
        else:
            for operation in operations:
                operation.error = self._failure
                if isinstance(operation, Close):
                    self._drop_handles()
        self._report(operations, fatal)

    def sync_due(self) -> float | None:
        """Sync what has waited for its interval; return how many seconds the next one has to wait."""
        if not self._due or self._failure is not None:
            return None
        now = self._monotonic()
        try:
            self._sync_logs([log for log, due in self._due.items() if due <= now])
        except SyncFailed as error:
            self._report((), self._give_up((), str(error)))
            return None
        return max(min(self._due.values()) - now, 0.0) if self._due else None

    # --- for operations ---

    def want_checkpoint(self, then: Checkpointed) -> None:
        """Write a checkpoint at the end of this group, and then call back."""
        self._after_checkpoint.append(then)

    def discard(self, name: str) -> None:
        """Rename a log's directory, durably, and then take it apart. A start finishes what was begun.

        Raises ``OSError`` when the directory still has its name; nothing happens if there is none.
        """
        self._unique += 1
        trash = self.layout.log_directory(deleted_name(name, self._unique))
        try:
            self.files.rename(self.layout.log_directory(name), trash)
        except FileNotFoundError:
            return
        sync_directory(self.files, self.layout.logs)
        with contextlib.suppress(OSError):
            for entry in self.files.list(trash):
                self.files.remove(os.path.join(trash, entry))
            self.files.remove_directory(trash)

    def end_segment(self, log: PartitionWriter) -> None:
        """Write no more to the present segment."""
        self._close_handle(log)
        log.active_base = None

    def forget(self, log: PartitionWriter) -> None:
        """The log is deleted: nothing queued for it may be written, and it is in no checkpoint any more."""
        log.deleted = True
        log.unsynced = False
        self._due.pop(log, None)
        self.end_segment(log)
        if self.logs.get(log.name) is log:
            del self.logs[log.name]

    def close(self) -> None:
        """Sync everything, write the indexes and a checkpoint that says so, and let go of all files."""
        self._sync_logs(self.logs.values())
        self._workers.run([partial(log.save_index, self.files) for log in self.logs.values()])
        # Without room for the checkpoint the next start has to read more, and nothing is lost.
        with contextlib.suppress(StorageFull, Unavailable):
            self._write_checkpoint(clean=True)
        for log in list(self._handles):
            self._close_handle(log)

    # --- a group ---

    def _execute(self, operations: Sequence[Operation]) -> None:
        appends: list[Append] = []
        for operation in operations:
            if isinstance(operation, Append):
                appends.append(operation)
                continue
            self._append(appends)
            appends = []
            operation.execute(self)
        self._append(appends)
        if self._after_checkpoint:
            self._checkpoint_for_operations()
        for operation in operations:
            operation.settled = True

    def _give_up(self, operations: Sequence[Operation], reason: str) -> EngineError:
        """Acknowledge nothing that is not certain, and nothing ever after."""
        error = Unknown(reason)
        for operation in operations:
            if not operation.settled:
                operation.error = error
        self._failure = Unavailable(f"storage has failed: {reason}")
        self._due.clear()
        return error

    def _append(self, appends: Sequence[Append]) -> None:
        if not appends:
            return
        by_log: dict[PartitionWriter, list[Append]] = {}
        for append in appends:
            by_log.setdefault(append.target, []).append(append)
        self._make_directories(by_log)
        for log, queued in by_log.items():
            self._append_to(log, queued)
        self._sync_logs(self._to_sync)
        self._to_sync.clear()
        self._workers.run([partial(sync_directory, self.files, directory) for directory in self._directories])
        self._directories.clear()
        for append in appends:
            append.settled = True

    def _make_directories(self, by_log: Mapping[PartitionWriter, Sequence[Append]]) -> None:
        """Make those of logs that have none yet; where that fails, so do the appends."""
        made: list[tuple[PartitionWriter, int]] = []
        for log, queued in by_log.items():
            if log.exists or log.deleted:
                continue
            try:
                # What has the name already is what a deletion could not remove, or a directory that came to nothing.
                self.discard(log.name)
                made.append((log, log.make_directory(self.files)))
            except OSError as error:
                log.fail(queued[-1].attempt, engine_error(error, f"making {log.directory}"))
        try:
            self._workers.run([partial(sync, self.files, handle, log.directory) for log, handle in made])
        finally:
            for _, handle in made:
                self.files.close(handle)
        for log, _ in made:
            log.exists = True
            self._directories[self.layout.logs] = None

    def _append_to(self, log: PartitionWriter, queued: Sequence[Append]) -> None:
        """Write all that is queued for one log, a segment's worth at a time."""
        position = 0
        while position < len(queued):
            first = queued[position]
            if log.deleted:
                first.error = Unavailable(f"{log.name} is deleted")
            elif first.attempt <= log.failed_attempt:
                first.error = log.failure
            elif (error := self._make_room(log, first)) is not None:
                first.error = log.fail(first.attempt, error)
            else:
                run = self._same_segment(log, queued, position)
                self._write(log, run)
                position += len(run)
                continue
            position += 1

    def _make_room(self, log: PartitionWriter, append: Append) -> EngineError | None:
        """See to it that there is an open segment that takes ``append``."""
        last_offset = append.base_offset + append.count - 1
        try:
            if log.active_base is not None:
                self._handle(log)
                log.note_first_timestamp(self.files)
                if log.is_full(append.config, 0, append.size, last_offset, append.max_timestamp_ms):
                    self._roll(log)
            if log.active_base is None:
                log.begin_segment(self.files, append.base_offset, append.max_timestamp_ms)
                self._keep_handle(log)
                self._directories[log.directory] = None
        except OSError as error:
            return engine_error(error, f"opening a segment of {log.name}")
        return None

    def _roll(self, log: PartitionWriter) -> None:
        """End a segment: whatever the policy, it is on the disk before its successor exists."""
        self._sync_logs([log])
        log.save_index(self.files)
        self.end_segment(log)
        self.want_checkpoint(lambda writer, error: None)

    def _same_segment(self, log: PartitionWriter, queued: Sequence[Append], position: int) -> list[Append]:
        """The appends from ``position`` on that go into the present segment together; the first one does."""
        run = [queued[position]]
        size = run[0].size
        for append in queued[position + 1 :]:
            last_offset = append.base_offset + append.count - 1
            if append.attempt != run[0].attempt or log.is_full(
                append.config, size, append.size, last_offset, append.max_timestamp_ms
            ):
                break
            run.append(append)
            size += append.size
        return run

    def _write(self, log: PartitionWriter, run: Sequence[Append]) -> None:
        assert log.handle is not None
        assert log.active_base is not None
        pieces: list[Buffer] = []
        for append in run:
            pieces.extend(append.pieces)
        start = log.size
        written, error = write_all(self.files, log.handle, pieces, start)
        refusal = engine_error(error, f"writing to {log.path}") if error is not None else None
        for append in run:
            # After the first batch that is not whole every one fails, also one that would be short enough.
            if refusal is not None and (log.failure is refusal or log.size + append.size > start + written):
                append.error = log.fail(append.attempt, refusal)
                continue
            log.place(
                append.size,
                append.base_offset,
                append.count,
                append.max_timestamp_ms,
                append.config.index_interval_bytes,
            )
            append.segment_base = log.active_base
            if append.config.durability is Durability.FSYNC:
                self._to_sync[log] = None
            elif append.config.durability is Durability.INTERVAL:
                self._due.setdefault(log, self._monotonic() + self._interval_s)
        if error is not None:
            self._cut_back(log)

    def _cut_back(self, log: PartitionWriter) -> None:
        """Leave no part of a batch at the end of the file."""
        assert log.handle is not None
        try:
            self.files.truncate(log.handle, log.size)
        except OSError as error:
            # What lies there now would be read as if it were a log; nothing can be promised any more.
            raise SyncFailed(f"cutting {log.path} back to {log.size}: {error.strerror or error}") from error
        # Until the next sync the disk may still have what was cut off.
        log.unsynced = True

    # --- checkpoints ---

    def _checkpoint_for_operations(self) -> None:
        then, self._after_checkpoint = self._after_checkpoint, []
        error: EngineError | None = None
        try:
            self._write_checkpoint(clean=False)
        except (StorageFull, Unavailable) as refused:
            error = refused
        for callback in then:
            callback(self, error)

    def _write_checkpoint(self, *, clean: bool) -> None:
        logs = dict(self.carried)
        logs |= {name: log.checkpoint(clean=clean) for name, log in self.logs.items() if log.exists}
        try:
            replace_file(self.files, self.layout.checkpoint, encode_checkpoint(Checkpoint(clean, logs)))
        except OSError as error:
            raise engine_error(error, f"writing {self.layout.checkpoint}") from error

    # --- handles ---

    def _handle(self, log: PartitionWriter) -> int:
        """A handle to the present segment, opened if need be, and now the most recently used one."""
        if log.handle is None:
            log.handle = self.files.open(log.path)
        self._keep_handle(log)
        return log.handle

    def _keep_handle(self, log: PartitionWriter) -> None:
        self._handles.pop(log, None)
        while len(self._handles) >= self._most_handles:
            self._close_handle(next(iter(self._handles)))
        self._handles[log] = None

    def _close_handle(self, log: PartitionWriter) -> None:
        self._handles.pop(log, None)
        if log.handle is not None:
            if log.unsynced:
                # An error in writing back is reported to handles that were open then, so none is closed before.
                self._sync_logs([log])
            self.files.close(log.handle)
            log.handle = None

    def _drop_handles(self) -> None:
        """Close everything without a promise: syncing has failed."""
        for log in self._handles:
            if log.handle is not None:
                with contextlib.suppress(OSError):
                    self.files.close(log.handle)
                log.handle = None
        self._handles.clear()

    def _sync_logs(self, logs: Iterable[PartitionWriter]) -> None:
        tasks = []
        unsynced = [log for log in logs if log.unsynced]
        for log in unsynced:
            assert log.handle is not None
            tasks.append(partial(sync, self.files, log.handle, log.path))
        self._workers.run(tasks)
        for log in unsynced:
            log.unsynced = False
            self._due.pop(log, None)


class WriterThread:
    """A writer in a thread of its own."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue: queue.SimpleQueue[Operation] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ottla-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> None:
        """Queue an operation; a ``Close`` ends the thread."""
        self._queue.put(operation)

    def join(self) -> None:
        """Wait for the end after a ``Close``."""
        self._thread.join()

    def _run(self) -> None:
        timeout: float | None = None
        closed = False
        while not closed:
            operations: list[Operation] = []
            try:
                operations.append(self._queue.get(timeout=timeout))
                while True:
                    operations.append(self._queue.get_nowait())
            except queue.Empty:
                pass
            if operations:
                self._writer.run(operations)
                closed = any(isinstance(operation, Close) for operation in operations)
            timeout = self._writer.sync_due()


class InlineWriter:
    """A writer on the event loop, for simulations: it runs when the loop turns, with all that was queued until then."""

    def __init__(self, writer: Writer, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._writer = writer
        self._call_soon = call_soon
        self._queue: list[Operation] = []

    def submit(self, operation: Operation) -> None:
        self._queue.append(operation)
        if len(self._queue) == 1:
            self._call_soon(self._run)

    def join(self) -> None:
        """There is nothing to wait for."""

    def _run(self) -> None:
        operations, self._queue = self._queue, []
        self._writer.run(operations)
        self._writer.sync_due()
