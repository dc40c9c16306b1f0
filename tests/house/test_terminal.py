"""Commands print through `cli/output.py` and nothing else: there names of others lose what could steer a terminal."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT, tree

PRINTERS = {"echo", "secho", "style", "echo_via_pager"}
MAKERS = {"Text", "Table", "Markdown", "Panel", "print_json"}
"""Of rich: what takes text of others."""


def ways_around(module: ast.Module) -> Iterator[int]:
    """The lines that print by themselves."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in PRINTERS and ast.unparse(node.value) == "click":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("rich", "click"):
            yield from (node.lineno for one in node.names if one.name in MAKERS | PRINTERS)


def test_commands_print_through_one_place() -> None:
    own = {ROOT / "cli" / "output.py"}
    found = [f"{path.name}:{line}" for path in (ROOT / "cli").glob("*.py") if path not in own
             for line in ways_around(tree(path))]  # fmt: skip
    assert found == []
    assert len(list(ways_around(tree(ROOT / "cli" / "output.py")))) > 5


@pytest.mark.parametrize(
    "code", ["print(1)", "click.secho('a')", "from rich.text import Text", "from click import echo"]
)
def test_ways_around_are_found(code: str) -> None:
    assert list(ways_around(ast.parse(code))) == [1]
