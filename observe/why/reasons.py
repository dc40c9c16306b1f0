"""What clients say when they join and leave (KIP-800), and what is meant by it."""

from __future__ import annotations

NOT_PROVIDED = "not provided"
"""What the coordinator notes for a client that gave no reason."""

_ROUTINE = ("need to re-join with the given member-id", "group is already rebalancing")
"""Part of every client's way into a group."""
_LEAVING: tuple[tuple[str, str], ...] = (
    # The Java client; kafka-python and others word some of it alike.
    ("consumer poll timeout has expired", "left-poll-timeout"),
    ("max.poll.interval.ms", "left-poll-timeout"),
    ("the consumer is being closed", "left-closed"),
    ("the consumer unsubscribed from all topics", "left-unsubscribed"),
    ("member was removed by an admin", "removed-by-admin"),
    # franz-go says this when it is closed or told to leave.
    ("client leaving group per normal operation", "left-closed"),
    ("consumer is closed", "left-closed"),
    ("consumer was closed", "left-closed"),
    ("consumer unsubscribed", "left-unsubscribed"),
)
_JOINING: tuple[tuple[str, str], ...] = (
    ("cached metadata has changed", "topic-metadata-changed"),
    # Ottla's own client: the number of partitions of a topic changed.
    ("the number of partitions of", "topic-metadata-changed"),
    ("subscription has changed", "subscription-changed"),
    ("the subscription changed", "subscription-changed"),
    ("need to revoke partitions", "cooperative-follow-up"),
    ("rebalance enforced", "rebalance-enforced"),
    ("rebalance failed", "rejoined-after-error"),
    ("encountered ", "rejoined-after-error"),
    (" failed: ", "rejoined-after-error"),
)


def said(reason: str | None) -> str:
    """A client's words; empty if there are none that tell anything."""
    if reason is None or reason == NOT_PROVIDED or reason.startswith(_ROUTINE):
        return ""
    return reason


def leaving_class(reason: str) -> str:
    """The class of a departure by what the client said."""
    if not reason:
        return "left-without-reason"
    return _first(_LEAVING, reason) or "left-with-reason"


def joining_class(reason: str) -> str | None:
    """The class of a rejoin by what the client said; None if it says nothing about why."""
    return _first(_JOINING, reason)


def _first(table: tuple[tuple[str, str], ...], reason: str) -> str | None:
    lowered = reason.lower()
    return next((cause for words, cause in table if words in lowered), None)
