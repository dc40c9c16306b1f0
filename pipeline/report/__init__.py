"""The report: one HTML file that says in a minute what is wrong with which consumer group, and why.

It is made of the tables of a lake with Arrow alone: no Spark session, no Java, no network. The page holds its style,
its pictures and a few lines of script for hints, and says everything without them.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipeline.report.reading import NothingToReport

if TYPE_CHECKING:
    from ottla.pipeline.report.members import Picture
    from ottla.pipeline.report.reading import Tables
    from ottla.pipeline.report.scene import Scene

__all__ = ["NothingToReport", "write"]

MOST_CARDS = 12
"""The most groups that have a part of their own; the others are in the map and in the lists."""


def write(
    lake_path: str | Path,
    out: str | Path,
    *,
    group: str | None = None,
    since: date | datetime | str | None = None,
    until: date | datetime | str | None = None,
) -> Path:
    """Make the report of a lake.

    Args:
        lake_path: the folder of the lake, or an address that pyarrow can open.
        out: the file, or an existing folder in which it becomes ``report.html``; one that is there is replaced at once.
        group: only this one.
        since: from when (with), a day or a time in UTC; else the last seven days of the lake.
        until: to when (without), as ``since``; else to the lake's end.

    Returns:
        Where the report is.

    Raises:
        NothingToReport: there is no lake, no gold in it, nothing of that time, or no such group; the message names the
            command that helps.
        ottla.pipeline.parquet_files.UnreadableTable: a table cannot be read here.
        ValueError: ``since`` or ``until`` is no time, or they are the wrong way round.
    """
    from ottla.pipeline.report.lists import told
    from ottla.pipeline.report.load import points, scene
    from ottla.pipeline.report.page import page
    from ottla.pipeline.report.reading import Tables
    from ottla.pipeline.report.span import as_time

    first, last = as_time(since, "since"), as_time(until, "until")
    if first is not None and last is not None and first >= last:
        raise ValueError(f"since is {first.isoformat()}, and must be before until, which is {last.isoformat()}")
    tables = Tables(str(lake_path), group)
    found = scene(tables, first, last)
    found.points = points(tables, told(found))
    return _replace(Path(out), page(found, _pictures(tables, found), datetime.now(UTC)))


def _pictures(tables: Tables, found: Scene) -> dict[str, Picture | None]:
    """The groups that get a part of their own: in trouble or with rebalances worth showing, the worst first."""
    from ottla.pipeline.report.members import picture, worth_showing

    wanted = [
        one
        for one in found.groups
        if one.findings or one.breaches or one.status or worth_showing(one) or found.only is not None
    ]
    return {
        one.name: picture(tables, one, found.span)
        if worth_showing(one) or (found.only is not None and one.rebalances)
        else None
        for one in wanted[:MOST_CARDS]
    }


def _replace(out: Path, text: str) -> Path:
    """Write a file so that nobody ever sees half of it."""
    if out.is_dir():
        out = out / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    half = out.with_name(f".{out.name}.{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    half.replace(out)
    return out
