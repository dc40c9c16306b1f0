"""The groups of a broker at a moment: what is gone once it has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import GroupState

if TYPE_CHECKING:
    from ottla.observe.observatory import Observatory
    from ottla.observe.view import View


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


def look(observatory: Observatory) -> dict[str, Seen]:
    """The groups of a broker, by their ids; to be called on its loop."""
    if not observatory.history.group_ids():
        return {}  # and nothing of the rest has to be imported
    view, sentinels = observatory.view, observatory.sentinels
    alarms = [] if sentinels is None else [*sentinels.board.recent(), *sentinels.board.active()]
    found = (view.group(group_id) for group_id in view.group_ids())
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
    for topic, partition in (places := sorted({*committed, *assigned})):
        served = view.topic(topic)
        for one in served.partitions if served is not None else ():
            at = committed.get((topic, partition))
            lag = one.high_watermark - max(at or 0, one.log_start_offset)
            if one.partition == partition and lag > 0:
                left.append(Left(topic, partition, at, one.high_watermark, lag))
    return left if places else None
