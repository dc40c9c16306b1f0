"""The head of the page: whose it is, of when, and what is wrong in a sentence; and at its end what cannot be known."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from ottla.pipeline.report import markup
from ottla.pipeline.report.lists import Where, group_link, once
from ottla.pipeline.report.markup import Html, count, duration, join, moment, number, tag, time
from ottla.pipeline.report.scene import Finding, Group, Scene
from ottla.pipeline.report.words import kind, severity, status_level

NAMED = 3


def verdict(scene: Scene, where: Where) -> Html:
    """All that is wrong, in one sentence."""
    many = count(len(scene.groups), "group")
    told = _told(scene)
    if not told and scene.cannot_tell:
        return tag("p", f"Nothing was found with {many}, but it is too early to tell. ", once(scene), class_="verdict")
    if not told:
        noted = len(scene.findings)
        rest = f" ({count(noted, 'thing')} to know of below)" if noted else ""
        return tag("p", f"Nothing is wrong with {many}{rest}.", class_="verdict good")
    parts: list[object] = []
    for index, one in enumerate(told[:NAMED]):
        parts += ["; " if index else "", group_link(one.group, where), " ", one.said]
    others = len(told) - NAMED
    if others > 0:
        parts.append(f"; and {count(others, 'group')} more")
    lasting = sum(one.lasts for one in told)
    still = f", {lasting:,} of them still" if lasting else ", none of it lasts"
    worst = "bad" if any(one.severity > 2 for one in told) else "warn"
    return tag(
        "p", tag("strong", f"{len(told):,} of {many} had trouble{still}: "), *parts, ".", class_=f"verdict {worst}"
    )


class _Trouble(NamedTuple):
    """The trouble of a group, in words."""

    group: str
    said: Html
    severity: int
    lasts: bool


def _told(scene: Scene) -> list[_Trouble]:
    """The groups with a finding that matters, a status or a breach: the worst first, of these what lasts.

    A status is of the end of the span. A breach lasts if its last minute is one of the last two: the newest may be
    half seen.
    """
    groups = {group.name: group for group in scene.groups}
    first: dict[str, list[Finding]] = {}
    for one in scene.findings:
        if severity(one.kind) > 1:
            first.setdefault(one.group, []).append(one)
    told = []
    for name in [*first, *(name for name in groups if name not in first)]:
        group, found = groups[name], first.get(name, [])
        last = max((one.last_minute for one in group.breaches), default=None)
        lasts = group.status is not None or (last is not None and last + timedelta(minutes=2) >= scene.span.end)
        found_lasts = any(one.ended_at is None for one in found)
        level = max([severity(one.kind) for one in found] + [status_level(group.status) if group.status else 0])
        if found:
            said = join(kind(found[0].kind).phrase, _aside(found[0]))
            # What is over does not last because something else does.
            said = join(said, " and ", _without_finding(group)) if lasts and not found_lasts else said
            told.append(_Trouble(name, said, level, lasts or found_lasts))
        elif group.status or group.breaches:
            told.append(_Trouble(name, _without_finding(group), level, lasts))
    return sorted(told, key=lambda one: (-one.severity, not one.lasts))


def _without_finding(group: Group) -> Html:
    """``has partitions in STOP and was over its objective (worst 47 s)``."""
    parts = [f"has partitions in {group.status}"] if group.status else []
    worst = max((one.worst_seconds for one in group.breaches if one.worst_seconds is not None), default=None)
    if group.breaches:
        parts.append("was over its objective" + (f" (worst {duration(worst)})" if worst is not None else ""))
    return join(" and ".join(parts))


def _aside(one: Finding) -> Html | None:
    """The time since which a finding lasts, and its suspect."""
    parts: list[object] = []
    if one.ended_at is None:
        parts.append(join("since ", time(one.started_at)))
    if one.suspect and one.suspect != one.group:
        parts.append(join("suspect ", tag("bdi", one.suspect, class_="name")))
    return join(" (", parts[0], ", " if len(parts) > 1 else None, parts[1:], ")") if parts else None


def facts(scene: Scene) -> Html:
    """The figures of the whole cluster."""
    span = scene.span
    short = span.start.date() == span.end.date()
    known = [group.now for group in scene.groups if group.now and group.now.seconds is not None]
    worst = max((one.seconds or 0.0 for one in known), default=None)
    at_least = any(one.minimum for one in known)
    durations = [group.paused_ms for group in scene.groups if group.paused_ms is not None]
    rebalances = sum(group.changes for group in scene.groups)
    paused = duration(sum(durations) / 1000) if durations else "not known" if rebalances else "–"
    listed: list[tuple[str, object]] = [
        (
            "Time (UTC)",
            join(
                time(span.start),
                " – ",
                time(span.end, day=not short),
                tag("span", f" {span.start:%Y} · {duration(span.length.total_seconds())}", class_="muted"),
            ),
        ),
        ("Groups", number(len(scene.groups))),
        ("Findings", number(len(scene.findings))),
        ("Furthest behind now", duration(worst, minimum=at_least)),
        ("Records behind now", number(sum(group.records or 0 for group in scene.groups))),
        ("Rebalances", number(rebalances)),
        ("Stood still in them", paused),
        ("Breaches", number(len(scene.breaches))),
    ]
    return markup.facts(listed)


def notes(scene: Scene) -> Html:
    """Notes on what is unknown, left out, or not understood."""
    lines: list[object] = []
    if not scene.has_events:
        lines.append(
            join(
                tag("b", "There are no events of groups. "),
                "They come from the topic ",
                tag("code", "__ottla_group_events"),
                ", which Ottla writes and Apache Kafka does not. Without them it cannot be known how long a rebalance "
                "took, why it began, and who was waited for; zombies and long waits to rejoin cannot be found. Storms, "
                "restarts, moves and suspects are told from the generations in __consumer_offsets alone.",
            )
        )
    if total := sum(many for _, many in scene.quarantine):
        errors = ", ".join(f"{many:,} × {error}" for error, many in scene.quarantine[:5])
        more = f" and {len(scene.quarantine) - 5:,} more reasons" if len(scene.quarantine) > 5 else ""
        were = "record was" if total == 1 else "records were"
        lines.append(
            join(tag("b", f"{total:,} {were} not understood"), f" and lie in silver.quarantine: {errors}{more}.")
        )
    else:
        lines.append("No record was put in quarantine: all of __consumer_offsets that was read was understood.")
    if scene.unsampled:
        first = moment(scene.span.begins(scene.unsampled[0]))
        lines.append(
            f"The ends of logs were not sampled in {count(len(scene.unsampled), 'column')} of the map, "
            f"the first at {first}: lag is not known there."
        )
    if "lag_by_partition" in scene.missing:
        lines.append(
            "There is no lag by partition: the ends of logs were never sampled, or gold was built before they were."
        )
    if scene.earlier is not None:
        lines.append(f"The lake goes back to {scene.earlier:%d %b %Y}; with --since the report does, too.")
    if scene.cannot_tell:
        lines.append(once(scene))
    if any(cell is not None and cell.minimum for group in scene.groups for cell in group.cells):
        lines.append(
            "≥ marks lag of groups that stand before the first sample of a log's end: they are behind by at least that."
        )
    return tag("ul", (tag("li", line) for line in lines), class_="notes")
