"""docs/why.md has every class of causes, in the words of `ottla why`."""

from __future__ import annotations

import re

import pytest

from ottla.observe.why.causes import Cause
from tests.house.sources import ROOT

PARTS = ("- *Recognised by* ", "- *Told:* ", "- *What to do:* ")
TEXT = (ROOT / "docs/why.md").read_text(encoding="utf-8")
SECTIONS = {
    head: " ".join(body.partition("\n## ")[0].split())
    for head, _, body in (piece.partition("\n") for piece in TEXT.split("\n### ")[1:])
}


def test_every_class_is_there_once() -> None:
    assert list(SECTIONS) == list(Cause), "in the order of the table"
    assert TEXT.count("\n### ") == len(Cause) > 30


@pytest.mark.parametrize("cause", Cause)
def test_it_says_what_the_class_is(cause: Cause) -> None:
    section = SECTIONS[cause]
    assert [section.count(part) for part in PARTS] == [1, 1, 1]
    assert section.index(PARTS[0]) > 0, "the meaning comes first"


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.FLAPPING_MEMBER, Cause.ROLLING_RESTART}))
def test_the_example_is_worded_as_it_is_told(cause: Cause) -> None:
    example = SECTIONS[cause].partition(PARTS[1])[2].partition(PARTS[2])[0]
    worded = re.escape(cause.row.clause).replace(re.escape("{who}"), r"\S+").replace(re.escape("{instance}"), r"\S+")
    assert re.search(worded, example), cause.row.clause


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(#([\w-]+)\)", TEXT)
    assert len(links) > 8
    assert set(links) <= set(SECTIONS)
