"""The groups of a broker at a moment: what is gone once it has stopped."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import GroupState
from ottla.observe.why.causes import GRAVE, Cause
from ottla.observe.why.choice import OF_BROKER
from ottla.observe.why.model import Episode

if TYPE_CHECKING:
    from ottla.observe.observatory import Observatory
    from ottla.observe.view import View


MOST_LOOKED = 256
"""So many groups of a broker are looked at: there may be hundreds of thousands."""
MOST_PLACES = 1_000
"""In so many partitions of a group records that are left are looked for."""
AT_REST = ("Stable", "Empty", "Dead")


class Left(NamedTuple):
    """A partition with records that a group has not committed; ``committed`` is None if it never did."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int


class Seen(NamedTuple):
    """A group at a moment.

    Attributes:
        left: the partitions with records left to read; None if the group has none assigned or committed.
        alarms: those that stand, and those that are over.
    """

    state: GroupState
    left: list[Left] | None
    alarms: list[Alarm]


class Account(NamedTuple):
    """All that is told of a group. ``seen`` is None if it was gone at the end."""

    group_id: str
    seen: Seen | None
    episodes: list[Episode]

    @property
    def rebalances(self) -> list[Episode]:
        return [one for one in self.episodes if one.kind == "rebalance"]

    @property
    def is_well(self) -> bool:
        """True if nothing happened to it but its start and its end."""
        if self.seen is not None and (self.seen.alarms or self.seen.state.state not in AT_REST):
            return False
        before_end = [one for one in self.rebalances if one.outcome != "empty"]
        return len(before_end) < 2 and not any(is_grave(one) for one in self.episodes)

    @property
    def lag(self) -> int:
        """How many records were left to read, as far as that is known."""
        return sum(one.lag for one in (self.seen and self.seen.left) or ())


def is_grave(episode: Episode) -> bool:
    """True if something went wrong in it."""
    causes = [episode.cause, *(trigger.cause for trigger in episode.triggers)]
    return any(Cause(one).row.gravity == GRAVE for one in causes)


def accounts(observatory: Observatory, seen: dict[str, Seen] | None, since_ms: int, since_seq: int) -> list[Account]:
    """Each group to which something happened, the worst first; to be called on the broker's loop while it runs.

    Args:
        seen: the groups as they were when the broker stopped; None while it runs.
        since_ms, since_seq: tell what happened since this Unix time, and after this event; 0 for all.
    """
    history, recorder = observatory.history, observatory.recorder
    found = look(observatory) if seen is None else seen
    known = [one for one in history.group_ids() if not since_seq or recorder.events(one, after=since_seq, limit=1)]
    told = [
        Account(
            group_id,
            _since(found.get(group_id), since_ms),
            [one for one in history.episodes(group_id, since_ms=since_ms or None) if one.kind not in OF_BROKER],
        )
        for group_id in known
    ]
    return sorted(told, key=lambda one: (one.is_well, not one.lag, one.group_id))


def _since(seen: Seen | None, since_ms: int) -> Seen | None:
    return seen and seen._replace(alarms=[one for one in seen.alarms if one.last_ms >= since_ms])


def look(observatory: Observatory) -> dict[str, Seen]:
    """The groups of a broker, by their ids; to be called on its loop."""
    known = [*observatory.history.group_ids()][-MOST_LOOKED:]
    if not known:
        return {}  # and nothing of the rest has to be imported
    view, sentinels = observatory.view, observatory.sentinels
    alarms = [] if sentinels is None else [*sentinels.board.recent(), *sentinels.board.active()]
    found = (view.group(group_id) for group_id in known)
    return {
        state.group_id: Seen(state, _left(view, state), [one for one in alarms if one.group_id == state.group_id])
        for state in found
        if state is not None
    }


def _left(view: View, state: GroupState) -> list[Left] | None:
    committed = {(one.topic, one.partition): one.committed_offset for one in view.progress(state.group_id)}
    assigned = [
        (topic, partition)
        for member in state.members for topic, partitions in member.assignment.items() for partition in partitions
    ]  # fmt: skip
    left: list[Left] = []
    places = sorted({*committed, *assigned})[:MOST_PLACES]
    for topic, of_topic in groupby(places, lambda place: place[0]):
        served = view.topic(topic)
        rows = {one.partition: one for one in served.partitions} if served is not None else {}
        for _, partition in of_topic:
            at, row = committed.get((topic, partition)), rows.get(partition)
            lag = 0 if row is None else row.high_watermark - max(at or 0, row.log_start_offset)
            if row is not None and lag > 0:
                left.append(Left(topic, partition, at, row.high_watermark, lag))
    return left if places else None
