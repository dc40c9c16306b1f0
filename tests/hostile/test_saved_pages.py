"""Pages that hold names of others: what slips through their escapes runs and styles nothing."""

from __future__ import annotations

import ast
import base64
import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ottla.observe.console_files import FOLDER
from ottla.observe.http.access import HEADERS, PAGE
from ottla.observe.timeline.build import build
from ottla.observe.timeline.page import page as timeline_page
from ottla.pipeline.report.heat import axis
from ottla.pipeline.report.lists import _meter
from ottla.pipeline.report.page import HERE, _policy
from ottla.pipeline.report.span import Span, as_time
from tests.observe.timeline.synthetic import part, rebalance

NAME = (
    "</script></style><script>alert(1)</script><b style='color:red' onclick=alert(1)>x</b>\u202e\x1b]0;owned\x07&{}$csp"
)
INLINE = re.compile(r"<(script|style)([^>]*)>(.*?)</\1>", re.DOTALL)


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def policy_of(page: str) -> dict[str, list[str]]:
    """The directives of a page's own policy, which comes before anything that it is about."""
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert found is not None
    assert not INLINE.search(page[: found.start()])
    return {name: words for name, *words in map(str.split, found[1].split(";"))}


class Attributes(HTMLParser):
    """The names of all attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {name for name, _ in attrs}


def inline_attributes(page: str) -> list[str]:
    """Those that hold styles or scripts."""
    names = Attributes(page).names
    assert len(names) > 3
    return [name for name in names if name == "style" or name.startswith("on")]


def is_held_by_its_policy(page: str) -> None:
    """Raises AssertionError: something in it counts that is not its own, or nothing that is."""
    policy = policy_of(page)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert "'unsafe-inline'" not in str(policy)
    inline = [found.groups() for found in INLINE.finditer(page)]
    scripts = [text for tag, options, text in inline if tag == "script" and "application/json" not in options]
    styles = [text for tag, _, text in inline if tag == "style"]
    assert policy["script-src"] == list(map(hash_of, scripts))
    assert policy["style-src"] == list(map(hash_of, styles))
    assert len(scripts) == len(styles) == 1
    assert inline_attributes(page) == []


def test_a_saved_timeline_is_held_by_its_policy() -> None:
    members = [part(NAME, fate="new", came_ms=1, synced_ms=60, after=2)]
    page = timeline_page(build(NAME, [rebalance(1, 0, 100, members)]))
    is_held_by_its_policy(page)
    assert "alert(1)</script>" not in page


def test_a_report_is_held_by_its_policy() -> None:
    template, style = (HERE / "report.html").read_text(), (HERE / "report.css").read_text()
    start, end = as_time("2026-11-22", "since"), as_time("2026-11-23", "until")
    assert start is not None and end is not None
    body = axis(Span.of(start, end)) + _meter(3, 8)
    page = template.replace("$csp", _policy(template, style)).replace("$style", style).replace("$parts", body)
    is_held_by_its_policy(page)
    assert body.count("<text ") > 3


def test_no_part_of_a_report_has_a_style_of_its_own() -> None:
    """The policy would leave it out, and the page would be wrong without a word."""
    nodes = [node for path in HERE.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    tags = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "tag"]
    assert len(tags) > 50
    assert not [node.lineno for node in tags for word in node.keywords if (word.arg or "").startswith(("style", "on"))]


@pytest.mark.parametrize("page", [(FOLDER / "index.html").read_text(), PAGE], ids=["console", "login"])
def test_pages_of_the_port_hold_nothing_inline(page: str) -> None:
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert [found for found in INLINE.findall(page) if found[2]] == []
    assert inline_attributes(page) == []


def test_scripts_of_the_console_make_no_markup_and_no_style_attribute() -> None:
    scripts: list[Path] = sorted(FOLDER.glob("*.js"))
    assert len(scripts) > 10
    made = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|[{,]\s*style:|cssText"
    )
    assert [(path.name, found[0]) for path in scripts for found in made.finditer(path.read_text())] == []
