"""The local engine: one directory, one journal for all logs, plain Kafka segments."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from ottla.broker.engine import Catalog, ClosedToOthers, Cut, Damage, EngineError, LogConfig, Sync, Unavailable
from ottla.broker.storage.local.catalog import LocalCatalog
from ottla.broker.storage.local.changes import Change, Delete
from ottla.broker.storage.local.committer import Committer
from ottla.broker.storage.local.damage import find_damage
from ottla.broker.storage.local.directory import make_data_directory, read_meta, take_lock
from ottla.broker.storage.local.files import Files, SyncFailed, engine_error, read_file
from ottla.broker.storage.local.journal import KEPT_SUFFIX, Journal
from ottla.broker.storage.local.keeper import Keeper, Materialise, TakeCheckpoint
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.layout import DELETED_SUFFIX, Layout
from ottla.broker.storage.local.log import LocalLog
from ottla.broker.storage.local.materialise import Materialiser, Written, remove_tree
from ottla.broker.storage.local.opening import front_of, open_segments
from ottla.broker.storage.local.operations import Append, AppendingLog, Barrier, Close, Operation, Waited
from ottla.broker.storage.local.recovery import Recovered, recover
from ottla.broker.storage.local.room import Room
from ottla.broker.storage.local.segment import Readers, Segment
from ottla.broker.storage.local.sizes import Sizes
from ottla.broker.storage.local.snapshots import PRODUCERS, SnapshotFiles
from ottla.broker.storage.local.threads import Gate, InlineLane, Lane, ThreadLane
from ottla.protocol.records import TopicPartition
from ottla.protocol.stored.names import directory_name, parse_directory_name

_TICK_S: Final = 0.25


class LocalEngine:
    """Logs in a directory. ``was_clean`` tells whether recovery had to look for anything.

    ``interval_ms`` is that of ``Durability.INTERVAL``. ``threaded=False`` runs everything on the event loop and nothing
    by itself, so that a simulation sees one order of events: it calls ``tick``. ``files`` and ``monotonic`` (seconds)
    stand in for the disk and the clock. ``catalog`` is one that is shared with other nodes, in the place of the file in
    this directory; ``cluster_id`` is that of their cluster.
    """

    def __init__(
        self,
        data_dir: str,
        *,
        node_id: int,
        new_uuid: Callable[[], UUID],
        interval_ms: int = 50,
        files: Files | None = None,
        threaded: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        sizes: Sizes | None = None,
        catalog: Catalog | None = None,
        cluster_id: str = "",
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.leader_epoch = -1
        self.layout = Layout(os.path.abspath(data_dir))
        self.catalog: Catalog = catalog or LocalCatalog(self.layout.catalog, self.keep)
        self.snapshots = SnapshotFiles(Path(data_dir) / PRODUCERS)
        self.on_appended: Callable[[TopicPartition], None] = lambda tp: None
        self.on_fatal: Callable[[EngineError], None] = lambda error: None
        self.recovered: list[Cut] = []
        self.was_clean = False
        self.closed_to_others: ClosedToOthers | None = None
        self._new_uuid = new_uuid
        self._interval_s = interval_ms / 1000
        self._files = files or Files()
        self._threaded = threaded
        self._monotonic = monotonic
        self._sizes = sizes or Sizes()
        self._readers = Readers(self._files, self._sizes.most_readers)
        self._logs: dict[TopicPartition, LocalLog] = {}
        self._released: dict[TopicPartition, LocalLog] = {}
        self._lock: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What recovery found and nobody has opened, by directory name; and directories that it knows nothing of.
        self._found: dict[str, KeptLog] = {}
        self._strangers: set[str] = set()
        self._next_log_id = 1
        self._room: Room
        self._gate: Gate
        self._committer: Committer
        self._keeper: Keeper
        self._to_committer: Lane | None = None
        self._to_keeper: Lane | None = None
        # Logs with a tail that the keeper has not been given, how large it is, and where its last frame ends.
        self._dirty: dict[AppendingLog, None] = {}
        self._dirty_bytes = 0
        self._completed_lsn = 0
        self._checkpoint_lsn = 0
        self._checkpoint_at = 0.0
        self._batches = 0
        self._checkpoint_runs = False
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def logs(self) -> Mapping[TopicPartition, LocalLog]:
        return self._logs

    @property
    def refusal(self) -> EngineError | None:
        return self._room.refusal

    # --- open and close ---

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            if self._threaded:
                await asyncio.to_thread(self._take)
            else:
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
        if self._threaded:
            self._to_committer = ThreadLane("ottla-journal", self._committer)
            self._to_keeper = ThreadLane("ottla-keeper", self._keeper)
        else:
            self._to_committer = InlineLane(self._committer, self._loop.call_soon)
            self._to_keeper = InlineLane(self._keeper, self._loop.call_soon)

    async def close(self) -> None:
        to_committer, to_keeper = self._to_committer, self._to_keeper
        if to_committer is None or to_keeper is None:
            return
        self._to_committer = None
        if self._timer is not None:
            self._timer.cancel()
        for log in (*self._logs.values(), *self._released.values()):
            log.shut(Unavailable("the engine is closed"))
        self._gate.open()
        await _end(to_committer)
        self._hand_over()
        self._to_keeper = None
        await _end(to_keeper)
        self._logs.clear()
        self._released.clear()
        self._release()

    def _take(self) -> None:
        """Lock the directory, bring what the journal has to the segments, and begin a new epoch."""
        files, layout, sizes = self._files, self.layout, self._sizes
        self.closed_to_others = make_data_directory(files, layout)
        self._lock = take_lock(files, layout)
        wanted = self.cluster_id or None
        self.cluster_id, is_old = read_meta(files, layout, self.node_id, self._new_uuid, wanted)
        for directory in (layout.logs, layout.journal):
            with contextlib.suppress(FileExistsError):
                files.make_directory(directory)
        if isinstance(self.catalog, LocalCatalog):
            self.catalog.loaded(read_file(files, layout.catalog))
        for name in files.list(layout.logs):
            if name.endswith(DELETED_SUFFIX):
                # Finish a deletion that a crash interrupted.
                remove_tree(files, layout.log_directory(name))
        if is_old:
            from ottla.broker.storage.local.upgrade import upgrade

            upgrade(files, layout, self.cluster_id, self.node_id)
        self._room = Room(files, layout.data_dir, sizes.ballast_bytes)
        self._room.make_some()
        materialiser = Materialiser(files, layout, most_handles=sizes.most_writers)
        found = recover(files, layout, materialiser)
        materialiser.logs = found.logs
        self.was_clean = found.checkpoint.clean
        self.recovered = found.cuts
        self.leader_epoch = found.checkpoint.epoch + 1
        self._next_log_id = found.next_log_id
        self._begin(found, materialiser)
        self._found = {log.name: log for log in found.logs.values()}
        names = {name for name in files.list(layout.logs) if parse_directory_name(name) is not None}
        self._strangers = names - set(self._found)

    def _begin(self, found: Recovered, materialiser: Materialiser) -> None:
        """Begin a journal, and write down that everything before it is in segments."""
        files, layout, sizes = self._files, self.layout, self._sizes
        self._gate = Gate(sizes.tail_bytes)
        journal = Journal(
            files, layout.journal, file_bytes=sizes.journal_file_bytes, first_bytes=sizes.first_journal_file_bytes
        )
        self._committer = Committer(
            journal,
            self._room,
            self._gate if self._threaded else None,
            self._report(self._committed),
            monotonic=self._monotonic,
            interval_s=self._interval_s,
        )
        self._keeper = Keeper(
            journal,
            self._room,
            materialiser,
            self._report(self._kept),
            epoch=self.leader_epoch,
            next_log_id=self._next_log_id,
        )
        journal.begin(found.next_lsn)
        self._keeper.write_checkpoint(found.next_lsn)
        if found.has_unused_frames:
            journal.set_aside()
        journal.retire(found.next_lsn)
        self._completed_lsn = self._checkpoint_lsn = found.next_lsn
        self._checkpoint_at = self._monotonic()

    def watch_syncs(self, watch: Callable[[Sync], None]) -> None:
        journal = self._committer.journal
        sync = journal.sync_file
        journal.sync_file = lambda files, handle, path: watch(lambda: sync(files, handle, path))

    def _release(self) -> None:
        self._readers.close_all()
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None

    # --- logs ---

    async def open_log(self, topic: str, topic_id: UUID, partition: int, config: LogConfig) -> LocalLog:
        tp = TopicPartition(topic, partition)
        if tp in self._logs:
            raise ValueError(f"{topic}-{partition} is open already")
        if self._to_keeper is None:
            raise Unavailable("the engine is not open")
        if tp in self._released:
            if self._released[tp].topic_id == topic_id:
                log = self._logs[tp] = self._released.pop(tp)
                log.config = config
                return log
            await self.delete_log(tp)
        name = directory_name(tp)
        kept = self._found.get(name)
        if kept is not None and kept.uuid != topic_id:
            del self._found[name]
            self.change(Delete(kept, lambda: None))
            kept = None
        segments: list[Segment] = []
        if kept is None:
            kept = self._new_kept(self._next_log_id, name, topic_id)
            self._next_log_id += 1
            self._keeper.next_log_id = self._next_log_id
        else:
            segments, cut = open_segments(self._files, self._readers, kept)
            self.recovered += cut
            del self._found[name]
        self._strangers.discard(name)
        log = LocalLog(tp, config, self.leader_epoch, kept, front_of(kept), segments, self._readers, self)
        kept.owner = log
        self._logs[tp] = log
        return log

    def _new_kept(self, log_id: int, name: str, topic_id: UUID) -> KeptLog:
        return KeptLog(log_id=log_id, name=name, directory=self.layout.log_directory(name), topic_id=topic_id.hex)

    async def release_log(self, tp: TopicPartition) -> None:
        if tp in self._logs:
            over = asyncio.get_running_loop().create_future()
            self.commit(Barrier(lambda error: None if over.done() else over.set_result(None)))
            await over
            if tp in self._logs:  # it may have been deleted meanwhile
                self._released[tp] = self._logs.pop(tp)

    async def delete_log(self, tp: TopicPartition) -> None:
        log = self._logs.pop(tp, None) or self._released.pop(tp, None)
        if log is None:
            return
        log.shut(Unavailable(f"{tp.topic}-{tp.partition} is deleted"))
        log.front.is_deleted = True
        delete = Delete(log.kept, lambda: None)

        def queue_is_over(error: EngineError | None) -> None:
            if error is None:
                self.change(delete)
            else:
                delete.error = error
                delete.complete()

        # Its queued appends end first, so that the checkpoint which forgets the log lies behind all its frames.
        self.commit(Barrier(queue_is_over))
        try:
            await delete.future
        finally:
            # Its tail waits for no segment any more.
            self._gate.less(log.drop_tail())

    async def remove_orphans(self, *, besides: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        spared = {directory_name(tp) for tp in besides}
        doomed = {name: kept for name, kept in self._found.items() if name not in spared}
        for name in self._strangers - spared:
            doomed[name] = self._new_kept(-1, name, UUID(int=0))
            doomed[name].exists = True
        self._found = {name: kept for name, kept in self._found.items() if name in spared}
        self._strangers &= spared
        orphans = []
        deletions = []
        for name, kept in sorted(doomed.items()):
            tp = parse_directory_name(name)
            if tp is not None:
                orphans.append(tp)
                deletions.append(Delete(kept, lambda: None))
                self.change(deletions[-1])
        for deletion in deletions:
            await deletion.future
        if self._found:
            return orphans
        with contextlib.suppress(OSError):
            for name in self._files.list(self.layout.journal):
                if name.endswith(KEPT_SUFFIX):
                    # All logs of the catalog could be opened: what it holds is of logs that have been deleted.
                    self._files.remove(os.path.join(self.layout.journal, name))
        return orphans

    def damage_of(self, tp: TopicPartition) -> list[Damage]:
        return find_damage(self._files, self._logs[tp].kept)

    # --- the ways to the threads ---

    def commit(self, operation: Operation) -> None:
        """Queue an operation for the committer. When the engine is closed it fails at once."""
        if self._to_committer is None:
            operation.error = Unavailable("the engine is closed")
            operation.complete()
        else:
            self._to_committer.submit(operation)

    def keep(self, operation: Operation) -> None:
        """Queue an operation for the keeper. When the engine is closed it fails at once."""
        if self._to_keeper is None:
            operation.fail(Unavailable("the engine is closed"))
            operation.complete()
        else:
            self._to_keeper.submit(operation)

    def change(self, change: Change) -> None:
        """Have a change made, and made durable by a checkpoint."""
        self._take_checkpoint((change,))

    async def flush(self) -> None:
        """Wait until all tails are in segments, as far as there is room."""
        self._hand_over()
        arrived = Waited()
        self.keep(arrived)
        await arrived.future

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Call back when the loop turns."""
        assert self._loop is not None
        return self._loop.call_soon(callback)

    def tick(self) -> None:
        """Do what is due: bring tails to segments, look for room, take a checkpoint."""
        self._timer = None
        if self._to_keeper is None:
            return
        if self._gate.held_bytes or self._room.refusal is not None:
            self._hand_over()
        due = self._monotonic() >= self._checkpoint_at + self._sizes.checkpoint_ms / 1000
        if due and self._completed_lsn > self._checkpoint_lsn and not self._checkpoint_runs:
            self._take_checkpoint(())
        self._arm()

    def _arm(self) -> None:
        """Have ``tick`` called while there is something to wait for."""
        if self._timer is not None or not self._threaded or self._to_keeper is None or self._loop is None:
            return
        if self._gate.held_bytes or self._room.refusal is not None:
            self._timer = self._loop.call_later(_TICK_S, self.tick)
        elif self._completed_lsn > self._checkpoint_lsn:
            due = self._checkpoint_at + self._sizes.checkpoint_ms / 1000 - self._monotonic()
            self._timer = self._loop.call_later(min(max(due, _TICK_S), 1.0), self.tick)

    def _hand_over(self) -> None:
        """Give the keeper all tails."""
        queued = [(log.kept, log.hand_over()) for log in self._dirty]
        self._dirty.clear()
        self._dirty_bytes = 0
        self.keep(Materialise(queued, self._materialised))

    def _take_checkpoint(self, changes: Sequence[Change]) -> None:
        self._checkpoint_runs = True
        self._batches = 0
        self._hand_over()
        self.keep(TakeCheckpoint(self._completed_lsn, changes, self._checkpoint_taken))

    # --- the ways back ---

    def _report(self, receive: Callable[..., None]) -> Callable[..., None]:
        """A function with which a thread calls ``receive`` on the event loop."""

        def report(*what: object) -> None:
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(receive, *what)
            except RuntimeError:
                # The loop was closed without closing the engine; nobody is left to be told.
                return

        return report if self._threaded else receive

    def _committed(self, operations: Sequence[Operation], fatal: EngineError | None, end_lsn: int) -> None:
        moved: dict[AppendingLog, None] = {}
        failures: list[Exception] = []
        dirty, gate = self._dirty, self._gate
        for operation in operations:
            try:
                if type(operation) is Append:
                    log = operation.log
                    if operation.error is None:
                        self._completed_lsn = operation.end_lsn
                        log.completed(operation)
                        moved[log] = dirty[log] = None
                        self._dirty_bytes += operation.size
                        gate.held_bytes += operation.size
                    else:
                        log.failed(operation)
                    operation.tell()
                else:
                    operation.complete()
            except Exception as failure:
                failures.append(failure)
        on_appended = self.on_appended
        for log in moved:
            if not log.front.is_deleted:  # it may have been meanwhile
                try:
                    on_appended(log.tp)
                except Exception as failure:
                    failures.append(failure)
        if fatal is not None:
            self._keeper.fail(Unavailable(str(fatal)))
            self._tell_fatal(fatal)
        else:
            self._completed_lsn = max(self._completed_lsn, end_lsn)
            self._batches += len(operations)
            self._look_after()
        if failures:
            # One caller's bug must not keep the others from hearing of their appends.
            raise ExceptionGroup("callbacks of appends failed", failures)

    def _look_after(self) -> None:
        """Give the keeper what it should have by now."""
        much = self._completed_lsn - self._checkpoint_lsn >= self._sizes.checkpoint_bytes
        if (much or self._batches >= self._sizes.checkpoint_batches) and not self._checkpoint_runs:
            self._take_checkpoint(())
        elif self._dirty_bytes >= self._sizes.gulp_bytes:
            self._hand_over()
        if self._timer is None:
            self._arm()

    def _kept(self, operations: Sequence[Operation], fatal: EngineError | None) -> None:
        try:
            for operation in operations:
                operation.complete()
            self._arm()
        finally:
            if fatal is not None:
                self._committer.fail(Unavailable(str(fatal)))
                self._tell_fatal(fatal)

    def _tell_fatal(self, error: EngineError) -> None:
        if not self._has_failed:
            self._has_failed = True
            self.on_fatal(error)

    def _materialised(self, results: Sequence[tuple[KeptLog, Sequence[Written]]]) -> None:
        for kept, written in results:
            if isinstance(kept.owner, LocalLog):
                self._gate.less(kept.owner.materialised(written))

    def _checkpoint_taken(self, checkpoint: TakeCheckpoint) -> None:
        self._checkpoint_runs = False
        if checkpoint.error is None:
            self._checkpoint_lsn = max(self._checkpoint_lsn, checkpoint.lsn)
        self._checkpoint_at = self._monotonic()
        self._arm()


async def _end(lane: Lane) -> None:
    """Let go of what there is to let go of, whatever fails: a failure was reported as it happened."""
    with contextlib.suppress(EngineError):
        last = Close()
        lane.submit(last)
        await last.future
    lane.join()
