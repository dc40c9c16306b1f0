"""Alarms of the sentinels as events; see `ottla.observe.sentinels`. No decision of the coordinator depends on it.

The sentence about it is not part of the event, as it names clients that a recording may have to hide.
"""

from __future__ import annotations

from ottla.broker.core.events.base import Event


class SentinelRaised(Event, kw_only=True):
    """Something is wrong with a group; ``cause`` is the input that showed it, 0 if it was seen by looking.

    ``sentinel`` is one of `ottla.observe.sentinels.SENTINELS`; ``subject`` the topic that it is about, or empty.
    """

    sentinel: str
    subject: str


class SentinelCleared(Event, kw_only=True):
    """It is over."""

    sentinel: str
    subject: str
    lasted_ms: int
