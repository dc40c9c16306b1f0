"""Events of groups, from the JSON of ``__ottla_group_events``."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.scalar import Unreadable

VERSION = 1
_INT, _LONG = 1 << 31, 1 << 63


class Event(NamedTuple):
    """A row of ``group_events`` but for its time's type. What the broker did not know is None."""

    ts_ms: int
    group_id: str
    generation: int | None
    event: str
    reason: str | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    duration_ms: int | None


def event(value: bytes | None) -> Event:
    """Read one event. Keys that are not known are ignored, events that are not known are kept.

    Raises:
        Unreadable: it is no such JSON; the message says why.
    """
    fields = _object(value)
    if (version := fields.get("v")) != VERSION or isinstance(version, bool):
        raise Unreadable(f"an event of version {json.dumps(version)[:40]}, not {VERSION}")
    generation = _number(fields, "generation", _INT, needed=False)
    return Event(
        ts_ms=_number(fields, "ts_ms", _LONG) or 0,
        group_id=_text(fields, "group") or "",
        generation=None if generation == -1 else generation,
        event=_text(fields, "event") or "",
        # An empty text says nothing either, and would hide what other sources say.
        reason=_text(fields, "reason", needed=False) or None,
        member_id=_text(fields, "member", needed=False) or None,
        client_id=_text(fields, "client", needed=False) or None,
        client_host=_text(fields, "host", needed=False) or None,
        duration_ms=_number(fields, "duration_ms", _LONG, needed=False),
    )


def _object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise Unreadable("an event without a value")
    try:
        decoded = json.loads(value.decode())
    except UnicodeDecodeError:
        raise Unreadable("an event that is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"an event that is no JSON: {str(error)[:80]}") from None
    if not isinstance(decoded, dict):
        raise Unreadable("an event that is no JSON object")
    return decoded


def _number(fields: dict[str, Any], name: str, bound: int, *, needed: bool = True) -> int | None:
    value = fields.get(name)
    if value is None and not needed:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
        raise Unreadable(f"an event whose {name} is no integer of {bound.bit_length()} bits")
    return value


def _text(fields: dict[str, Any], name: str, *, needed: bool = True) -> str | None:
    value = fields.get(name)
    if value is None and not needed:
        return None
    if not isinstance(value, str):
        raise Unreadable(f"an event whose {name} is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unreadable(f"an event whose {name} has half a character") from None
    return value


def read(chunk: Chunk) -> tuple[list[int], list[Event]]:
    """The numbers of the records that can be read, and what they say."""
    rows, found = [], []
    for row in range(len(chunk)):
        try:
            found.append(event(chunk.value(row)))
        except Unreadable:
            continue
        rows.append(row)
    return rows, found


def rows(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``group_events``; records that cannot be read are left out."""
    return pa.RecordBatch.from_arrays(payload(read(chunk)[1]), schema=tables.GROUP_EVENTS.arrow(whole=False))


def payload(found: list[Event]) -> list[pa.Array]:
    """The columns of ``group_events``."""
    _, *others = tables.GROUP_EVENTS.arrow(whole=False)
    parts = list(zip(*found, strict=True)) or [()] * len(Event._fields)
    times = columns.times(np.array(parts[0], np.int64))
    return [times, *(pa.array(part, field.type) for part, field in zip(parts[1:], others, strict=True))]
