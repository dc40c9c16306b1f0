"""The parts of groups: their rebalances as swim lanes of members, or their lag as a curve."""

from __future__ import annotations

from datetime import datetime

from ottla.pipeline.report.heat import axis, behind, storms
from ottla.pipeline.report.markup import (
    Html,
    between,
    chip,
    count,
    duration,
    facts,
    head,
    join,
    moment,
    name,
    number,
    svg,
    table,
    tag,
)
from ottla.pipeline.report.members import Bar, Lane, Picture
from ottla.pipeline.report.scene import Group, NotOk
from ottla.pipeline.report.span import Span
from ottla.pipeline.report.words import OVER, kind, status_level, tone

WIDE = 1000
TITLED_BARS = 40


def card(group: Group, picture: Picture | None, not_ok: list[NotOk], span: Span, anchor: str) -> Html:
    """The part of the page about a group."""
    kinds = dict.fromkeys(one.kind for one in group.findings)
    chips = [chip(kind(one).label, tone(kind(one).severity)) for one in kinds]
    states = [
        chip(
            join(f"{one.status} on {count(len(one.partitions), 'partition')} of ", name(one.topic)),
            tone(status_level(one.status)),
        )
        for one in not_ok
        if one.group == group.name
    ]
    return tag(
        "section",
        tag("div", tag("h3", name(group.name, class_="whole")), chips, states, _over(group), class_="title"),
        _facts(group),
        _curve(group, span),
        _lanes(picture, group) if picture else None,
        class_="card pad",
        id=anchor,
        aria_label=f"Group {group.name}",
    )


def _over(group: Group) -> Html | None:
    """Say that it broke its objective, and how often."""
    many = len(group.breaches)
    return chip(OVER + (f" {many:,} times" if many > 1 else ""), "warn") if many else None


def _facts(group: Group) -> Html:
    """The figures of a group in a line."""
    figures = [
        ("Behind now", behind(group.now)),
        ("Records behind", number(group.records)),
        ("Worst", behind(group.worst_cell)),
        ("Members", number(group.members)),
        ("Rebalances", number(group.changes)),
    ]
    if group.changes:
        known = [one.duration_ms for one in group.rebalances if one.duration_ms is not None and not one.first]
        slowest = max(known, default=None)
        paused = group.paused_ms
        figures.append(("Stood still in all", "not known" if paused is None else duration(paused / 1000)))
        figures += [("Longest", duration(slowest / 1000))] if slowest is not None else []
        figures.append(("Partitions moved", number(group.moved)))
    return facts(figures)


def _curve(group: Group, span: Span) -> Html | None:
    """Lag in seconds over the whole span, from nothing to the worst."""
    if group.worst_bucket is None or group.worst <= 0:
        return None
    ground, line, open_ = [], [], False
    for index, cell in enumerate(group.cells):
        if cell is None or cell.seconds is None:
            ground.append("V100" if open_ else "")
            open_ = False
            continue
        top = f"{100 - 96 * cell.seconds / group.worst:.4g}"
        ground.append(("" if open_ else f"M{index} 100") + f"V{top}h1")
        line.append((f"V{top}" if open_ else f"M{index} {top}") + "h1")
        open_ = True
    ground.append("V100" if open_ else "")
    when = moment(span.begins(group.worst_bucket))
    picture = svg(
        span.buckets,
        f"Lag of {group.name}: worst {duration(group.worst)} at {when}",
        [
            tag("path", class_="shade", d=f"M{start:.1f} 0H{end:.1f}V100H{start:.1f}z")
            for _, start, end in storms(group, span)
        ],
        tag("path", class_="ground", d="".join(ground)),
        tag("path", class_="curve", d="".join(line)),
    )
    caption = join("Lag, up to ", tag("b", duration(group.worst)), f" at {when}")
    return tag("figure", tag("figcaption", caption), picture, axis(span), class_="lagline")


def _lanes(picture: Picture, group: Group) -> Html:
    """A table of lanes: who, when it was there, how often."""
    window = Span(picture.start, picture.end, picture.end - picture.start)
    rows = [_lane(lane, picture, window) for lane in picture.lanes]
    if picture.more:
        rows.append(
            tag("tr", tag("td", f"and {count(picture.more, 'more client')}", colspan=4, class_="muted"), class_="rest")
        )
    heads = [
        head("Client"),
        head(axis(window), class_="axis", aria_label="Membership over time"),
        head("Sessions", figures=True, title="How many members it was, one after the other"),
        head("Named", figures=True, title="Rebalances that it triggered, or of which it is the culprit"),
    ]
    drawn = table("lanes", f"Members of {group.name} over time", heads, rows)
    return tag("div", _story(picture), _key(picture), tag("div", drawn, class_="scroll"), class_="timeline")


def _story(picture: Picture) -> Html:
    """The storms in words; without any, how many rebalances the picture shows."""
    lines = []
    for one in picture.storms:
        paused = "how long is not known" if one.paused_ms is None else f"{duration(one.paused_ms / 1000)} stood still"
        lines.append(
            tag(
                "li",
                tag("span", "storm" if one.kind == "storm" else "rolling restart", class_=f"mark {one.kind}"),
                join(" ", between(one.started_at, one.ended_at), f": {count(one.rebalances, 'rebalance')}, {paused}"),
                f", {count(one.moved, 'partition')} moved" if one.moved is not None else None,
                join(", mostly ", tag("q", one.reason)) if one.reason else None,
                join("; suspect ", name(one.suspect)) if one.suspect else None,
            )
        )
    if not lines:
        changes = sum(not one.first for one in picture.rebalances)
        said = count(changes, "rebalance") if changes else "No rebalance"
        lines.append(tag("li", said, " from ", between(picture.start, picture.end)))
    return tag("ul", lines, class_="story")


def _key(picture: Picture) -> Html:
    known = any(one.duration_ms for one in picture.rebalances)
    return tag(
        "ul",
        tag("li", tag("i", class_="key owning"), "owns partitions"),
        tag("li", tag("i", class_="key idle"), "in the group, owns nothing"),
        tag("li", tag("i", class_="key barrier"), "the group stands still") if known else None,
        tag("li", tag("i", class_="key dot"), "triggered a rebalance, or was the culprit"),
        class_="legend",
    )


def _lane(lane: Lane, picture: Picture, window: Span) -> Html:
    sessions = len({bar.member for bar in lane.bars})
    said = f"{lane.identity} on {', '.join(lane.hosts) or 'an unknown host'}: {count(sessions, 'session')}"
    said += f", named for {count(len(lane.blamed), 'rebalance')}" if lane.blamed else ""
    dots = "".join(f"M{_x(when, window)} 50h0" for when in sorted(set(lane.blamed)))
    drawn = svg(
        WIDE,
        said,
        _shade(picture, window),
        _bars(lane, window),
        _barriers(picture, window),
        tag("path", class_="dots", d=dots) if dots else None,
        class_="lane",
    )
    label = tag(
        "div",
        name(lane.identity),
        chip("static", "neutral") if lane.static else None,
        chip("suspect", "bad") if lane.suspect else None,
        tag("span", _hosts(lane), class_="muted small", title=", ".join(lane.hosts)) if lane.hosts else None,
        class_="who",
    )
    return tag(
        "tr",
        tag("th", label, scope="row"),
        tag("td", drawn, class_="cells"),
        tag("td", number(sessions), class_="num"),
        tag("td", number(len(lane.blamed)) if lane.blamed else "", class_="num"),
        class_="suspect" if lane.suspect else None,
    )


def _hosts(lane: Lane) -> Html:
    """The first host, and the number of others."""
    more = f" +{len(lane.hosts) - 1}" if len(lane.hosts) > 1 else None
    return join(name(lane.hosts[0], class_="host"), more)


def _x(when: datetime, window: Span) -> str:
    return f"{window.part(when) * WIDE:.1f}".removesuffix(".0")


def _bars(lane: Lane, window: Span) -> list[Html]:
    """Each with its member as title, as long as they are few; else one path for all."""
    if len(lane.bars) <= TITLED_BARS:
        return [
            tag("path", tag("title", _bar_title(bar)), class_=_bar_style(bar), d=_bar_path(bar, window))
            for bar in lane.bars
        ]
    styles: dict[str, list[str]] = {}
    for bar in lane.bars:
        styles.setdefault(_bar_style(bar), []).append(_bar_path(bar, window))
    return [tag("path", class_=style, d="".join(moves)) for style, moves in styles.items()]


def _bar_style(bar: Bar) -> str:
    return "owning" if bar.partitions else "idle"


def _bar_path(bar: Bar, window: Span) -> str:
    return f"M{_x(bar.start, window)} 18H{_x(bar.end, window)}V82H{_x(bar.start, window)}z"


def _bar_title(bar: Bar) -> str:
    generations = f"generation {bar.first_generation}"
    if bar.last_generation != bar.first_generation:
        generations = f"generations {bar.first_generation} to {bar.last_generation}"
    owned = f"up to {count(bar.partitions, 'partition')}" if bar.partitions else "no partition"
    return f"{bar.member}: {generations}, {owned}, {duration((bar.end - bar.start).total_seconds())}"


def _barriers(picture: Picture, window: Span) -> Html | None:
    """The times of rebalances, where their durations are known: nobody reads meanwhile."""
    moves = []
    for one in picture.rebalances:
        if one.duration_ms:
            end = window.part(one.completed_at)
            start = max(0.0, end - one.duration_ms / 1000 / window.length.total_seconds())
            moves.append(f"M{start * WIDE:.1f} 0H{end * WIDE:.1f}V100H{start * WIDE:.1f}z")
    return tag("path", class_="barrier", d="".join(moves)) if moves else None


def _shade(picture: Picture, window: Span) -> list[Html]:
    return [
        tag(
            "path",
            class_=f"shade {one.kind}",
            d=f"M{_x(one.started_at, window)} 0H{_x(one.ended_at, window)}V100H{_x(one.started_at, window)}z",
        )
        for one in picture.storms
    ]
