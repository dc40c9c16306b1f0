"""The files of the console, with the tables of the broker's own in them."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

FOLDER = Path(__file__).parent / "console"
_CAUSES = b"{/* observe/why/causes.py */}"
"""Stands in ``causes.js`` for the table of causes."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Other files are not served."""


def content(path: Path) -> bytes:
    """A file as it is served."""
    found = path.read_bytes()
    if path.name != "causes.js":
        return found
    from ottla.observe.why.causes import Cause

    table = {one: {"meaning": one.row.meaning, "gravity": one.row.gravity} for one in Cause}
    return found.replace(_CAUSES, msgspec.json.encode(table))


class File(NamedTuple):
    """A file with what HTTP says of it."""

    content: bytes
    media_type: str
    etag: str


class Files:
    """The files of the console's folder by name. They are few and small: each is kept once read.

    A name is looked up among those that were found when the broker started, so that none leads out of the folder.
    """

    def __init__(self) -> None:
        self._paths = {path.name: path for path in FOLDER.iterdir() if path.suffix in MEDIA_TYPES}
        self._read: dict[str, File] = {}

    def get(self, name: str) -> File | None:
        """A file, None if there is none of that name. Empty is the page itself."""
        name = name or "index.html"
        if name not in self._paths:
            return None
        if name not in self._read:
            found = content(self._paths[name])
            etag = f'"{sha256(found).hexdigest()[:32]}"'
            self._read[name] = File(found, MEDIA_TYPES[self._paths[name].suffix], etag)
        return self._read[name]
