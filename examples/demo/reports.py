"""The reports of the demo's processes: files that outlive them, SIGKILL included.

Every process appends to files of its own, unbuffered, and a consumer writes what it saw *before* it commits. So nothing
that was committed can be missing from the reports, whenever a process ends.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_POSITION = struct.Struct("<IqI")


class Position(NamedTuple):
    """The place of a line in the topic, and a checksum of its key and text."""

    partition: int
    offset: int
    checksum: int


def checksum(key: bytes | None, value: bytes | None) -> int:
    """The checksum of a line."""
    return zlib.crc32(value or b"", zlib.crc32(key or b""))


class Report:
    """The writing half. ``name.positions`` has positions in binary form, ``name.events`` one JSON object a line."""

    def __init__(self, directory: Path, name: str) -> None:
        self._positions = (directory / f"{name}.positions").open("ab", buffering=0)
        self._events = (directory / f"{name}.events").open("ab", buffering=0)

    def positions(self, positions: Iterable[Position]) -> None:
        """Lines sent, or lines seen."""
        self._positions.write(b"".join(_POSITION.pack(*position) for position in positions))

    def event(self, event: str, **fields: Any) -> None:
        """Something that happened, with the time of this machine's wall clock."""
        self._events.write(json.dumps({"event": event, "at": time.time(), **fields}).encode() + b"\n")


class Tail:
    """Reads what a growing file has more than last time, in whole pieces. A file that is not there has nothing yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> list[bytes]:
        """Whole lines, without their ends."""
        data = self._more()
        end = data.rfind(b"\n") + 1
        self._at += end
        return data[:end].splitlines()

    def positions(self) -> Iterator[Position]:
        data = self._more()
        end = len(data) - len(data) % _POSITION.size
        self._at += end
        return (Position(*values) for values in _POSITION.iter_unpack(data[:end]))

    def _more(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                return file.read()
        except FileNotFoundError:
            return b""
