"""A page as a test reads it: well-formed, and its elements with their text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"br", "hr", "meta", "link", "col", "input", "img"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts if not _hidden(part))

    def all(self, name: str, class_: str | None = None) -> list[Element]:
        """The elements below of a name, and with a class."""
        found = []
        for part in self.parts:
            if isinstance(part, Element):
                if part.name == name and (class_ is None or class_ in (part.attributes.get("class") or "").split()):
                    found.append(part)
                found += part.all(name, class_)
        return found

    def by_id(self, id_: str) -> Element:
        (found,) = [one for one in self.walk() if one.attributes.get("id") == id_]
        return found

    def walk(self) -> list[Element]:
        below = [part for part in self.parts if isinstance(part, Element)]
        return [self, *(one for part in below for one in part.walk())]


def _hidden(part: Element | str) -> bool:
    return isinstance(part, Element) and part.name in ("title", "style", "script")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs))
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].parts.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def read(page: Path) -> Element:
    """The page; whatever is not closed in its place fails."""
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    assert [one.name for one in reader.open] == [""], "elements are left open"
    return reader.root
