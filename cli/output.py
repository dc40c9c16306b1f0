"""The output of commands: tables for people, JSON for programs, one clear sentence for a failure.

A terminal gets coloured tables; a pipe gets the same rows as plain aligned text, untruncated.

Everything that commands print as text goes through here, and here everything is made `printable`: names that others
chose, text of a broker, of a log or of a file cannot steer a terminal, nor look like a line of ours.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import click

from ottla.observe.printable import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")

WIDEST = 250
"""Rows are padded up to here, as wide as a topic's name: a longer cell pushes what follows it in its own row only."""


class Refused(click.ClickException):
    """The command was refused or failed: printed as a sentence, and below it what to do next; exit code 1."""

    exit_code = 1

    def __init__(self, message: str, *advice: str) -> None:
        self.lines = (message, *advice)
        super().__init__("\n  ".join(printable(line) for line in self.lines if line))


class Styled(NamedTuple):
    """A cell with a style of its own on a terminal."""

    text: str
    style: str


Cell: TypeAlias = str | int | Styled | None
"""None is shown as a dash: there is no value."""
Row: TypeAlias = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?( (s|ms|%))?", re.ASCII)
_STATES = {
    "Stable": "green",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Empty": "dim",
    "Dead": "red",
}


def state(text: str) -> Styled:
    """A group's state, coloured."""
    return Styled(text, _STATES.get(text, ""))


def on_terminal() -> bool:
    """Whether standard output is one."""
    return sys.stdout.isatty()


def say(*lines: str, fg: str | None = None, bold: bool = False, dim: bool = False, nl: bool = True) -> None:
    """Lines on standard output, each of them one line whatever is in it; an empty one if there are none."""
    text = "\n".join(map(printable, lines))
    click.secho(text, fg=fg, bold=bold or None, dim=dim or None, nl=nl)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in which nothing but visible characters and its own line breaks stands as it is."""
    return _harmless(json.dumps(value, indent=indent, ensure_ascii=False))


def _harmless(text: str) -> str:
    """The same JSON. It may hold C1 controls and marks of direction as they are: here they are escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON document on standard output; without indent it is a line."""
    click.echo(json_text(value, indent=indent))


def print_json_text(text: str) -> None:
    """A JSON document that somebody else has written."""
    click.echo(_harmless(text))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
    """A table with a heading line, unless all headings are empty. Columns that hold only numbers are right-aligned."""
    if on_terminal():
        from rich.console import Console

        Console().print(table(headings, rows, title=title))
        return
    if title:
        say(title)
    click.echo(plain(headings, rows, _right(headings, rows)))


def print_fields(
    headings: Sequence[str], rows: Iterable[Row], *fields: str | Callable[[Row], Cell], nothing: str = ""
) -> None:
    """A table of rows of JSON: each column shows a field, or what a function makes of the row.

    Args:
        nothing: a note to give in place of a table without rows.
    """
    cells = [[row[field] if isinstance(field, str) else field(row) for field in fields] for row in rows]
    if cells or not nothing:
        print_table(headings, cells)
    else:
        note(nothing)


def print_each(found: Iterable[T], print_one: Callable[[T], None], *between: str) -> None:
    """Print one thing after another, with empty lines between them: one, or those given."""
    for number, one in enumerate(found):
        if number:
            say(*between)
        print_one(one)


def plain(headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[bool]) -> str:
    """The table as aligned text, two spaces between columns."""
    lines = [[_text(cell) for cell in row] for row in rows]
    if any(headings):
        lines.insert(0, [_text(heading).upper() for heading in headings])
    widths = [min(max(len(line[at]) for line in lines), WIDEST) for at in range(len(headings))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> Table:
    """The table for a terminal. Markup in names is shown, not followed."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        box=SIMPLE_HEAD,
        title=styled((title, "")) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        pad_edge=False,
        show_edge=False,
        show_header=any(headings),
    )
    for heading, flush in zip(headings, _right(headings, rows), strict=True):
        made.add_column(styled((heading, "")), justify="right" if flush else "left", overflow="fold")
    for row in rows:
        made.add_row(*(styled((_text(cell), cell.style if isinstance(cell, Styled) else "")) for cell in row))
    return made


def styled(*pieces: tuple[str, str]) -> Text:
    """A line for what rich prints, of texts with their styles."""
    from rich.text import Text

    return Text.assemble(*((printable(text), style) for text, style in pieces))


def _right(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Which columns hold only numbers."""
    return [all(row[at] is None or _NUMBER.fullmatch(_text(row[at])) for row in rows) for at in range(len(headings))]


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return printable(cell.text if isinstance(cell, Styled) else str(cell))


def page(markdown: str) -> None:
    """A page of ours to read: laid out and in a pager on a terminal, as it is in a pipe."""
    if not on_terminal():
        click.echo(markdown)
        return
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Whole(TableElement):
        """A table that cuts no name of a setting: a long word goes on in the next line."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for made in super().__rich_console__(console, options):
                for column in made.columns if isinstance(made, Table) else ():
                    column.overflow = "fold"
                yield made

    class Page(Markdown):
        elements = {**Markdown.elements, "table_open": Whole}  # noqa: RUF012 - as rich has it

    console = Console()
    with console.capture() as laid_out:
        console.print(Page(markdown))
    click.echo_via_pager(laid_out.get(), color=True)


def note(text: str) -> None:
    """A remark for people, on standard error, so that it never mixes with data."""
    click.secho(printable(text), err=True, dim=sys.stderr.isatty())


def warn(text: str) -> None:
    """A warning, on standard error."""
    click.secho(f"Warning: {printable(text)}", err=True, fg="yellow" if sys.stderr.isatty() else None)


def count_of(count: int, noun: str, form: str = "") -> str:
    """``1 member``, ``2 members``; with the form ``,`` also ``1,000 members``."""
    return f"{count:{form}} {noun}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """``0.8 s``, ``12.3 s``, ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def when(timestamp_ms: int) -> str:
    """A Unix time in ms as UTC; a number that is no date stays one, and -1 is a dash."""
    if timestamp_ms == -1:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
