"""Swim lanes of a group's members, out of ``gold.group_members``."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ottla.pipeline.report.reading import Tables, within
from ottla.pipeline.report.scene import Group, Rebalance, Storm
from ottla.pipeline.report.span import Span

MOST_LANES = 24
WIDEST = 3.0
"""Storms further apart than this many times their lengths are not shown in one picture."""
DENSE = 60
"""With this many rebalances a group has a picture even if nothing was found."""


class Bar(NamedTuple):
    """A time in which one member was in the group; ``partitions`` is the most it owned."""

    start: datetime
    end: datetime
    member: str
    partitions: int
    first_generation: int
    last_generation: int


@dataclass(slots=True)
class Lane:
    """A client, with all members that it was one after the other.

    Attributes:
        identity: group.instance.id of a static member, else client id.
        hosts: where it ran, in order; a dynamic member's is one.
        blamed: when a rebalance ended of which it is the culprit; where none is known, that it triggered.
    """

    identity: str
    hosts: list[str]
    static: bool
    bars: list[Bar] = field(default_factory=list)
    blamed: list[datetime] = field(default_factory=list)
    suspect: bool = False


class Picture(NamedTuple):
    """A drawing of a group's members: lanes over a span of time, and the number of lanes that are left out."""

    start: datetime
    end: datetime
    lanes: list[Lane]
    more: int
    rebalances: list[Rebalance]
    storms: list[Storm]


class _Seen(NamedTuple):
    """A member in a generation."""

    when: datetime
    generation: int
    member: str
    identity: str
    host: str
    static: bool
    partitions: int


def worth_showing(group: Group) -> bool:
    """Tell whether its rebalances are more than starting and stopping."""
    found = any(one.kind in _OF_MEMBERS for one in group.findings)
    return bool(group.rebalances) and (found or bool(group.storms) or group.changes >= DENSE)


_OF_MEMBERS = {"storm", "rolling_restart", "zombie", "oversized_barrier", "flapping_static_member"}


def window(group: Group, span: Span) -> tuple[datetime, datetime]:
    """The part of the span in which the group's rebalances are."""
    times = [(one.started_at, one.ended_at) for one in group.storms]
    if not times:
        times = [(one.started_at, one.ended_at or span.end) for one in group.findings if one.kind in _OF_MEMBERS]
    if not times:
        times = [(group.rebalances[0].completed_at, group.rebalances[-1].completed_at)]
    first, last = min(start for start, _ in times), max(end for _, end in times)
    lengths = sum((end - start for start, end in times), timedelta())
    if last - first > WIDEST * max(lengths, timedelta(minutes=10)):
        first, last = times[0]  # the worst comes first
    pad = max((last - first) * 0.12, timedelta(seconds=45))
    return max(span.start, first - pad), min(span.end, last + pad)


def picture(tables: Tables, group: Group, span: Span) -> Picture | None:
    """The lanes of a group; None if the members of its generations are not known."""
    start, end = window(group, span)
    known = [one for one in group.rebalances if one.completed_at < end]
    before = [one.completed_at for one in known if one.completed_at <= start]
    seen, empty = _members(tables, group.name, before[-1] if before else start, end)
    if not seen:
        return None
    inside = [one for one in known if one.completed_at >= start]
    lanes = _lanes(seen, start, end, [*empty, *(one.completed_at for one in known)])
    storms = [one for one in group.storms if one.started_at < end and one.ended_at >= start]
    suspects = {one.suspect for one in storms} | {one.suspect for one in group.findings}
    _blame(lanes, inside, {one for one in suspects if one})
    lanes.sort(key=lambda one: (not one.suspect, -len(one.blamed), -len(one.bars), one.identity, one.hosts))
    return Picture(start, end, lanes[:MOST_LANES], max(0, len(lanes) - MOST_LANES), inside, storms)


def _members(tables: Tables, group: str, since: datetime, until: datetime) -> tuple[list[_Seen], list[datetime]]:
    """The members of each generation, in order, with the number of their partitions; and the times without members."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = ["log_ts", "generation", "member_id", "client_id", "client_host", "group_instance_id"]
    where = (pc.field("group_id") == group) & within("log_ts", since, until)
    parts = [
        pa.Table.from_batches([batch]).group_by(keys).aggregate([("topic", "count")])
        for batch in tables.batches("group_members", [*keys, "topic"], days=(since.date(), until.date()), where=where)
        if batch.num_rows
    ]
    if not parts:
        return [], []
    whole = pa.concat_tables(parts).group_by(keys).aggregate([("topic_count", "sum")])
    rows = zip(*(whole[name].to_pylist() for name in [*keys, "topic_count_sum"]), strict=True)
    seen, empty = [], []
    for when, generation, member, client, host, static, many in rows:
        if not member:
            # A generation without members has one row that names nobody.
            empty.append(when)
            continue
        name = static or client or member
        # Java writes an address with a slash before it.
        seen.append(_Seen(when, generation, member, name, (host or "").lstrip("/"), bool(static), many))
    return sorted(seen), empty


def _lanes(seen: list[_Seen], start: datetime, end: datetime, written: list[datetime]) -> list[Lane]:
    """Members to lanes: one client's after each other in one, those that it has at a time in several."""
    lanes: list[Lane] = []
    of_member: dict[str, Lane] = {}
    of_client: dict[tuple[str, str], list[Lane]] = {}
    # Generations without members have no lane, but end those before them.
    times = sorted({*(one.when for one in seen), *written})
    until = dict(zip(times, [*times[1:], end], strict=True))
    for when, at_once in groupby(seen, attrgetter("when")):
        present = list(at_once)
        ids = {one.member for one in present}
        taken = {id(of_member[one]) for one in ids if one in of_member}
        for one in present:
            lane = of_member.get(one.member)
            if lane is None:
                # Who has a name of its own keeps it wherever it runs (KIP-345).
                mine = of_client.setdefault((one.identity, "" if one.static else one.host), [])
                lane = next((free for free in mine if id(free) not in taken), None)
                if lane is None:
                    lane = Lane(one.identity, [], one.static)
                    mine.append(lane)
                    lanes.append(lane)
                if one.host and one.host not in lane.hosts:
                    lane.hosts.append(one.host)
                taken.add(id(lane))
                of_member[one.member] = lane
            _extend(lane, one, max(when, start), min(until[when], end))
    return [lane for lane in lanes if lane.bars]


def _extend(lane: Lane, one: _Seen, start: datetime, end: datetime) -> None:
    if end <= start:
        return
    last = lane.bars[-1] if lane.bars else None
    if last and last.member == one.member and last.end == start and (last.partitions > 0) == (one.partitions > 0):
        most = max(last.partitions, one.partitions)
        lane.bars[-1] = last._replace(end=end, partitions=most, last_generation=one.generation)
    else:
        lane.bars.append(Bar(start, end, one.member, one.partitions, one.generation, one.generation))


def _blame(lanes: list[Lane], rebalances: list[Rebalance], suspects: set[str]) -> None:
    """Note who is named for what, and who is suspected; who never was in a generation has no lane of its own."""
    of_member = {bar.member: lane for lane in lanes for bar in lane.bars}
    for one in rebalances:
        if one.trigger and not one.first:
            lane = of_member.get(one.trigger) or next(
                (lane for lane in lanes if one.trigger.startswith(f"{lane.identity}-")), None
            )
            if lane is not None:
                lane.blamed.append(one.completed_at)
    for lane in lanes:
        members = {bar.member for bar in lane.bars}
        lane.suspect = any(
            suspect == lane.identity or suspect in members or suspect in lane.hosts for suspect in suspects
        )
