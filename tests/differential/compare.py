"""Two transcripts of one trace, held against each other."""

from __future__ import annotations

import re
from typing import Any

from tests.differential.explained import Leaf, is_known

Transcript = list[tuple[str, Any]]


def first_difference(ours: Transcript, theirs: Transcript, start: int = 0) -> int | None:
    """Where two transcripts begin to differ, from ``start`` on."""
    for at in range(start, min(len(ours), len(theirs))):
        (label, mine), (other, wanted) = ours[at], theirs[at]
        if label != other or (mine != wanted and unexplained(label, wanted, mine)):
            return at
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def leaders_only(ours: Transcript, theirs: Transcript, at: int) -> bool:
    """Both chose a leader, and not the same one: Kafka takes whichever its hash map gives first."""
    if at >= min(len(ours), len(theirs)):
        return False
    (label, mine), (other, wanted) = ours[at], theirs[at]
    if label != other or "JOIN_GROUP" not in label or not isinstance(mine, dict) or not isinstance(wanted, dict):
        return False
    arbitrary = {"leader": "", "members": [], "member_id": ""}
    return (
        (mine["leader"] != wanted["leader"] or bool(mine["members"]) != bool(wanted["members"]))
        and mine["error_code"] == wanted["error_code"] == "NONE"
        and mine | arbitrary == wanted | arbitrary
    )


def report(name: str, ours: Transcript, theirs: Transcript, at: int, *, alone: bool) -> str:
    """What differs, in words; ``alone``: what follows the first difference says nothing."""
    lines = [f"=== {name}: step {at} differs"]
    if alone:  # what follows a difference follows from it
        lines += [f"    {label}: {_short(value)}" for label, value in theirs[max(at - 6, 0) : at]]
        end = at + 1
    else:
        end = len(theirs)
    blank = ("the end", None)
    seen: list[list[Leaf]] = []
    for step in range(at, end):
        label, wanted = theirs[step] if step < len(theirs) else blank
        other, mine = ours[step] if step < len(ours) else blank
        if label != other:
            lines += [f"  Kafka {label}: {_short(wanted)}", f"  Ottla {other}: {_short(mine)}"]
            break
        if mine != wanted:
            found = unexplained(label, wanted, mine)
            if found and found not in seen:
                lines.append(f"  {label} {_note_before(theirs, step)}")
                lines += [f"      {path}: Kafka {_short(one)}; Ottla {_short(two)}" for path, one, two in found]
            seen.append(found)
    return "\n".join(lines)


def _note_before(trace: Transcript, step: int) -> str:
    """What the trace says of a step, if it says something."""
    label, value = trace[step - 1] if step else ("", 0)
    return f"({label})" if value is None and not label.endswith(">") else ""


def leaves(wanted: object, mine: object, path: str = "") -> list[Leaf]:
    """Where two values differ, as deep as can be said."""
    if isinstance(wanted, dict) and isinstance(mine, dict):
        keys = [*wanted, *(key for key in mine if key not in wanted)]
        return [leaf for key in keys for leaf in leaves(wanted.get(key), mine.get(key), f"{path}.{key}")]
    if isinstance(wanted, list | tuple) and isinstance(mine, list | tuple) and len(wanted) == len(mine):
        pairs = enumerate(zip(wanted, mine, strict=True))
        return [leaf for number, (one, two) in pairs for leaf in leaves(one, two, f"{path}[{number}]")]
    return [] if wanted == mine else [Leaf(path, wanted, mine)]


def unexplained(label: str, wanted: object, mine: object) -> list[Leaf]:
    return [leaf for leaf in leaves(wanted, mine) if not is_known(label, leaf)]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 400 else f"{text[:400]}…"


def signature(ours: Transcript, theirs: Transcript, at: int) -> str:
    """What differs at a step, without the ids and numbers of one trace."""
    blank = ("the end", None)
    label, wanted = theirs[at] if at < len(theirs) else blank
    other, mine = ours[at] if at < len(ours) else blank
    if _call(label) != _call(other) or label != other:
        return f"Kafka {_call(label)}, Ottla {_call(other)}"
    found = unexplained(label, wanted, mine)
    places = {(re.sub(r"\[\d+\]", "[]", path), _brief(one), _brief(two)) for path, one, two in found}
    return f"{_call(label)}: " + "; ".join(f"{path} {one} | {two}" for path, one, two in sorted(places)[:3])


def _call(label: str) -> str:
    """The API of a label, without step, client and version."""
    parts = label.split()
    return parts[2] if len(parts) >= 3 and parts[0].isdecimal() else re.sub(r"\d+", "", label)


def _brief(value: object) -> str:
    return str(value) if isinstance(value, str) and value.isupper() else type(value).__name__
