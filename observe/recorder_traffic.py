"""Tells traffic from other events: it comes with every commit, and would crowd out what happens rarely."""

from __future__ import annotations

from ottla.broker.core.events import (
    AppendFinished,
    CommitReceived,
    Event,
    OffsetsCommitted,
    RequestAnswered,
    RequestReceived,
    RequestRefused,
    TxnCommitReceived,
)

_ALWAYS: tuple[type[Event], ...] = (CommitReceived, OffsetsCommitted, TxnCommitReceived)
_BY_API = frozenset((RequestReceived, RequestAnswered, RequestRefused))
_APIS = frozenset(("OffsetCommit", "TxnOffsetCommit", "OffsetFetch", "Heartbeat"))


def is_traffic(event: Event) -> bool:
    """True if an event only says that offsets were committed or asked for, or that a heartbeat was refused."""
    kind = event.__class__
    if kind in _ALWAYS:
        return True
    if kind in _BY_API:
        return event.api in _APIS  # type: ignore[attr-defined]
    return kind is AppendFinished and event.what == "offsets"  # type: ignore[attr-defined]
