"""Reasons that clients give when they join and leave (KIP-800), and their classes."""

from __future__ import annotations

from ottla.broker.core.events.reasons import NOT_PROVIDED
from ottla.observe.why.causes import Cause

_ROUTINE = ("need to re-join with the given member-id", "group is already rebalancing")
"""Part of every client's way into a group."""
_LEAVING: tuple[tuple[str, str], ...] = (
    # The Java client; kafka-python and others word some of it alike.
    ("consumer poll timeout has expired", Cause.LEFT_POLL_TIMEOUT),
    ("max.poll.interval.ms", Cause.LEFT_POLL_TIMEOUT),
    ("the consumer is being closed", Cause.LEFT_CLOSED),
    ("the consumer unsubscribed from all topics", Cause.LEFT_UNSUBSCRIBED),
    ("member was removed by an admin", Cause.REMOVED_BY_ADMIN),
    # franz-go says this when it is closed or told to leave.
    ("client leaving group per normal operation", Cause.LEFT_CLOSED),
    ("consumer is closed", Cause.LEFT_CLOSED),
    ("consumer was closed", Cause.LEFT_CLOSED),
    ("consumer unsubscribed", Cause.LEFT_UNSUBSCRIBED),
)
_JOINING: tuple[tuple[str, str], ...] = (
    ("cached metadata has changed", Cause.TOPIC_METADATA_CHANGED),
    # Ottla's own client: the number of partitions of a topic changed.
    ("the number of partitions of", Cause.TOPIC_METADATA_CHANGED),
    ("subscription has changed", Cause.SUBSCRIPTION_CHANGED),
    ("the subscription changed", Cause.SUBSCRIPTION_CHANGED),
    ("need to revoke partitions", Cause.COOPERATIVE_FOLLOW_UP),
    ("rebalance enforced", Cause.REBALANCE_ENFORCED),
    ("rebalance failed", Cause.REJOINED_AFTER_ERROR),
    ("encountered ", Cause.REJOINED_AFTER_ERROR),
    (" failed: ", Cause.REJOINED_AFTER_ERROR),
)


def said(reason: str | None) -> str:
    """A client's words; empty if there are none that tell anything."""
    if reason is None or reason == NOT_PROVIDED or reason.startswith(_ROUTINE):
        return ""
    return reason


def leaving_class(reason: str) -> str:
    """The class of a departure by what the client said."""
    if not reason:
        return Cause.LEFT_WITHOUT_REASON
    return _first(_LEAVING, reason) or Cause.LEFT_WITH_REASON


def joining_class(reason: str) -> str | None:
    """The class of a rejoin by what the client said; None if it says nothing about why."""
    return _first(_JOINING, reason)


def _first(table: tuple[tuple[str, str], ...], reason: str) -> str | None:
    lowered = reason.lower()
    return next((cause for words, cause in table if words in lowered), None)
