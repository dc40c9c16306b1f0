"""The lists: findings, breaches, forecasts, partitions that are not well, hot partitions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ottla.pipeline.report import markup
from ottla.pipeline.report.markup import (
    Html,
    between,
    chip,
    count,
    duration,
    grouped,
    head,
    join,
    moment,
    name,
    number,
    tag,
    time,
)
from ottla.pipeline.report.scene import Breach, Finding, Forecast, Group, Scene
from ottla.pipeline.report.words import STATUS, kind, status_level, tone

FIRST_FINDINGS, MOST_FINDINGS = 12, 400
MOST_ROWS = 15
MOST_FORECASTS = 12
STEEP, WELL_FITTING = 1.0, 0.5
"""Records per second, and how well a line must fit, for a forecast to be told."""

Where = dict[str, str]


def table(caption: str, heads: str, rows: Iterable[Html], *, left_out: int = 0) -> Html:
    """A table; ``heads`` are labels with ``|`` between them, ``#`` before those of figures."""
    cells = [head(label.removeprefix("#"), figures=label.startswith("#")) for label in heads.split("|")]
    more = tag("p", f"{left_out:,} more are not shown.", class_="muted small") if left_out > 0 else None
    return join(tag("div", markup.table("plain sortable", caption, cells, rows), class_="scroll"), more)


def _row(group: str, where: Where, *cells: Html) -> Html:
    """A row about a group."""
    return tag("tr", tag("th", group_link(group, where), scope="row"), *cells)


def cell(value: object, key: float | int | None = None, *, figures: bool = False) -> Html:
    """A cell; ``key`` is what it is sorted by."""
    return tag("td", value, class_="num" if figures else None, data_k=None if key is None else f"{key:.12g}")


def _figure(value: float | int | None, digits: int = 0) -> Html:
    """A cell with a number, by which it is sorted."""
    return cell(number(value, digits), value, figures=True)


def group_link(group: str, where: Where) -> Html:
    """A group's name, and the way to what is said of it."""
    return tag("a", name(group), href=f"#{where[group]}") if group in where else name(group)


def findings(scene: Scene, where: Where) -> Html:
    """All findings, worst first."""
    if not scene.findings:
        return _no_findings(scene)
    items = [_finding(one, where) for one in scene.findings[:MOST_FINDINGS]]
    shown, more = items[:FIRST_FINDINGS], items[FIRST_FINDINGS:]
    folded = None
    if more:
        folded = tag(
            "details",
            tag("summary", f"{len(more):,} more findings"),
            tag("ol", more, class_="findings", start=FIRST_FINDINGS + 1),
            class_="fold",
        )
    left_out = len(scene.findings) - MOST_FINDINGS
    said = tag("p", f"{left_out:,} more are in gold.findings only.", class_="muted") if left_out > 0 else None
    return join(tag("ol", shown, class_="findings"), folded, said)


def _no_findings(scene: Scene) -> Html:
    """Say that nothing was found, as far as that can be said."""
    if scene.not_ok or scene.breaches:
        return tag("p", "No finding says why; what is wrong is below, in breaches and partitions.", class_="empty")
    return _none(scene, "There are no findings.", "Nothing was found that an operator would want to know of.")


def _none(scene: Scene, unknown: str, good: str) -> Html:
    """Say that there is nothing to list: ``good``, or ``unknown`` where one sample is too few to tell."""
    if scene.cannot_tell:
        return tag("p", f"{unknown} One sample of where logs end is too few to tell.", class_="empty")
    return tag("p", good, class_="empty good")


def once(scene: Scene) -> Html:
    """Say that one sample of the ends of logs is not enough, and what helps."""
    return join(
        f"{count(scene.cannot_tell, 'record is', 'records are')} unread, and the ends of logs were sampled only once. "
        "It takes more samples to know whether they get fewer: ",
        tag("code", "ottla pipeline stream"),
        " takes one every ten seconds, ",
        tag("code", "available-now"),
        " one a run; then build ",
        tag("code", "gold"),
        " again.",
    )


def _finding(one: Finding, where: Where) -> Html:
    about = kind(one.kind)
    parts = f" ({count(one.partitions, 'partition')})" if one.partitions else None
    return tag(
        "li",
        tag(
            "div",
            chip(about.label, tone(about.severity)),
            tag("strong", group_link(one.group, where)),
            tag("span", "on ", name(one.topic), parts, class_="topic") if one.topic else None,
            tag("span", between(one.started_at, one.ended_at), class_="when"),
            class_="line",
        ),
        tag("p", grouped(one.evidence), class_="evidence", dir="auto") if one.evidence else None,
        tag("p", tag("span", "Suspect ", class_="muted"), tag("b", name(one.suspect))) if one.suspect else None,
        class_=f"finding {tone(about.severity)}",
    )


def breaches(scene: Scene, where: Where) -> Html:
    """The times that groups were over their objective: a row for each topic of a group, however often it was."""
    runs: dict[tuple[str, str], list[Breach]] = {}
    for one in scene.breaches:
        runs.setdefault((one.group, one.topic), []).append(one)
    if not runs:
        return _none(scene, "No group is known to have broken its objective.", "No group broke its objective.")
    rows = []
    for (group, topic), times in sorted(runs.items(), key=lambda item: (-sum(one.minutes for one in item[1]), item[0])):
        total, longest = sum(one.minutes for one in times), times[0]
        worst = max((one.worst_seconds for one in times if one.worst_seconds is not None), default=None)
        rows.append(
            _row(
                group,
                where,
                cell(name(topic)),
                _figure(len(times)),
                _figure(total),
                cell(duration(worst), worst, figures=True),
                cell(_minutes(longest.started_at, longest.last_minute), longest.started_at.timestamp()),
            )
        )
    heads = "Group|Topic|#Times|#Minutes in all|#Worst lag|The longest, first to last minute"
    return table("How long groups were over their objective", heads, rows[:MOST_ROWS], left_out=len(rows) - MOST_ROWS)


def _minutes(first: datetime, last: datetime) -> Html:
    return join(time(first), " – ", time(last, day=first.date() != last.date()))


def told(scene: Scene) -> list[Forecast]:
    """The forecasts that say something: the steepest that grow, and those that drain."""
    clear = [one for one in scene.forecasts if abs(one.lag_per_s) >= STEEP and (one.r2 or 0.0) >= WELL_FITTING]
    growing = [one for one in clear if one.lag_per_s > 0]
    return growing[:MOST_FORECASTS] + [one for one in clear if one.lag_per_s < 0][: MOST_FORECASTS // 2]


def forecasts(scene: Scene, where: Where) -> Html:
    shown = told(scene)
    if not shown:
        return _none(scene, "Where lag leads is not known.", "No lag grows or shrinks steadily.")
    rows = []
    for one in shown:
        minutes = one.minutes_to_500k if one.lag_per_s > 0 else one.minutes_to_drain
        rows.append(
            _row(
                one.group,
                where,
                cell(name(one.topic)),
                tag("td", sparkline(scene.points.get((one.group, one.topic), []), one), class_="spark"),
                _figure(one.lag_now),
                cell(f"{one.lag_per_s:+,.1f}".replace("-", "−"), one.lag_per_s, figures=True),
                _figure(one.r2, 3),
                cell(_leads(one), minutes or 0.0),
            )
        )
    heads = "Group|Topic|Last hour, and next|#Records behind|#Per second|#Fit (r²)|Leads to"
    return table("Where lag leads", heads, rows)


def _leads(one: Forecast) -> Html:
    if one.lag_per_s > 0:
        if one.minutes_to_500k is None:
            return tag("span", "over 500,000 records, and growing", class_="bad-text")
        return join("500,000 records in ", tag("b", duration(one.minutes_to_500k * 60)))
    drained = one.minutes_to_drain
    return join("level in ", tag("b", duration(drained * 60))) if drained is not None else join("shrinks")


def sparkline(points: list[tuple[datetime, int]], one: Forecast) -> Html:
    """The lag of the last hour, and dashed where the line goes in the next half."""
    if len(points) < 2:
        return tag("span", "–", class_="muted")
    start, past, ahead = points[0][0], (one.as_of - points[0][0]).total_seconds(), 1800.0
    goal = max(0.0, one.lag_now + one.lag_per_s * ahead)
    top = max(goal, *(value for _, value in points), 1)
    wide = max(past + ahead, 1.0)

    def place(seconds: float, value: float) -> str:
        return f"{seconds / wide * 120:.1f} {27 - value / top * 24:.1f}"

    line = " ".join(place((when - start).total_seconds(), value) for when, value in points)
    return tag(
        "svg",
        tag(
            "title", f"from {points[0][1]:,} to {one.lag_now:,} records, {goal:,.0f} in half an hour if nothing changes"
        ),
        tag("path", class_="past", d=f"M{line}"),
        tag("path", class_="ahead", d=f"M{place(past, one.lag_now)}L{place(wide, goal)}"),
        tag("path", class_="dot", d=f"M{place(past, one.lag_now)}h0"),
        viewBox="0 0 120 30",
        role="img",
    )


def partitions(scene: Scene, where: Where) -> Html:
    if not scene.not_ok:
        return _none(scene, "No partition is known to be in trouble.", "Every partition is OK.")
    rows = [
        _row(
            one.group,
            where,
            cell(name(one.topic)),
            tag("td", chip(one.status, tone(status_level(one.status))), " ", _meaning(one.status)),
            cell(_ranges(one.partitions), len(one.partitions)),
            _figure(one.lag),
            cell(time(one.last_commit), one.last_commit.timestamp() if one.last_commit else 0),
        )
        for one in scene.not_ok[:MOST_ROWS]
    ]
    heads = "Group|Topic|Status|Partitions|#Records behind|Last commit"
    return table("Partitions that are not OK", heads, rows, left_out=len(scene.not_ok) - MOST_ROWS)


def _meaning(status: str) -> Html | None:
    return tag("span", STATUS[status][1], class_="muted small") if status in STATUS else None


def _ranges(partitions: tuple[int, ...]) -> str:
    """``12: 0–3, 7``: how many, and which, runs together."""
    runs: list[list[int]] = []
    for one in partitions:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    words = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:6]]
    listed = ", ".join(words) + (" …" if len(runs) > 6 else "")
    return listed if len(partitions) == 1 else f"{len(partitions)}: {listed}"


def hot(scene: Scene, where: Where) -> Html:
    """The partitions of __consumer_offsets that are written most, and by whom."""
    if not scene.hot:
        return tag("p", "The lake holds no commits of this time.", class_="empty")
    seconds = max(1.0, (scene.span.end - scene.hot_since).total_seconds())
    rows = [
        tag(
            "tr",
            tag("th", str(one.partition), scope="row", class_="num", data_k=one.partition),
            cell(_meter(one.records, scene.hot[0].records), one.records),
            _figure(one.records),
            _figure(one.records / seconds, 1),
            cell(f"{one.records / scene.commits:.1%}", one.records / scene.commits, figures=True),
            _figure(one.groups),
            tag(
                "td",
                group_link(one.top_group, where),
                tag("span", f" {one.top_records / one.records:.0%}", class_="muted"),
            ),
        )
        for one in scene.hot[:8]
    ]
    said = f"{count(scene.commits, 'commit')} in {count(len(scene.hot), 'partition')}, since {moment(scene.hot_since)}."
    heads = "#Partition||#Commits|#Per second|#Share|#Groups|Most of them from"
    return join(tag("p", said, class_="muted"), table("Hot partitions of __consumer_offsets", heads, rows))


def _meter(value: int, most: int) -> Html:
    return tag("svg", tag("rect", width=f"{value / most * 100:.1f}%"), class_="meter", aria_hidden="true")


def rebalances(groups: list[Group], where: Where) -> Html:
    """The cost of rebalances of groups that have no picture."""
    rows = [
        _row(
            one.name,
            where,
            _figure(one.changes),
            cell(
                "not known" if one.paused_ms is None else duration(one.paused_ms / 1000),
                one.paused_ms or 0,
                figures=True,
            ),
            _figure(one.moved),
            cell(number(one.members), one.members or 0, figures=True),
            cell(time(one.rebalances[-1].completed_at), one.rebalances[-1].completed_at.timestamp()),
            tag("td", one.rebalances[-1].reason or "–", dir="auto"),
        )
        for one in groups[:MOST_ROWS]
    ]
    heads = "Group|#Rebalances|#Stood still|#Partitions moved|#Members|Last|Its cause"
    return table("What rebalances cost", heads, rows, left_out=len(groups) - MOST_ROWS)
