"""`ottla timeline`: who joined, waited, owned and was silent when, as lanes of characters or as a page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.common import bootstrap_option, format_option
from ottla.cli.group_words import GROUPS, group_history, opened_recordings, recording_option, since_option
from ottla.cli.output import Refused, note, on_terminal, print_json_text, say, styled

if TYPE_CHECKING:
    from ottla.observe.timeline.model import Timeline

LAST = 8
LAST_OF_PAGE = 500
MEMBERS = 40
WIDTH_OF_PIPE = 120
COUNTED = {
    "rebalance": ("rebalance", "rebalances"),
    "refusal": ("refusal", "refusals"),
    "replacement": ("silent replacement", "silent replacements"),
    "loaded": ("restart of the broker", "restarts of the broker"),
}
"""The kinds of marks that are counted, in words: for one, and for several."""


@click.command(short_help="Draw who joined, waited, owned and was silent when.")
@GROUPS.one("group")
@click.option(
    "--last",
    type=click.IntRange(1),
    metavar="N",
    help=f"The latest N rebalances; {LAST} as lanes, {LAST_OF_PAGE} with --html or as JSON.",
)
@since_option
@click.option(
    "--members", type=click.IntRange(1), metavar="N", default=MEMBERS, show_default=True, help="At most N lanes."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page that opens offline.")
@recording_option
@click.option("--width", type=click.IntRange(40), help="Columns; as many as the terminal has, or 120 in a pipe.")
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII only, as in a pipe.")
@bootstrap_option
@format_option
def command(
    group: str,
    last: int | None,
    since_ms: int | None,
    members: int,
    html: Path | None,
    recordings: Sequence[Path],
    width: int | None,
    is_ascii: bool,
    bootstrap: str,
    output_format: str,
) -> None:
    """Draw the timeline of a GROUP: a lane for each member, barriers, generations, commits and lag.

    Quiet time is drawn short, so that every rebalance can be seen; the times at the top are true.
    """
    if last is None and since_ms is None:
        last = LAST if html is None and output_format == "text" else LAST_OF_PAGE
    if recordings:
        timeline = _of_recordings(recordings, group, last, since_ms)
    else:
        timeline = _of_broker(bootstrap, group, last, since_ms)
    if html is not None:
        _write_page(timeline, html)
    elif output_format == "json":
        import msgspec

        print_json_text(msgspec.json.encode(timeline).decode())
    else:
        _draw(timeline, width, is_ascii, members)


def _of_broker(bootstrap: str, group_id: str, last: int | None, since_ms: int | None) -> Timeline:
    import msgspec

    from ottla.observe.timeline.model import Timeline

    body = group_history(bootstrap, group_id, "timeline", last=last, since_ms=since_ms)
    try:
        return msgspec.json.decode(body, type=Timeline)
    except msgspec.ValidationError as error:
        raise Refused(f"The broker's answer cannot be read: {error}.", "Its version and this one differ.") from None


def _of_recordings(paths: Sequence[Path], group_id: str, last: int | None, since_ms: int | None) -> Timeline:
    """The timeline of a group in the recording that had it last: nodes, and runs of one, have clocks of their own."""
    from ottla.observe.timeline.offline import timeline_of

    with opened_recordings(paths) as recordings:
        found = []
        for one in recordings:
            node = str(one.header.node_id) if len(recordings) > 1 else ""
            timeline = timeline_of(one.events(), group_id, last=last, since_ms=since_ms, node=node)
            if timeline is not None:
                found.append((f"{one.parts[0]}, of node {node}", timeline))
    if not found:
        names = " ".join(f"--file {path}" for path in paths)
        raise Refused(f"The recording has no group {group_id!r}.", f"`ottla why {names}` names those in it.")
    name, newest = max(found, key=lambda pair: pair[1].from_ms + pair[1].until)
    if others := [other for other, timeline in found if timeline is not newest]:
        note(f"This is of {name}. The group is also in {'; '.join(others)}: name that file alone to draw it.")
    return newest


def _write_page(timeline: Timeline, html: Path) -> None:
    from ottla.observe.timeline.page import page

    try:
        html.write_text(page(timeline), encoding="utf-8")
    except OSError as error:
        raise Refused(f"Cannot write {html}: {error.strerror}.") from None
    note(f"Wrote {html}: open it in a browser, no network is needed.")


def _clock(wall_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_ms / 1000))


def _draw(timeline: Timeline, width: int | None, is_ascii: bool, members: int) -> None:
    from ottla.observe.timeline.terminal import Drawing

    terminal = on_terminal()
    columns = width or (shutil.get_terminal_size().columns if terminal else WIDTH_OF_PIPE)
    drawing = Drawing(timeline, columns, is_ascii=is_ascii or not terminal, most=members, clock=_clock)
    title = f"{timeline.group_id}: {_title(timeline)}"
    if not terminal:
        say(title)
        for line in drawing.lines():
            say("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console

    console = Console(width=columns, highlight=False)
    console.print(styled((title, "bold")))
    for line in drawing.lines():
        console.print(styled(*line), soft_wrap=False)


def _title(timeline: Timeline) -> str:
    begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timeline.from_ms / 1000))
    end = _clock(timeline.from_ms + timeline.until)
    state = f"{timeline.state}, {timeline.counted_by} {timeline.generation}, " if timeline.state else ""
    kinds = [mark.kind for mark in timeline.marks]
    found = [(kinds.count(kind), words) for kind, words in COUNTED.items() if kind == "rebalance" or kind in kinds]
    counted = ", ".join(f"{count} {words[count != 1]}" for count, words in found)
    return f"{state}{counted}, {begin} to {end}"
