"""Print the list of events in docs/recorder.md from the events that the code has.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

from msgspec import Struct

from ottla.broker.core import events
from ottla.broker.core.events import Event, Input, RequestReceived

PAGE = Path(__file__).with_name("recorder.md")
BEGIN = "<!-- Printed by docs/make_recorder_events.py (`make docs`) from here on; do not edit. -->\n"


def render() -> str:
    """The whole page."""
    head = PAGE.read_text(encoding="utf-8").split(BEGIN)[0]
    kinds = [
        one for one in vars(events).values() if isinstance(one, type) and issubclass(one, Struct) and one is not Struct
    ]
    told = sorted((one for one in kinds if issubclass(one, Event) and one not in (Event, Input)), key=_name)
    inputs = [one for one in told if issubclass(one, Input)]
    others = [one for one in told if not issubclass(one, Input)]
    parts = sorted((one for one in kinds if not issubclass(one, Event)), key=_name)
    return (
        f"{head}{BEGIN}\n## Inputs\n\nEach has `number`.\n\n{_table(inputs)}\n\n"
        f"## Decisions, and what came of them\n\n{_table(others)}\n\n"
        f"## Parts of events\n\nArrays, with their elements in this order.\n\n{_table(parts)}\n"
    )


def _name(kind: type) -> str:
    return kind.__name__


def _table(kinds: Sequence[type[Struct]]) -> str:
    common = {*Event.__struct_fields__, "number"}
    rows = ["| name | fields | meaning |", "|---|---|---|"]
    for kind in kinds:
        hints = get_type_hints(kind)
        known = common
        own = []
        if issubclass(kind, RequestReceived) and kind is not RequestReceived:
            known = common | {*RequestReceived.__struct_fields__}
            own = ["those of `RequestReceived`"]
        own += [f"`{name}` {_type(hints[name])}" for name in kind.__struct_fields__ if name not in known]
        rows.append(f"| `{kind.__name__}` | {', '.join(own)} | {_meaning(kind)} |")
    return "\n".join(rows)


def _type(hint: object) -> str:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    text = re.sub(r"[a-z_.]+\.(?=[A-Z])", "", text)
    return text.replace(" | None", " or null").replace("|", "or")


def _meaning(kind: type) -> str:
    lines = [line.strip() for line in (kind.__doc__ or "").splitlines()]
    words = re.sub(r"\s*Attributes:\s*", " ", " ".join(line for line in lines if line))
    return re.sub(r"``(.+?)``", r"`\1`", words).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
