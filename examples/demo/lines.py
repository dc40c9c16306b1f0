"""The lines that the demo sends: those of the Python source files on this machine."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a source file; the key says which: ``asyncio/events.py:17``."""

    key: bytes
    value: bytes


class Corpus(NamedTuple):
    """Lines, the number of files they are from, and what these files are, in words."""

    lines: list[Line]
    files: int
    origin: str


def collect(wanted: int) -> Corpus:
    """Whole files of the standard library until there are ``wanted`` lines; installed packages if it has fewer."""
    lines: list[Line] = []
    origin: list[str] = []
    files = 0
    for words, root, paths in _sources():
        before = len(lines)
        if before >= wanted:
            break
        for path in paths:
            if len(lines) >= wanted:
                break
            lines += read(path, root)
            files += 1
        if len(lines) > before:
            origin.append(words)
    return Corpus(lines, files, " and of ".join(origin))


def read(path: Path, root: Path) -> list[Line]:
    """The lines of a file, without their ends."""
    name = path.relative_to(root).as_posix().encode()
    rows = path.read_bytes().split(b"\n")
    if not rows[-1]:
        rows.pop()
    return [Line(b"%b:%d" % (name, number), row) for number, row in enumerate(rows, 1)]


def _sources() -> Iterator[tuple[str, Path, list[Path]]]:
    library = Path(sysconfig.get_path("stdlib"))
    found = _python_files(library, skip={"site-packages", "dist-packages"})
    # The test-suite, half of the library where it is installed at all, comes last.
    found.sort(key=lambda path: (not {"test", "tests", "idle_test"}.isdisjoint(path.relative_to(library).parts), path))
    yield "the Python standard library", library, found
    packages = Path(sysconfig.get_path("purelib"))
    yield "installed packages", packages, sorted(_python_files(packages))


def _python_files(root: Path, skip: Iterable[str] = ()) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in skip]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return found
