"""Files stay below 500 lines and functions below 70; what outgrows that mostly has two subjects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOMS, ROOT, files, room_modules, tree

FILE_LINES = 500
ONE_SUBJECT = {
    "broker/core/groups/coordinator.py": 600,
    "broker/net/connection.py": 700,
    "broker/runtime/node.py": 520,
    "broker/settings.py": 850,
    "clients/admin.py": 960,
    "clients/consumer.py": 620,
    "protocol/fused.py": 600,
}
"""Files that would have to be cut through the middle of their one subject, and how long they may get."""
FUNCTION_LINES = 70


def test_files() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in files(".py")}
    assert len(lengths) > 100
    most = {str(path): ONE_SUBJECT.get(str(path), FILE_LINES) for path in lengths}
    assert {str(path): length for path, length in lengths.items() if length > most[str(path)]} == {}


def function_lengths(module: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, line and length of every function and method."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions() -> None:
    seen, long = 0, []
    for path in files(".py"):
        for name, line, length in function_lengths(tree(path)):
            seen += 1
            if length > FUNCTION_LINES:
                long.append(f"{path.relative_to(ROOT)}:{line} {name}: {length} lines")
    assert seen > 500
    assert long == []


def test_functions_are_measured() -> None:
    source = "class A:\n    @property\n    def f(self):\n        def g():\n            return 1\n        return g\n"
    assert sorted(function_lengths(ast.parse(source))) == [("f", 3, 4), ("g", 4, 2)]


def test_every_folder_of_a_room_is_a_package() -> None:
    """A folder without ``__init__.py`` would be left out of the wheel."""
    rooms = [path for path in files(".py") if path.relative_to(ROOT).parts[0] in ROOMS]
    assert [str(path) for path in rooms if not path.with_name("__init__.py").exists()] == []
    assert "ottla.protocol.messages.heartbeat" in room_modules()


def test_ottla_is_a_namespace_package() -> None:
    """Rooms are its portions; an ``__init__.py`` of its own would hide those of other distributions."""
    assert not (ROOT / "ottla").exists()
    if not (ROOT / ".types").exists():
        pytest.skip("a source distribution has no links for type checkers")
    assert not (ROOT / ".types/ottla/__init__.py").exists()
    links = {link.name: link.resolve() for link in (ROOT / ".types/ottla").iterdir()}
    assert links == {room: ROOT / room for room in ROOMS}
