"""The files of the console, with the tables of the broker's own in them."""

from __future__ import annotations

from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "console"
_CAUSES = b"{/* observe/why/causes.py */}"
"""Stands in ``causes.js`` for the table of causes."""


def content(path: Path) -> bytes:
    """A file as it is served."""
    found = path.read_bytes()
    if path.name != "causes.js":
        return found
    from ottla.observe.why.causes import Cause

    table = {one: {"meaning": one.row.meaning, "gravity": one.row.gravity} for one in Cause}
    return found.replace(_CAUSES, msgspec.json.encode(table))
