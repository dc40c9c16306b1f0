"""docs/recorder.md names every event and field that there is, and what it shows of the form is so."""

from __future__ import annotations

import runpy
from pathlib import Path

from msgspec import structs

from ottla.broker.core import events
from ottla.observe.recording import FORMAT, HEAD, MAGIC, Header

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recorder.md"


def test_the_list_of_events_is_as_it_is_printed() -> None:
    printed = runpy.run_path(str(ROOT / "docs" / "make_recorder_events.py"))
    assert printed["render"]() == PAGE.read_text(encoding="utf-8"), "make docs"


def test_every_event_is_told() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = [one for one in vars(events).values() if isinstance(one, type) and issubclass(one, events.Event)]
    missing = [one.__name__ for one in kinds if f"| `{one.__name__}` |" not in text]
    assert missing == ["Event", "Input"]


def test_the_form_is_told() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [one.name for one in structs.fields(Header) if f"`{one.name}`" not in text]
    assert missing == []
    assert (FORMAT, HEAD.size, MAGIC) == (1, 12, b"ottla-recording\n")
