"""The files of the console page, by the paths under which they are served."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from ottla.observe.console_files import FOLDER, content

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Other files are not served."""


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
