"""Where the sources are; what the tests of this folder share."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ROOMS: tuple[str, ...] = tuple(
    re.findall(r'"(\w+)"', re.search(r"ROOMS = \((.*?)\)", (ROOT / "setup.py").read_text(), re.DOTALL)[1])  # type: ignore[index]
)
"""The top-level folders that are installed as ``ottla.*``."""
TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".c", ".h", ".txt", ".sh", ".cfg", ".ini", ".properties", ".html", ""}
_PRIVATE = {"__pycache__", "node_modules", "build", "dist"}


def files(*suffixes: str) -> Iterator[Path]:
    """Every file of the project with one of these suffixes; not what tools and builds leave behind."""
    for top in sorted(ROOT.iterdir()):
        if top.name in {".ci", ".github"} or not top.name.startswith("."):
            yield from _files(top, suffixes)


def _files(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    if path.is_symlink() or path.name in _PRIVATE or path.name.endswith((".egg-info", "-data")):
        return
    if path.is_dir() and not (path / "pyvenv.cfg").exists():  # somebody's virtual environment, whatever its name
        for child in sorted(path.iterdir()):
            if not child.name.startswith("."):
                yield from _files(child, suffixes)
    elif path.is_file() and path.suffix in suffixes:
        yield path


def tree(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text())


def room_modules() -> set[str]:
    """The dotted name of every module that is installed: ``ottla.protocol.errors``."""
    names = set()
    for room in ROOMS:
        for path in _files(ROOT / room, (".py",)):
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.add(".".join(("ottla", *parts)).removesuffix(".__init__"))
    return names
