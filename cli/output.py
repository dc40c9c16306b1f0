"""What commands print: tables for people, JSON for programs, one clear sentence for what failed.

A terminal gets coloured tables; a pipe gets the same rows as plain aligned text, untruncated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import click


class Refused(click.ClickException):
    """The command was refused or failed: printed as one sentence, and what to do next; exit code 1."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message if not advice else f"{message}\n  {advice}")


class Styled(NamedTuple):
    """A cell with a style of its own on a terminal."""

    text: str
    style: str


Cell: TypeAlias = str | int | Styled | None
"""None is shown as a dash: there is no value."""

_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?( (s|ms|%))?", re.ASCII)
_STATES = {
    "Stable": "green",
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


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
    """A table with a heading line, unless all headings are empty. Columns that hold only numbers are right-aligned."""
    right = [all(row[at] is None or _NUMBER.fullmatch(_text(row[at])) for row in rows) for at in range(len(headings))]
    if on_terminal():
        _print_rich(headings, rows, right, title)
        return
    if title:
        click.echo(title)
    click.echo(plain(headings, rows, right))


def plain(headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[bool]) -> str:
    """The table as aligned text, two spaces between columns."""
    lines = [[_text(cell) for cell in row] for row in rows]
    if any(headings):
        lines.insert(0, [heading.upper() for heading in headings])
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return cell.text if isinstance(cell, Styled) else str(cell)


def _print_rich(headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[bool], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        pad_edge=False,
        show_edge=False,
        show_header=any(headings),
    )
    for heading, flush in zip(headings, right, strict=True):
        table.add_column(heading, justify="right" if flush else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell), style=cell.style if isinstance(cell, Styled) else "") for cell in row))
    Console().print(table)


def note(text: str) -> None:
    """A remark for people, on standard error, so that it never mixes with data."""
    click.secho(text, err=True, dim=sys.stderr.isatty())


def warn(text: str) -> None:
    """A warning, on standard error."""
    click.secho(f"Warning: {text}", err=True, fg="yellow" if sys.stderr.isatty() else None)


def printable(text: str) -> str:
    """Text of others for a line or a cell: control characters as escapes."""
    return text if text.isprintable() else repr(text)[1:-1]


def duration(seconds: float) -> str:
    """``0.8 s``, ``12.3 s``, ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
