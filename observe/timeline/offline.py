"""The timeline of a group from a recording: no broker is asked."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.core.events import Event
from ottla.observe.timeline.build import build
from ottla.observe.timeline.model import Timeline
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.history import History

BUDGET_BYTES = 1 << 30


def timeline_of(
    events: Iterable[Event], group_id: str, *, last: int | None = None, since_ms: int | None = None, node: str = ""
) -> Timeline | None:
    """The timeline of a group; None if nothing is told of it.

    Args:
        last: only so many episodes.
        since_ms: only those that began at this Unix time or later.
        node: the id of the node whose events these are, where it is one of several.
    """
    history, traffic = History(budget_bytes=BUDGET_BYTES), Traffic(1 << 20)
    history.node = node
    last_ms = 0
    for event in events:
        if event.group_id in (group_id, ""):
            history(event)
            traffic(event)
            if event.group_id:
                last_ms = max(last_ms, event.wall_ms)
    if not last_ms:
        return None
    timeline = build(
        group_id,
        history.episodes(group_id, last=last, since_ms=since_ms),
        traffic=traffic,
        now_ms=last_ms,
        faults=history.faults(group_id),
    )
    timeline.is_live = False
    return timeline
