"""Keeping the segments: bringing batches there, taking checkpoints, and changing what a checkpoint makes durable.

Nothing that is acknowledged waits for it, unless what it has to do grows beyond all bounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.broker.engine import EngineError, StorageFull, Unavailable
from ottla.broker.storage.local.changes import Change, finished, prepared, undone
from ottla.broker.storage.local.files import NO_HANDLE, engine_error, replace_file
from ottla.broker.storage.local.journal import Journal
from ottla.broker.storage.local.kept_log import Batch, KeptLog
from ottla.broker.storage.local.materialise import Materialiser, Written
from ottla.broker.storage.local.operations import Close, Operation, Waited
from ottla.broker.storage.local.room import Room
from ottla.broker.storage.local.segment import remove_segment
from ottla.broker.storage.local.threads import Executor, Report
from ottla.protocol.stored.checkpoint import Checkpoint, encode_checkpoint


@dataclass(slots=True, eq=False)
class Materialise(Operation):
    """Bring these batches to their segments, and those that have waited there for room."""

    queued: Sequence[tuple[KeptLog, Sequence[Batch]]]
    done: Callable[[Sequence[tuple[KeptLog, Sequence[Written]]]], None]
    results: list[tuple[KeptLog, Sequence[Written]]] = field(default_factory=list, init=False)

    def complete(self) -> None:
        self.done(self.results)


@dataclass(slots=True, eq=False)
class TakeCheckpoint(Operation):
    """Make durable what lies in segments, everything below ``lsn``, and with it ``changes``."""

    lsn: int
    changes: Sequence[Change]
    done: Callable[["TakeCheckpoint"], None]

    def fail(self, error: EngineError) -> None:
        Operation.fail(self, error)
        for change in self.changes:
            change.fail(error)

    def complete(self) -> None:
        self.done(self)
        for change in self.changes:
            change.complete()


@dataclass(slots=True, eq=False)
class RemoveSegments(Operation):
    """Unlink what a trim has left behind. If that fails, the next start does it."""

    kept: KeptLog
    bases: Sequence[int]


@dataclass(slots=True, eq=False)
class StoreCatalog(Waited):
    """Replace the catalog's file."""

    data: bytes
    over: Callable[[EngineError | None], None]

    def complete(self) -> None:
        self.over(self.error)
        Waited.complete(self)


class Keeper(Executor):
    """Brings batches to segments, takes checkpoints and stores the catalog."""

    def __init__(
        self,
        journal: Journal,
        room: Room,
        materialiser: Materialiser,
        report: Report,
        *,
        epoch: int,
        next_log_id: int,
    ) -> None:
        self.files = materialiser.files
        self.layout = materialiser.layout
        super().__init__(report)
        self.journal = journal
        self.room = room
        self.materialiser = materialiser
        self.next_log_id = next_log_id
        self._epoch = epoch

    def write_checkpoint(self, lsn: int, *, clean: bool = False) -> None:
        """Raises ``OSError`` and ``SyncFailed``; the journal below ``lsn`` is needed until this returns."""
        self.materialiser.sync()
        checkpoint = Checkpoint(
            lsn=lsn,
            synced_lsn=max(lsn, self.journal.synced_lsn),
            epoch=self._epoch,
            next_log_id=self.next_log_id,
            clean=clean,
            logs=[log.state() for log in self.materialiser.logs.values() if log.exists],
        )
        replace_file(self.files, self.layout.checkpoint, encode_checkpoint(checkpoint))

    def materialise(self, log: KeptLog, batches: Sequence[Batch]) -> list[Written]:
        """Bring ``batches`` to segments of ``log``; what cannot be written now is kept, and appends are refused.

        Where nothing is left to open a file with they are taken still: until a checkpoint finds batches that wait.
        """
        if log.is_deleted:
            return []
        log.backlog.extend(batches)
        self.materialiser.logs[log.log_id] = log
        done, error = self.materialiser.write(log)
        if error is not None:
            if error.errno not in NO_HANDLE:
                self.room.refuse(engine_error(error, f"writing to {log.directory}"))
            self._make_way(error)
            more, error = self.materialiser.write(log)
            done += more
        if log.backlog:
            self.materialiser.waiting[log] = None
        else:
            self.materialiser.waiting.pop(log, None)
        return done

    # --- operations ---

    def execute(self, operations: Sequence[Operation]) -> None:
        changes: list[Change] = []
        merged: list[TakeCheckpoint] = []
        for position, operation in enumerate(operations):
            match operation:
                case Materialise():
                    self._materialise(operation)
                case TakeCheckpoint():
                    changes += operation.changes
                    merged.append(operation)
                    after = operations[position + 1] if position + 1 < len(operations) else None
                    # Several in a row are as good as the last one.
                    if not isinstance(after, TakeCheckpoint):
                        error = self._checkpoint(operation.lsn, changes)
                        for checkpoint in merged:
                            checkpoint.error = error
                        changes, merged = [], []
                case RemoveSegments():
                    self._remove_segments(operation)
                case StoreCatalog():
                    try:
                        self._store_catalog(operation.data)
                    except OSError as error:
                        operation.error = engine_error(error, f"writing {self.layout.catalog}")
                case Close():
                    self._close()

    def _materialise(self, operation: Materialise) -> None:
        queued = {log for log, _ in operation.queued}
        for log in [log for log in self.materialiser.waiting if log not in queued]:
            operation.results.append((log, self.materialise(log, ())))
        for log, batches in operation.queued:
            operation.results.append((log, self.materialise(log, batches)))
        if self.room.refusal is not None and not self.materialiser.waiting:
            self.room.has_come_back()
        if self.room.refusal is None and self.journal.wants_spare:
            self._prepare_spare()

    def _prepare_spare(self) -> None:
        try:
            self.journal.prepare_spare()
            self.room.keep_some_of_much()
        except OSError:
            # The committer makes one itself when it has to, and tells who waits for it why not.
            return

    def _checkpoint(self, lsn: int, changes: Sequence[Change]) -> EngineError | None:
        prepared(changes, self.materialiser)
        refused: EngineError | None = None
        if self.materialiser.waiting:
            refused = self.room.refusal or Unavailable("batches wait to be brought to their segments")
            self.room.refuse(refused)
        else:
            try:
                self._write_checkpoint_with_room(lsn)
            except OSError as error:
                refused = engine_error(error, f"writing {self.layout.checkpoint}")
                self.room.refuse(refused)
        if refused is not None:
            undone(changes, refused)
            return refused
        self.journal.retire(lsn)
        finished(changes, self.materialiser)
        return None

    def _write_checkpoint_with_room(self, lsn: int) -> None:
        try:
            self.write_checkpoint(lsn)
        except OSError as error:
            if error.errno not in NO_HANDLE and not isinstance(engine_error(error, ""), StorageFull):
                raise
            self._make_way(error)
            self.write_checkpoint(lsn)

    def _store_catalog(self, data: bytes) -> None:
        try:
            replace_file(self.files, self.layout.catalog, data)
        except OSError as error:
            if error.errno not in NO_HANDLE:
                raise
            self._make_way(error)
            replace_file(self.files, self.layout.catalog, data)

    def _make_way(self, error: OSError) -> None:
        """Give up what is held for such times: handles that can be opened again, or the ballast."""
        if error.errno in NO_HANDLE:
            self.materialiser.give_up_handles()
        else:
            self.room.give_up_ballast()

    def _remove_segments(self, operation: RemoveSegments) -> None:
        if operation.kept.is_deleted:
            return
        for base in operation.bases:
            try:
                remove_segment(self.files, operation.kept.directory, base)
            except OSError:
                return

    def _close(self) -> None:
        for log in list(self.materialiser.waiting):
            self.materialise(log, ())
        if not self.materialiser.waiting:
            try:
                self.materialiser.complete(self.materialiser.logs.values())
                self.write_checkpoint(self.journal.end_lsn, clean=True)
            except OSError:
                # The journal has it all, and the next start reads it.
                pass
        self.let_go()

    def let_go(self) -> None:
        self.materialiser.close()
