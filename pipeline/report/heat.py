"""The heat map: a row for each group, minutes to the right, colour by seconds of lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ottla.pipeline.report.markup import Html, chip, count, duration, head, join, moment, name, number, svg, table, tag
from ottla.pipeline.report.scene import BEHIND_S, Cell, Group, Scene, Storm
from ottla.pipeline.report.span import Span
from ottla.pipeline.report.words import OVER, kind, status_level, tone

LEVELS = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
"""From so many seconds on a cell has the next colour: each some times the one before. Logs' ends are sampled every ten
seconds, and clients commit every five: what is less says nothing."""
ALL = 12
"""Up to this many groups are all listed, however well they are."""
MOST_ROWS = 40
MOST_COMPACT = 1200
_FLOOR, _TOP = 80, 34


def level(seconds: float) -> int:
    """The number of a colour: 0 is next to nothing, 8 is a day and more."""
    return sum(seconds >= one for one in LEVELS)


def listed(scene: Scene) -> tuple[list[Group], list[Group]]:
    """The groups that have a row, and those that are folded."""
    if len(scene.groups) <= ALL:
        return scene.groups, []
    rows = [group for group in scene.groups if group.in_trouble][:MOST_ROWS]
    names = {group.name for group in rows}
    return rows, [group for group in scene.groups if group.name not in names]


def section(scene: Scene, anchors: dict[str, str], cards: dict[str, str]) -> Html:
    """The map with its legend; ``anchors`` are the ids of rows, ``cards`` those of the parts that say more."""
    rows, folded = listed(scene)
    body = [_row(group, scene.span, anchors, cards) for group in rows]
    if folded:
        body.append(_folded_row(folded, scene.span))
    heads = [
        head("Group"),
        head(axis(scene.span), class_="axis", aria_label="Lag over time"),
        *(head(label, figures=True) for label in ("Now", "Worst", "Records")),
    ]
    drawn = table("heat", "Lag of each group over time, the most troubled first", heads, body)
    return join(legend(scene), tag("div", drawn, class_="scroll"), _compact(folded, scene.span))


def legend(scene: Scene) -> Html:
    """The meaning of the colours and of a column."""
    words = ["nothing", *(duration(one) for one in LEVELS)]
    keys = [tag("li", tag("i", class_=f"swatch k{index}"), word) for index, word in enumerate(words)]
    return tag(
        "ul",
        tag("li", "Behind by, at least:", class_="lead"),
        keys,
        tag("li", tag("i", class_="swatch half"), "at least that: the group stands before the first sample"),
        tag("li", tag("i", class_="swatch hatch"), "not sampled"),
        tag("li", tag("i", class_="swatch tick"), "rebalance"),
        tag("li", _column(scene.span), class_="lead"),
        class_="legend",
    )


def _column(span: Span) -> str:
    if span.bucket_minutes == 1:
        return "a column is a minute"
    return f"a column is {duration(span.bucket.total_seconds())}, and shows its worst minute"


def axis(span: Span) -> Html:
    """Times above strips, by their place."""
    labels = [
        tag(
            "g",
            tag("rect", x=f"{tick.at * 100:.2f}%"),
            tag("text", tick.label, x=f"{tick.at * 100:.2f}%", y=11, dx=-3 if tick.at > 0.93 else 4),
            class_="late" if tick.at > 0.93 else None,
        )
        for tick in span.ticks()
    ]
    return tag("svg", labels, class_="ticks", aria_hidden="true")


def _row(group: Group, span: Span, anchors: dict[str, str], cards: dict[str, str]) -> Html:
    worst = max(group.findings, key=lambda one: kind(one.kind).severity, default=None)
    mark: Html | None = None
    if group.status and (worst is None or status_level(group.status) > kind(worst.kind).severity):
        mark = chip(group.status, tone(status_level(group.status)))
    elif group.breaches and (worst is None or kind(worst.kind).severity < 2):
        mark = chip(OVER, "warn")
    elif worst is not None:
        mark = chip(kind(worst.kind).label, tone(kind(worst.kind).severity))
    label: Html = name(group.name)
    if group.name in cards:
        label = tag("a", label, href=f"#{cards[group.name]}")
    worst_at = moment(span.begins(group.worst_bucket)) if group.worst_bucket is not None else None
    return tag(
        "tr",
        tag("th", tag("div", label, mark, class_="who"), scope="row"),
        tag("td", strip(group, span), class_="cells"),
        _figure(group.now),
        tag(
            "td",
            behind(group.worst_cell),
            class_="num",
            title=f"at {worst_at}" if worst_at else None,
        ),
        tag("td", number(group.records), class_="num"),
        id=anchors.get(group.name),
    )


def _figure(cell: Cell | None) -> Html:
    if cell is None:
        return tag("td", "–", class_="num", title="no commits in the last minutes of the span")
    if cell.seconds is None:
        return tag("td", "?", class_="num", title="not sampled")
    heavy = " strong" if cell.seconds >= BEHIND_S else ""
    return tag("td", behind(cell), class_=f"num{heavy}")


def behind(cell: Cell | None) -> str:
    """The lag of a cell, for people."""
    return "–" if cell is None else duration(cell.seconds, minimum=cell.minimum)


def strip(group: Group, span: Span) -> Html:
    """A group's cells, and ticks for its rebalances below."""
    worst = group.worst_cell
    said = f"{group.name}: no lag known" if worst is None else f"{group.name}: worst {behind(worst)}"
    if group.changes:
        said += f", {count(group.changes, 'rebalance')}"
    below = (_storms(group, span), _ticks(group, span))
    return _held(group.cells, span, said, *below, data_r=_rebalances_of(group, span) or None)


def _held(line: Sequence[Cell | None], span: Span, said: str, *below: object, **attributes: object) -> Html:
    """Cells as a picture, with their values for the hint."""
    picture = svg(span.buckets, said, cells(line), *below, class_="strip")
    return tag("div", picture, class_="hold", data_v=" ".join(_value(cell) for cell in line), **attributes)


def cells(line: Sequence[Cell | None]) -> Html:
    """Runs of cells of the same colour, a path for each colour; gaps let the ground be seen, which is hatched."""
    paths: dict[str, list[str]] = {}
    for style, start, many in _runs(line):
        if style is not None:
            top = _TOP if style.endswith("m") else 0
            paths.setdefault(style.removesuffix("m"), []).append(f"M{start} {top}h{many}v{_FLOOR - top}h-{many}z")
    return _drawn(paths)


def _runs(line: Sequence[Cell | None]) -> Iterator[tuple[str | None, int, int]]:
    """The style of cells that are alike, where the first of them is, and how many they are."""
    start = 0
    for style, run in groupby(line, _style):
        many = len(list(run))
        yield style, start, many
        start += many


def _drawn(paths: dict[str, list[str]]) -> Html:
    return join(tag("path", class_=style, d="".join(moves)) for style, moves in sorted(paths.items()))


def _style(cell: Cell | None) -> str | None:
    if cell is None:
        return "none"
    if cell.seconds is None:
        return None
    return f"k{level(cell.seconds)}" + ("m" if cell.minimum else "")


def _value(cell: Cell | None) -> str:
    """For the hint: nothing (-), not sampled (?), seconds, at least so many (12+)."""
    if cell is None:
        return "-"
    if cell.seconds is None:
        return "?"
    return f"{round(cell.seconds, 1 if cell.seconds < 10 else 0):g}" + ("+" if cell.minimum else "")


def _ticks(group: Group, span: Span) -> Html | None:
    """Each a hairline however wide the page is; those that would lie on one another are one."""
    places = sorted({round(span.part(one.completed_at) * span.buckets, 1) for one in group.rebalances if not one.first})
    if not places:
        return None
    return tag("path", class_="tick", d="".join(f"M{place:g} 84v16" for place in places))


def _storms(group: Group, span: Span) -> list[Html]:
    return [
        tag("path", class_=f"storm {storm.kind}", d=f"M{start:.1f} 92H{end:.1f}")
        for storm, start, end in storms(group, span)
    ]


def storms(group: Group, span: Span) -> Iterator[tuple[Storm, float, float]]:
    """Storms, and the buckets between which each is drawn: never too narrow to be seen."""
    for one in group.storms:
        start, end = (span.part(when) * span.buckets for when in (one.started_at, one.ended_at))
        yield one, start, max(end, start + 0.5)


def _rebalances_of(group: Group, span: Span) -> str:
    """The number of rebalances in each bucket, for the hint."""
    found: dict[int, int] = {}
    for one in group.rebalances:
        if not one.first and span.start <= one.completed_at < span.end:
            bucket = (one.completed_at - span.start) // span.bucket
            found[bucket] = found.get(bucket, 0) + 1
    return " ".join(f"{bucket}:{many}" for bucket, many in sorted(found.items()))


def _worst_of(groups: Iterable[Group], span: Span) -> list[Cell | None]:
    worst: list[Cell | None] = [None] * span.buckets
    for group in groups:
        for index, cell in enumerate(group.cells):
            seen = worst[index]
            if cell is not None and (seen is None or (cell.seconds or -1.0) > (seen.seconds or -1.0)):
                worst[index] = cell
    return worst


def _folded_row(folded: list[Group], span: Span) -> Html:
    """All that are well, as one: the worst of them at each time."""
    worst = max(group.worst for group in folded)
    now = max((group.now.seconds or 0.0 for group in folded if group.now), default=None)
    least_now = any(group.now.minimum for group in folded if group.now)
    least = any(group.worst_cell.minimum for group in folded if group.worst_cell)
    records = sum(group.records or 0 for group in folded)
    said = f"the worst of {count(len(folded), 'other group')} at each time, at most {duration(worst)}"
    return tag(
        "tr",
        tag("th", tag("div", tag("span", count(len(folded), "other group")), class_="who"), scope="row"),
        tag("td", _held(_worst_of(folded, span), span, said), class_="cells"),
        tag("td", duration(now, minimum=least_now), class_="num"),
        tag("td", duration(worst, minimum=least), class_="num"),
        tag("td", number(records), class_="num"),
        class_="rest",
    )


def _compact(folded: list[Group], span: Span) -> Html | None:
    """A line of a few pixels for each group that is folded, with its name as title; and the names."""
    if not folded:
        return None
    shown = folded[:MOST_COMPACT]
    lines = [
        tag(
            "g",
            tag("title", f"{group.name}: at most {duration(group.worst)}"),
            _line(group),
            transform=f"translate(0 {at})",
        )
        for at, group in enumerate(shown)
    ]
    picture = tag(
        "svg",
        lines,
        viewBox=f"0 0 {span.buckets} {len(shown)}",
        preserveAspectRatio="none",
        class_="compact",
        height=len(shown) * 4,
        role="img",
        aria_label=f"Lag of {count(len(shown), 'group')}, a line for each",
    )
    names = tag(
        "ul", (tag("li", name(group.name), " ", tag("span", duration(group.worst), class_="muted")) for group in shown)
    )
    left_out = len(folded) - len(shown)
    return tag(
        "details",
        tag("summary", f"The {count(len(folded), 'other group')}, a line for each"),
        tag("p", f"{left_out:,} more are in the tables only.", class_="muted") if left_out else None,
        picture,
        tag("details", tag("summary", "Their names and worst lag"), names, class_="names"),
        class_="fold",
    )


def _line(group: Group) -> Html:
    paths: dict[str, list[str]] = {}
    for style, start, many in _runs(group.cells):
        paths.setdefault(f"c{'h' if style is None else style.removesuffix('m')}", []).append(f"M{start} .5h{many}")
    paths.pop("cnone", None)
    return _drawn(paths)
