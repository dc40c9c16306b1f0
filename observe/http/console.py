"""The files of the console page, by the paths under which they are served."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ottla.observe.console_files import FOLDER, content

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Other files are not served."""


class File(NamedTuple):
    """A file with what HTTP says of it."""

    content: bytes
    media_type: str
    etag: str


class Files:
    """The files below a folder by the path that they have from there. They are few and small: each is kept once read.

    A path is looked up among those that were found when the broker started, so that none leads out of the folder.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        found = sorted(folder.rglob("*")) if folder.is_dir() else []
        self._paths = {
            path.relative_to(folder).as_posix(): path for path in found if path.suffix in MEDIA_TYPES and path.is_file()
        }
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
