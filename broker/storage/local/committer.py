"""Group commit: everything that is queued goes to the journal in one write and one sync, then all of it is reported.

While the disk syncs, more is queued: the slower the disk, the larger the groups.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.engine import Durability, EngineError, StorageFull, Unavailable
from ottla.broker.storage.local.files import SyncFailed, engine_error
from ottla.broker.storage.local.journal import Journal
from ottla.broker.storage.local.operations import Append, Close, EndSegment, Front, Operation
from ottla.broker.storage.local.room import Room
from ottla.broker.storage.local.segment import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from ottla.broker.storage.local.threads import Executor, Gate
from ottla.protocol.compression import Buffer
from ottla.protocol.stored.frames import HEADER_BYTES, NEW_SEGMENT, PADDING, Kind, frame_bytes, header

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
        # What is built and not written yet.
        self._pieces: list[Buffer] = []
        self._size = 0
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
        for operation in operations:
            if type(operation) is Append:
                self._add(operation)
                policy = operation.config.durability
                if policy is Durability.FSYNC:
                    must_sync = True
                elif policy is Durability.INTERVAL:
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
        front = append.front
        if front.is_deleted:
            append.error = Unavailable(f"{front.name} is deleted")
            return
        if append.attempt <= front.failed_attempt:
            append.error = front.failure
            return
        if self._room.refusal is not None:
            append.error = front.fail(append.attempt, self._room.refusal)
            return
        size = append.size
        name = b"" if front.is_known else front.topic_id + front.name.encode()
        total = frame_bytes(size) + (frame_bytes(len(name)) if name else 0)
        if self.journal.end_lsn + self._size + total > self.journal.limit_lsn and not self._make_room(total, append):
            return
        if name:
            # In one write with the batch: where one is lost, so is the other.
            self._build(Kind.LOG, 0, append, (name,), len(name))
            front.is_known = True
        append.begins_segment = front.active_base is None or self._is_full(front, append)
        self._build(Kind.BATCH, NEW_SEGMENT if append.begins_segment else 0, append, append.body, size)
        self._place(front, append)
        append.end_lsn = self.journal.end_lsn + self._size
        self._built.append(append)

    def _build(self, kind: Kind, flags: int, append: Append, body: Sequence[Buffer], size: int) -> None:
        """Put a frame behind those that are built."""
        journal, pieces = self.journal, self._pieces
        lsn = journal.end_lsn + self._size
        pieces.append(header(kind, flags, size, lsn, journal.synced_lsn, append.front.log_id, append.epoch, body))
        pieces += body
        if size % 8:
            pieces.append(PADDING[size % 8])
        self._size += frame_bytes(size)

    def _make_room(self, total: int, append: Append) -> bool:
        """See to it that ``total`` bytes fit into the file; False if they do not, and then ``append`` failed."""
        self._flush()
        if append.attempt <= append.front.failed_attempt:
            append.error = append.front.failure
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
            append.error = append.front.fail(append.attempt, refusal)
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
        if append.base_offset + append.count - 1 - front.active_base > _LARGEST_RELATIVE_OFFSET:
            return True
        if front.index_bytes + OFFSET_ENTRY_BYTES > config.segment_index_bytes:
            return True
        return 0 <= front.first_timestamp_ms < append.max_timestamp_ms - config.segment_ms

    @staticmethod
    def _place(front: Front, append: Append) -> None:
        """Count a batch to its segment."""
        if append.begins_segment:
            front.active_base = append.base_offset
            front.size = front.index_bytes = front.since_entry = 0
            front.first_timestamp_ms = append.max_timestamp_ms
        if front.since_entry > append.config.index_interval_bytes:
            # The time index has no more entries than the offset index, and larger ones.
            front.index_bytes += TIME_ENTRY_BYTES
            front.since_entry = 0
        front.since_entry += append.size
        front.size += append.size

    # --- writing ---

    def _flush(self) -> None:
        """Write what is built; what does not get there whole fails."""
        if not self._size:
            return
        journal, built = self.journal, self._built
        pieces, size, self._pieces, self._size, self._built = self._pieces, self._size, [], 0, []
        written, error = journal.write(pieces, size)
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
                append.error = append.front.fail(append.attempt, refusal)
                append.front.lose_track()
        journal.abandon(end_lsn)

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
