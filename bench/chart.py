#!/usr/bin/env python3
"""Draw what the benchmarks have measured last: two pictures as SVG, each for a light and for a dark page.

Every operation has a panel with a scale of its own, and every server a bar: its length is the median, and the line
across its end reaches from the lowest turn to the highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
from report import CALLED, Figures

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SERVERS = ("ottla", "kafka", "kafka-flush", "kfake", "mock")
NAMES = CALLED | {"kafka-flush": "Kafka, synced", "mock": "librdkafka mock"}
WIDTH, MARGIN, LABELS = 1000, 24, 148
BAR, STEP = 20, 31
BAR_SHARE = 0.58
"""Of a panel's width for the longest bar and its spread; behind it the figure stands."""
HEAD, PANEL_HEAD, ROW_GAP, FOOT, LINE = 84, 54, 26, 82, 20
FEET = (
    "Ottla answers commits and records when they are on the disk. “Kafka, synced” (flush.messages=1) does so, too: "
    "commits only.",
    "Kafka answers when the operating system has them; kfake and the mock are test doubles that keep them in memory.",
    "Where megabytes per second of several servers are alike, the client is the limit. –: not measured, or it cannot.",
)


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours: of a page, its text, and the bars."""

    name: str
    page: str
    text: str
    faint: str
    ours: str
    theirs: str


THEMES = (
    Theme("light", "#ffffff", "#1f2328", "#59636e", "#0969da", "#b6bec9"),
    Theme("dark", "#0d1117", "#f0f6fc", "#9198a1", "#4493f8", "#646d76"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One operation: what it is called, the load and quantity measured, and what the figure is divided by."""

    title: str
    unit: str
    load: str
    quantity: str
    divisor: float = 1


@dataclass(frozen=True, slots=True)
class Picture:
    """Two rows of panels."""

    name: str
    title: str
    better: str
    rows: Sequence[Sequence[Panel]]


GROUPS = (
    ("Heartbeat", "50 connections", "heartbeat, 50 connections, window 1"),
    ("Commit", "64 connections", "commit, 64 connections"),
    ("Commit", "1,024 connections", "commit, 1,024 connections"),
    ("Rebalance, a member", "group of 1,000", "rebalance, 1,000 members"),
)
RECORDS = (
    ("Produce", "100-byte records", "produce, 100 bytes"),
    ("Produce", "10-kB records", "produce, 10,000 bytes"),
    ("Consume", "100-byte records", "consume, 100 bytes"),
    ("Consume", "10-kB records", "consume, 10,000 bytes"),
)
PICTURES = (
    Picture(
        "cpu",
        "CPU that one operation costs the server",
        "lower is better",
        (
            [Panel(title, f"µs, {of}", load, "cpu_us") for title, of, load in GROUPS],
            [Panel(title, f"ms per MB, {of}", load, "cpu_ms") for title, of, load in RECORDS],
        ),
    ),
    Picture(
        "rate",
        "Operations and megabytes per second on one core",
        "higher is better",
        (
            [Panel(title, f"thousand/s, {of}", load, "per_second", 1000) for title, of, load in GROUPS],
            [Panel(title, f"MB/s, {of}", load, "mb_per_second") for title, of, load in RECORDS],
        ),
    ),
)


def text(x: float, y: float, said: str, size: int, colour: str, more: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{escape(said)}</text>'


def number(value: float) -> str:
    """Three digits of it, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(panel: Panel, servers: Sequence[str], figures: Figures, theme: Theme, x: float, y: float, width: float) -> str:
    """The bars of a panel, one below the other; a dash where a server did not take part."""
    found = {
        server: [value / panel.divisor for value in values]
        for server in servers
        if (values := figures.found.get((panel.load, server, panel.quantity)))
    }
    longest = max((max(values) for values in found.values()), default=1.0)
    scale = width * BAR_SHARE / longest
    drawn = []
    for place, server in enumerate(servers):
        top, middle = y + place * STEP, y + place * STEP + BAR / 2
        if server not in found:
            drawn.append(text(x + 2, middle + 5, "–", 14, theme.faint))
            continue
        low, high = min(found[server]) * scale, max(found[server]) * scale
        median = (figures.median(panel.load, server, panel.quantity) or 0) / panel.divisor
        ours = server == "ottla"
        colour = theme.ours if ours else theme.theirs
        drawn.append(f'<rect x="{x}" y="{top}" width="{median * scale:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
        if high - low >= 1:
            drawn.append(
                f'<path d="M{x + low:.1f} {middle}H{x + high:.1f}M{x + low:.1f} {middle - 4}v8M{x + high:.1f} '
                f'{middle - 4}v8" stroke="{theme.text}" stroke-width="1.3" fill="none"/>'
            )
        bold = ' font-weight="700"' if ours else ""
        drawn.append(text(x + max(median * scale, high) + 6, middle + 5, number(median), 14, theme.text, bold))
    return "".join(drawn)


def draw(picture: Picture, figures: Figures, theme: Theme) -> str:
    """The whole picture."""
    parts, y = [], float(HEAD)
    for row in picture.rows:
        servers = [
            server for server in SERVERS if any((one.load, server, one.quantity) in figures.found for one in row)
        ]
        if not servers:
            continue
        width = (WIDTH - 2 * MARGIN - LABELS) / len(row)
        y += PANEL_HEAD
        for place, server in enumerate(servers):
            ours = server == "ottla"
            bold = ' font-weight="700"' if ours else ""
            colour = theme.ours if ours else theme.text
            parts.append(text(MARGIN, y + place * STEP + BAR / 2 + 5, NAMES[server], 15, colour, bold))
        for place, panel in enumerate(row):
            x = MARGIN + LABELS + place * width
            parts.append(text(x, y - 31, panel.title, 17, theme.text, ' font-weight="600"'))
            parts.append(text(x, y - 12, panel.unit, 12, theme.faint))
            parts.append(f'<path d="M{x} {y - 4}v{len(servers) * STEP - 3}" stroke="{theme.faint}" stroke-width="1"/>')
            parts.append(bars(panel, servers, figures, theme, x, y, width))
        y += len(servers) * STEP + ROW_GAP
    height = y - ROW_GAP + FOOT
    head = text(MARGIN, 40, picture.title, 24, theme.text, ' font-weight="700"')
    head += text(
        *(MARGIN, 66, f"{picture.better}; each panel has its own scale; bar: median, line: lowest to highest turn"),
        *(15, theme.faint),
    )
    below = height - 18 - LINE * (len(FEET) - 1)
    feet = "".join(text(MARGIN, below + place * LINE, line, 13, theme.faint) for place, line in enumerate(FEET))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="{picture.title}: {picture.better}" '
        "font-family=\"system-ui,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif\">"
        f'<rect width="100%" height="100%" rx="8" fill="{theme.page}"/>{head}{"".join(parts)}{feet}</svg>\n'
    )


def draw_all(images: Path) -> None:
    """Write all pictures into a directory."""
    figures = Figures.saved("heartbeats", "commits", "rebalances", "records")
    for picture in PICTURES:
        for theme in THEMES:
            (images / f"{picture.name}-{theme.name}.svg").write_text(draw(picture, figures, theme))


@click.command(help=__doc__)
@click.option("--images", type=click.Path(file_okay=False, path_type=Path), default=IMAGES, show_default=True)
def main(images: Path) -> None:
    draw_all(images)


if __name__ == "__main__":
    main()
