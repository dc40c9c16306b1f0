"""docs/why.md has every class of causes, in the words of `ottla why`."""

from __future__ import annotations

import re

import pytest

from ottla.observe.why.causes import CAUSES
from ottla.observe.why.phrases import PHRASES
from tests.house.sources import ROOT

PARTS = ("- *Recognised by* ", "- *Told:* ", "- *What to do:* ")
TEXT = (ROOT / "docs/why.md").read_text(encoding="utf-8")
SECTIONS = {
    head: " ".join(body.partition("\n## ")[0].split())
    for head, _, body in (piece.partition("\n") for piece in TEXT.split("\n### ")[1:])
}


def test_every_class_is_there_once() -> None:
    assert list(SECTIONS) == list(CAUSES), "in the order of causes.CAUSES"
    assert TEXT.count("\n### ") == len(CAUSES) > 30


@pytest.mark.parametrize("cause", list(CAUSES))
def test_it_says_what_the_class_is(cause: str) -> None:
    section = SECTIONS[cause]
    assert [section.count(part) for part in PARTS] == [1, 1, 1]
    assert section.index(PARTS[0]) > 0, "the meaning comes first"


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause not in ("flapping-member", "rolling-restart")])
def test_the_example_is_worded_as_it_is_told(cause: str) -> None:
    example = SECTIONS[cause].partition(PARTS[1])[2].partition(PARTS[2])[0]
    worded = re.escape(PHRASES[cause]).replace(re.escape("{who}"), r"\S+").replace(re.escape("{instance}"), r"\S+")
    assert re.search(worded, example), PHRASES[cause]


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(#([\w-]+)\)", TEXT)
    assert len(links) > 8
    assert set(links) <= set(SECTIONS)
