"""No work is left as a note in the text, no test is skipped without a reason, and none is empty."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, TEXT, files, tree

LEFT_UNDONE = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
SKIPS = ("skip", "skipif", "xfail")


def test_nothing_is_left_undone() -> None:
    found, seen = [], 0
    for path in files(*TEXT):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # not text
        seen += 1
        lines = enumerate(text.splitlines(), start=1)
        found += [f"{path.relative_to(ROOT)}:{number}: {line}" for number, line in lines if LEFT_UNDONE.search(line)]
    assert seen > 150
    assert found == []


def test_the_words_are_recognised() -> None:
    assert LEFT_UNDONE.search("# " + "TO" + "DO: later")
    assert LEFT_UNDONE.search("x = 1  # " + "X" * 3)
    assert not LEFT_UNDONE.search("X" * 4 + ", a hexadecimal digit each")


def sources_of_tests() -> list[Path]:
    return [path for path in files(".py") if path.relative_to(ROOT).parts[0] == "tests"]


def unexplained_skips(module: ast.Module) -> Iterator[int]:
    """The lines of ``skip``, ``skipif`` and ``xfail`` that give no reason."""
    explained = set()
    for node in ast.walk(module):  # a call comes before its parts
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = node.func.attr == "skip" and node.args
            if text or any(word.arg == "reason" for word in node.keywords):
                explained.add(id(node.func))
        if isinstance(node, ast.Attribute) and node.attr in SKIPS and id(node) not in explained:
            yield node.lineno


def empty_tests(module: ast.Module) -> Iterator[int]:
    """The lines of tests that do nothing."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            acts = [line for line in node.body if not isinstance(line, ast.Pass) and not _is_text(line)]
            if not acts:
                yield node.lineno


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def test_skipped_tests_say_why() -> None:
    silent = [f"{path.relative_to(ROOT)}:{n}" for path in sources_of_tests() for n in unexplained_skips(tree(path))]
    assert silent == []


def test_no_test_is_empty() -> None:
    empty = [f"{path.relative_to(ROOT)}:{n}" for path in sources_of_tests() for n in empty_tests(tree(path))]
    assert empty == []


def test_silent_skips_are_found() -> None:
    source = """
pytest.skip("why")
pytest.skip()
@pytest.mark.skip
def test_one(): ...
@pytest.mark.skipif(True, reason="why")
def test_two(): "text"
@pytest.mark.xfail(strict=True)
def test_three():
    assert 1
"""
    module = ast.parse(source)
    assert sorted(unexplained_skips(module)) == [3, 4, 8]
    assert sorted(empty_tests(module)) == [5, 7]
