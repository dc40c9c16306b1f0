"""Group commit: everything that is queued goes to the journal in one write and one sync, then all of it is reported.

While the disk syncs, more is queued: the slower the disk, the larger the groups.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.engine import Durability, EngineError, StorageFull, Unavailable
from ottla.broker.storage.local.files import SyncFailed, engine_error
from ottla.broker.storage.local.journal import Journal
from ottla.broker.storage.local.operations import Append, AppendingLog, Close, EndSegment, Front, Operation
from ottla.broker.storage.local.room import Room
from ottla.broker.storage.local.segment import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from ottla.broker.storage.local.threads import Executor, Gate
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.frames import HEADER_BYTES, NEW_SEGMENT, PADDING, Kind, frame_bytes, header

# A member of an enumeration takes longer to find than all else that is done with it.
_BATCH: Final = int(Kind.BATCH)
_LOG: Final = int(Kind.LOG)
_FSYNC: Final = Durability.FSYNC
_INTERVAL: Final = Durability.INTERVAL
_LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
_LARGEST_POSITION: Final = 2**31 - 1

Report = Callable[[Sequence[Operation], EngineError | None, int], None]
"""`threads.Report`, with how far the journal goes."""


class Committer(Executor):
    """Writes operations to the journal, group by group."""

    def __init__(
        self,
        journal: Journal,
        room: Room,
        gate: Gate | None,
        report: Report,
        *,
        monotonic: Callable[[], float],
        interval_s: float,
    ) -> None:
        super().__init__(lambda operations, fatal: report(operations, fatal, journal.end_lsn))
        self.journal = journal
        self._room = room
        self._gate = gate
        self._monotonic = monotonic
        self._interval_s = interval_s
        # What is built and not written yet, and where the next frame goes.
        self._pieces: list[Buffer] = []
        self._next_lsn = 0
        self._built: list[Append] = []
        # When something written has to be synced, and when the last group has to be vouched for.
        self._sync_at: float | None = None
        self._mark_at: float | None = None

    def run(self, operations: Sequence[Operation]) -> None:
        """Execute a group and report it."""
        if self._gate is not None:
            self._gate.pass_through(lambda: self._room.refusal is not None or self.failure is not None)
        super().run(operations)

    def idle(self) -> float | None:
        """Sync and vouch for what has waited long enough."""
        if self.failure is not None or (self._sync_at is None and self._mark_at is None):
            return None
        now = self._monotonic()
        try:
            if self._sync_at is not None and self._sync_at <= now:
                self._sync()
            if self._mark_at is not None and self._mark_at <= now:
                self._mark()
        except SyncFailed as error:
            self.report((), self.give_up((), str(error)))
            return None
        waiting = [at for at in (self._sync_at, self._mark_at) if at is not None]
        return max(min(waiting) - now, 0.0) if waiting else None

    # --- a group ---

    def execute(self, operations: Sequence[Operation]) -> None:
        must_sync = has_interval = False
        self._next_lsn = self.journal.end_lsn
        for operation in operations:
            if type(operation) is Append:
                self._add(operation)
                policy = operation.config.durability
                if policy is _FSYNC:
                    must_sync = True
                elif policy is _INTERVAL:
                    has_interval = True
            elif isinstance(operation, EndSegment):
                operation.front.active_base = None
            elif isinstance(operation, Close):
                self._flush()
                self.journal.sync()
                self._mark_at = self._sync_at = None
                self.let_go()
        self._flush()
        if must_sync:
            self._sync()
        elif has_interval and self._sync_at is None:
            self._sync_at = self._monotonic() + self._interval_s

    def _add(self, append: Append) -> None:
        """Give a batch its frame, or an error."""
        log, size, refusal = append.log, append.size, self._room.refusal
        front = log.front
        if front.is_deleted or append.attempt <= front.failed_attempt or refusal is not None:
            append.error = self._refusal(front, append, refusal)
            return
        total = frame_bytes(size)
        name = b""
        if not front.is_known:
            name = front.topic_id + front.name.encode()
            total += frame_bytes(len(name))
        if self._next_lsn + total > self.journal.limit_lsn and not self._make_room(total, append):
            return
        if name:
            # In one write with the batch: where one is lost, so is the other.
            self._build(_LOG, 0, log, (name,), len(name))
            front.is_known = True
        flags = 0
        append.begins_segment = front.active_base is None or self._is_full(front, append)
        if append.begins_segment:
            flags = NEW_SEGMENT
            front.active_base = append.base_offset
            front.size = front.index_bytes = front.since_entry = 0
            front.first_timestamp_ms = append.max_timestamp_ms
        if front.since_entry > append.config.index_interval_bytes:
            # The time index has no more entries than the offset index, and larger ones.
            front.index_bytes += TIME_ENTRY_BYTES
            front.since_entry = 0
        front.since_entry += size
        front.size += size
        self._build(_BATCH, flags, log, append.body, size)
        append.end_lsn = self._next_lsn
        self._built.append(append)

    def _refusal(self, front: Front, append: Append, refusal: EngineError | None) -> EngineError:
        if front.is_deleted:
            return Unavailable(f"{front.name} is deleted")
        if refusal is None or append.attempt <= front.failed_attempt:
            return front.failure
        return front.fail(append.attempt, refusal)

    def _build(self, kind: int, flags: int, log: AppendingLog, body: Sequence[Buffer], size: int) -> None:
        """Put a frame behind those that are built."""
        lsn, pieces = self._next_lsn, self._pieces
        pieces.append(header(kind, flags, size, lsn, self.journal.synced_lsn, log.front.log_id, log.leader_epoch, body))
        pieces += body
        if size % 8:
            pieces.append(PADDING[size % 8])
        self._next_lsn = lsn + frame_bytes(size)

    def _make_room(self, total: int, append: Append) -> bool:
        """See to it that ``total`` bytes fit into the file; False if they do not, and then ``append`` failed."""
        self._flush()
        if append.attempt <= append.log.front.failed_attempt:
            append.error = append.log.front.failure
            return False
        return self.journal.end_lsn + total <= self.journal.limit_lsn or self._go_on_in_another_file(total, append)

    def _go_on_in_another_file(self, total: int, append: Append) -> bool:
        # What lies in the file that is left is on the disk before anything vouches for what follows.
        self._sync()
        try:
            self.journal.next_file(total)
        except OSError as error:
            refusal = engine_error(error, "beginning another file of the journal")
            if isinstance(refusal, StorageFull):
                self._room.refuse(refusal)
            append.error = append.log.front.fail(append.attempt, refusal)
            return False
        return True

    def _is_full(self, front: Front, append: Append) -> bool:
        """Tell whether a batch must begin a new segment. The timestamps of records tell the age, as in Kafka."""
        config = append.config
        assert front.active_base is not None
        if not front.size:
            return False
        size = front.size + append.size
        if size > config.segment_bytes or size > _LARGEST_POSITION:
            return True
        if append.next_offset - 1 - front.active_base > _LARGEST_RELATIVE_OFFSET:
            return True
        if front.index_bytes + OFFSET_ENTRY_BYTES > config.segment_index_bytes:
            return True
        return 0 <= front.first_timestamp_ms < append.max_timestamp_ms - config.segment_ms

    # --- writing ---

    def _flush(self) -> None:
        """Write what is built; what does not get there whole fails."""
        if not self._pieces:
            return
        journal, built = self.journal, self._built
        pieces, self._pieces, self._built = self._pieces, [], []
        written, error = journal.write(pieces, self._next_lsn - journal.end_lsn)
        if error is None:
            return
        end_lsn = journal.end_lsn
        refusal = engine_error(error, "writing to the journal")
        if isinstance(refusal, StorageFull):
            self._room.refuse(refusal)
        for append in built:
            # After the first frame that is not whole every one fails, also one that would be short enough.
            if append.end_lsn <= journal.end_lsn + written:
                end_lsn = append.end_lsn
            else:
                append.error = append.log.front.fail(append.attempt, refusal)
                append.log.front.lose_track()
        journal.abandon(end_lsn)
        self._next_lsn = end_lsn

    def _sync(self) -> None:
        self._flush()
        self.journal.sync()
        self._sync_at = None
        # The next frame vouches for what is synced now; if there is none for a while, a mark does.
        self._mark_at = self._monotonic() + self._interval_s

    def _mark(self) -> None:
        """Vouch for the last group: without a later frame, damage to it would be taken for a torn write."""
        self._mark_at = None
        journal = self.journal
        if journal.end_lsn + HEADER_BYTES > journal.limit_lsn:
            return
        _, error = journal.write((header(Kind.MARK, 0, 0, journal.end_lsn, journal.synced_lsn, 0, 0, ()),), 40)
        if error is None:
            journal.sync()
        else:
            journal.abandon(journal.end_lsn)

    def let_go(self) -> None:
        self.journal.close()
