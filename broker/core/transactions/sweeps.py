"""The effect of time on transactional ids: transactions open for too long are aborted, unused ids are forgotten."""

from __future__ import annotations

from functools import partial

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import Write
from ottla.broker.core.transactions.ending import fence
from ottla.broker.core.transactions.machine import Machine, Timer, TransactionShard
from ottla.broker.core.transactions.records import tombstone
from ottla.broker.core.transactions.state import AT_REST, DEAD
from ottla.broker.core.transactions.transaction import Entry
from ottla.protocol.errors import ErrorCode

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction that has none (KIP-939)."""


def abort_timed_out(m: Machine) -> None:
    """Abort every transaction that is open for longer than its producer allowed; see `fence`."""
    for entry in list(m.ongoing):
        tx = entry.current
        if entry.pending is None and tx.timeout_ms != NO_TIMEOUT_MS and tx.start_ms + tx.timeout_ms < m.wall_ms:
            fence(m, entry, partial(_note_abort, m, entry))
    m.arm_timeouts()


def put_off_timeouts(m: Machine, until_ms: int, now_ms: int, wall_ms: int) -> None:
    """Let `abort_timed_out` come when the first transaction has run out of time, if that is before ``until_ms``."""
    key = TimerKey(Timer.TIMEOUTS)
    at_ms = m.deadlines.get(key)
    if at_ms is None or at_ms >= until_ms:
        return
    timed = [entry.current for entry in m.ongoing if entry.current.timeout_ms != NO_TIMEOUT_MS]
    over_ms = min((tx.start_ms + tx.timeout_ms + 1 - wall_ms + now_ms for tx in timed), default=until_ms)
    interval_ms = m.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    later_ms = -(-(over_ms - at_ms) // interval_ms) * interval_ms
    if later_ms > 0:
        m.deadlines.set(key, min(at_ms + later_ms, until_ms))


def _note_abort(m: Machine, entry: Entry, error: ErrorCode) -> None:
    if error:
        m.note(f"Rollback of ongoing transaction for transactionalId {entry.transactional_id} failed due to error "
               f"{error.name}")  # fmt: skip
    else:
        m.note(f"Completed rollback of ongoing transaction for transactionalId {entry.transactional_id} due to timeout")


class TombstoneWrite(Write[Machine]):
    """The tombstones of ids that expired together."""

    __slots__ = ("entries",)

    def __init__(self, shard: TransactionShard, entries: list[Entry]) -> None:
        super().__init__(shard)
        self.entries = entries

    def done(self, m: Machine, error: ErrorCode) -> None:
        for entry in self.entries:
            entry.pending = None
            if not error:
                del m.shards[self.shard.partition].entries[entry.transactional_id]
                m.held_bytes -= entry.held_bytes
            m.release(entry)
        if error:
            m.note("Expired transactional ids could not be removed", ids=len(self.entries), error=error.name)
        else:
            m.note("Removed expired transactional ids", ids=len(self.entries), partition=self.shard.partition)

    def given_up(self, m: Machine) -> None:
        """They expire again wherever the partition goes."""


def remove_expired(m: Machine, shard: TransactionShard) -> None:
    """Delete the ids of a partition that nobody has used for ``transactional.id.expiration.ms``."""
    oldest_ms = m.wall_ms - m.settings.transactional_id_expiration_ms
    batch: list[Entry] = []
    size = 0
    for entry in shard.entries.values():
        if entry.pending is None and entry.current.state in AT_REST and entry.current.update_ms <= oldest_ms:
            entry.pending = DEAD
            batch.append(entry)
            size += len(entry.transactional_id)
            if size >= m.tombstone_batch_bytes:
                _remove(m, shard, batch)
                batch, size = [], 0
    if batch:
        _remove(m, shard, batch)


def _remove(m: Machine, shard: TransactionShard, entries: list[Entry]) -> None:
    m.append(TombstoneWrite(shard, entries), [tombstone(entry.transactional_id) for entry in entries])
