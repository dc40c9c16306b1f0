"""The rule for storms: five generations of a group or more, each within a minute of the one before.

Time is that of the log: what was slow to arrive is judged as if it had come at once, and a replay gives the same
alerts. Only that a storm is over is noticed by a clock on the wall, because nothing is written then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ottla.pipeline.alerts.alert import VERSION, Alert, State, alert_id, seconds

KIND = "storm"
NAMES_KEPT = 64
"""The most clients, or causes, that are counted at a time; see `_count`."""
MEMBERS_KEPT = 1000
"""The most members that are kept to see who came and went."""
ROLLING_SHARE = 0.8
"""With this share of different clients or more it is taken for a rolling restart, not for one client that flaps."""


class StormLimits(NamedTuple):
    """The limits of a storm.

    Attributes:
        generations: at least so many.
        gap_ms: each at most so long after the one before; after so long without one it is over.
        forget_ms: a group without a generation for so long is forgotten.
    """

    generations: int = 5
    gap_ms: int = 60_000
    forget_ms: int = 24 * 3_600_000


class Turn(NamedTuple):
    """A generation, as a group's record tells it, or as the event of its completion does.

    Attributes:
        members: (client id, host) by member id, of a record; None in an event.
        client: who caused it, of an event.
        cause: ditto.
        duration_ms: how long the group stood still, of an event.
        deleted: the record is a tombstone: the group is gone.
    """

    group: str
    ts_ms: int
    generation: int = -1
    members: Mapping[str, tuple[str, str]] | None = None
    client: tuple[str, str] | None = None
    cause: str | None = None
    duration_ms: int | None = None
    deleted: bool = False


class Storm(msgspec.Struct):
    """The state of a group: a few hundred bytes, and its members' ids.

    Attributes:
        generation: the latest, -1 if none is known; ``ts_ms``: when it was.
        first: the generation that the present run began with; ``since_ms``: when; ``count``: how many it has.
        raised: an alert stands.
        events: clients by what events said; ``changes``: by who came and went; both of the present run.
        causes: of the present run.
    """

    generation: int = -1
    ts_ms: int = 0
    first: int = -1
    since_ms: int = 0
    count: int = 0
    raised: bool = False
    events: dict[str, int] = {}
    changes: dict[str, int] = {}
    causes: dict[str, int] = {}
    told: int = 0
    paused_ms: int = 0
    members: dict[str, tuple[str, str]] | None = None
    most_members: int = 0


def feed(storm: Storm, turn: Turn, limits: StormLimits) -> list[Alert]:
    """Take the next generation of a group into account, from either source and in either order.

    The same generation comes twice where there is the event topic, and again when a static member is replaced; it
    counts once.
    """
    if turn.deleted:
        said = _resolve(storm, turn.group, turn.ts_ms, limits, "the group was deleted")
        _forget(storm)
        storm.generation = -1
        return said
    if turn.generation <= 0:
        return []  # a group that was made and has had no member yet
    said = []
    # A lower generation that is later: the group was deleted, and its tombstone was not seen.
    again = turn.generation < storm.generation and turn.ts_ms > storm.ts_ms
    if turn.generation > storm.generation or again:
        said += _next(storm, turn, limits)
    elif turn.generation < storm.first:
        return []  # of the run before: the other source has told of it already
    changed = _changed(storm, turn)
    if turn.duration_ms is not None:
        storm.paused_ms += turn.duration_ms
    if turn.cause is not None:
        storm.told += 1
        _count(storm.causes, turn.cause)
    if turn.client is not None:
        _count(storm.events, "\t".join(turn.client))
    elif changed is not None:
        _count(storm.changes, "\t".join(changed))
    if storm.count >= limits.generations and not storm.raised:
        storm.raised = True
        said.append(_alert(storm, turn.group, "raised", storm.ts_ms, f"and the next may follow within {_gap(limits)}"))
    return said


def quiet(storm: Storm, group: str, limits: StormLimits) -> list[Alert]:
    """No generation has come for `StormLimits.gap_ms`: what was raised is resolved."""
    return _resolve(storm, group, storm.ts_ms, limits, f"there was none for {_gap(limits)}")


def _next(storm: Storm, turn: Turn, limits: StormLimits) -> list[Alert]:
    """A generation that is new: it belongs to the run, or begins another."""
    said = []
    if storm.count == 0 or turn.ts_ms - storm.ts_ms > limits.gap_ms:
        said = quiet(storm, turn.group, limits)
        members = storm.members
        _forget(storm)
        storm.members, storm.since_ms, storm.first = members, turn.ts_ms, turn.generation
    storm.count += 1
    storm.first = min(storm.first, turn.generation)
    storm.generation, storm.ts_ms = turn.generation, max(turn.ts_ms, storm.ts_ms)
    return said


def _changed(storm: Storm, turn: Turn) -> tuple[str, str] | None:
    """The client that left, or else that joined, from one record to the next; None if there is none."""
    if turn.members is None:
        return None
    before, now = storm.members, dict(list(turn.members.items())[:MEMBERS_KEPT])
    storm.members = now
    storm.most_members = max(storm.most_members, len(turn.members))
    if before is None:
        return None
    gone = [who for member, who in before.items() if member not in turn.members]
    came = [who for member, who in now.items() if member not in before]
    return (*gone, *came)[0] if gone or came else None


def _count(names: dict[str, int], name: str) -> None:
    """Count in bounded space: who is more than a share of 1 / `NAMES_KEPT` is kept (Misra and Gries, 1982)."""
    if name in names or len(names) < NAMES_KEPT:
        names[name] = names.get(name, 0) + 1
        return
    for other in list(names):
        names[other] -= 1
        if not names[other]:
            del names[other]


def _resolve(storm: Storm, group: str, ts_ms: int, limits: StormLimits, why: str) -> list[Alert]:
    if not storm.raised:
        return []
    storm.raised = False
    said = _alert(storm, group, "resolved", ts_ms, f"it is over, because {why}")
    # What follows within the gap, as in a backlog that is read slowly, is a run of its own.
    storm.count = 0
    return [said]


def _forget(storm: Storm) -> None:
    blank = Storm(generation=storm.generation, ts_ms=storm.ts_ms)
    for field in Storm.__struct_fields__:
        setattr(storm, field, getattr(blank, field))


def _alert(storm: Storm, group: str, state: State, ts_ms: int, ending: str) -> Alert:
    clients = storm.events or storm.changes
    client, host = max(clients, key=lambda name: clients[name]).split("\t") if clients else (None, None)
    cause = max(storm.causes, key=lambda name: storm.causes[name]) if storm.causes else None
    rolling = sum(clients.values()) >= 3 and len(clients) >= ROLLING_SHARE * sum(clients.values())
    text = f"Group {group!r} rebalanced {storm.count} times in {seconds(storm.ts_ms - storm.since_ms)}"
    if rolling:
        text += f", by {len(clients)} different clients, as in a rolling restart"
    elif client:
        text += f", mostly because of client {client!r}" + (f" on {host}" if host else "")
    if cause:
        text += f" ({cause})"
    if storm.told:
        text += f"; it stood still for {seconds(storm.paused_ms)}"
    return Alert(
        v=VERSION,
        id=alert_id(KIND, group, "", storm.since_ms),
        state=state,
        kind=KIND,
        group=group,
        ts_ms=ts_ms,
        since_ms=storm.since_ms,
        text=f"{text}; {ending}.",
        pattern="rolling_restart" if rolling else "storm",
        generation=storm.generation,
        generations=storm.count,
        suspect=None if rolling else client,
        suspect_host=None if rolling else (host or None),
        cause=cause,
        paused_ms=storm.paused_ms if storm.told else None,
        members=storm.most_members or None,
    )


def _gap(limits: StormLimits) -> str:
    return seconds(limits.gap_ms)
