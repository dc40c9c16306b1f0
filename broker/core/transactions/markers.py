"""After the outcome is decided: a marker to every partition that takes part, then the record that says it is done.

A marker or record that fails is tried again until it succeeds. A partition that is gone needs no marker.
"""

from __future__ import annotations

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import Write
from ottla.broker.core.transactions.machine import Machine, Marker, Timer
from ottla.broker.core.transactions.records import record
from ottla.broker.core.transactions.transaction import Entry, Snapshot
from ottla.broker.core.transactions.transitions import completed
from ottla.protocol.errors import ErrorCode

DONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Outcomes after which a partition needs nothing more."""


class CompletionWrite(Write[Machine]):
    """The record of a completed transaction."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.shard)
        self.entry = entry

    def done(self, m: Machine, error: ErrorCode) -> None:
        entry = self.entry
        if error:
            m.note("A completed transaction could not be recorded", transactional_id=entry.transactional_id,
                   error=error.name)  # fmt: skip
            m.arm_retry(entry)
            return
        assert entry.complete is not None
        m.follow(entry, entry.complete)
        entry.complete = entry.pending = None
        entry.failures = 0
        m.release(entry)

    def given_up(self, m: Machine) -> None:
        """Whoever has the partition next finds the decision in the log, and completes it."""


def begin_markers(m: Machine, entry: Entry) -> Snapshot:
    """The decision is durable: write the markers. Returns what the id will be once they are."""
    entry.complete = after = completed(entry.current, m.wall_ms)
    entry.pending = after.state
    entry.failures = 0
    for tp in sorted(entry.current.partitions):
        m.write_marker(entry, tp)
    if not entry.markers:
        _complete(m, entry)
    return after


def marker_written(m: Machine, token: Marker, error: ErrorCode) -> None:
    """A marker is durable (``NONE``), or failed. Outcomes of attempts that were given up are ignored."""
    entry = token.entry
    if entry.markers.get(token.tp) is not token:
        return
    if error not in DONE:
        if token.tp not in m.unwritten:  # a node may be down for long, and have many
            m.unwritten.add(token.tp)
            m.note("A transaction marker could not be written, and is tried again", topic=token.tp.topic,
                   partition=token.tp.partition, transactional_id=entry.transactional_id, error=error.name)  # fmt: skip
        entry.markers[token.tp] = None  # nobody is at it
        if TimerKey(Timer.RETRY, entry.transactional_id) not in m.deadlines:
            m.arm_retry(entry)
        return
    m.unwritten.discard(token.tp)
    del entry.markers[token.tp]
    if not entry.markers:
        _complete(m, entry)


def retry(m: Machine, entry: Entry) -> None:
    """Do again what failed."""
    failed = [tp for tp, token in entry.markers.items() if token is None]
    for tp in failed:
        m.write_marker(entry, tp)
    if not entry.markers and entry.complete is not None:
        _complete(m, entry)


def _complete(m: Machine, entry: Entry) -> None:
    assert entry.complete is not None
    m.deadlines.cancel(TimerKey(Timer.RETRY, entry.transactional_id))
    m.append(CompletionWrite(entry), [record(entry.transactional_id, entry.complete)])
