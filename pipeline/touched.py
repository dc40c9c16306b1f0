"""The days with new rows since gold tables were last built: late rows are built too, and the rest is left."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import BACKFILL, METADATA
from ottla.pipeline.tables import SILVER, VERSION

NOTE = "gold.json"
_CHANGING = (METADATA, "_delta_log", "metadata", "*=*", f"{BACKFILL}/*=*")


class Touched(NamedTuple):
    """The days to build.

    Attributes:
        anything: whether there is something new at all.
        since: the first day with something new; None is all days.
        seen: what was looked at, for `note`.
    """

    anything: bool
    since: date | None
    seen: dict[str, Any]


def look(lake: Lake, objectives: Any) -> Touched:
    """Compare the files of silver tables, by day, with what they were when gold was last built.

    Args:
        objectives: what JSON can hold of them; if they are others now, all is built anew.
    """
    at = datetime.now(UTC).isoformat()
    files: dict[str, dict[str, list[int]]] = {}
    for table in SILVER:
        days = files.setdefault(table.name, {})
        for name in lake.files(table.name):
            day = next((part for part in Path(name).parts if part.startswith(f"{table.partition_column}=")), "=")
            number_and_size = days.setdefault(day.partition("=")[2], [0, 0])
            number_and_size[0] += 1
            number_and_size[1] += Path(name).stat().st_size
    seen = {"version": VERSION, "objectives": objectives, "at": at, "files": files}
    before = noted(lake)
    if before.get("objectives") != objectives:
        return Touched(any(files.values()), None, seen)
    old = before.get("files", {})
    changed = {
        day
        for table, days in files.items()
        for day in {*days, *old.get(table, {})}
        if days.get(day) != old.get(table, {}).get(day)
    }
    return Touched(bool(changed), min((date.fromisoformat(day) for day in changed if day), default=None), seen)


def is_behind(lake: Lake) -> bool:
    """Tell whether silver tables changed after gold looked at them last. A lake may have very many files: only the
    folders that change with each write are looked at."""
    at = built_at(lake)
    when = at.timestamp() if at else 0.0
    places = (place for table in SILVER for one in _CHANGING for place in Path(lake.where(table.name)).glob(one))
    return any(place.stat().st_mtime > when for place in places)


def built_at(lake: Lake) -> datetime | None:
    """The time at which gold looked at silver tables last; None if it never did, or with other tables than these."""
    at = noted(lake).get("at")
    return datetime.fromisoformat(at) if at else None


def noted(lake: Lake) -> dict[str, Any]:
    """The files that gold was last built from; empty if it never was, or by a version with other tables."""
    try:
        found = json.loads((Path(lake.path) / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("version") == VERSION else {}


def note(lake: Lake, found: Touched, built_from: date | None) -> None:
    """Gold is built from what was seen.

    Args:
        built_from: the first day that was; None is all. What changed before it is still to be built.
    """
    seen = found.seen
    if built_from is not None and found.anything and (found.since is None or built_from > found.since):
        before = noted(lake)
        if before.get("objectives") != seen["objectives"]:
            return
        files = {
            table: {day: size for day, size in before.get("files", {}).get(table, {}).items() if day < str(built_from)}
            | {day: size for day, size in days.items() if day >= str(built_from)}
            for table, days in seen["files"].items()
        }
        seen = seen | {"files": files}
    lake.write(NOTE, seen)
