"""Events that a load process reports to the test on standard output, one a line.

A line is written as soon as the client has the answer: what was told stays told when the process is killed a moment
later.
"""

from __future__ import annotations

import os
import threading
from typing import NamedTuple, get_args


class Acked(NamedTuple):
    """A record was acknowledged at a place."""

    topic: str
    partition: int
    offset: int
    value: str


class Saw(NamedTuple):
    """A consumer of a group was given a record."""

    group: str
    topic: str
    partition: int
    offset: int
    value: str


class Committed(NamedTuple):
    """A commit of a group was acknowledged; ``offset`` is the next record to read."""

    group: str
    topic: str
    partition: int
    offset: int


class Generation(NamedTuple):
    """A member is in a stable generation of its group."""

    group: str
    member: str
    generation: int


class Created(NamedTuple):
    """The creation of a topic was acknowledged."""

    topic: str
    partitions: int


class Doubtful(NamedTuple):
    """A topic is about to be deleted: from now on it may be there or not."""

    topic: str


class Deleted(NamedTuple):
    """The deletion of a topic was acknowledged."""

    topic: str


class Trouble(NamedTuple):
    """Something happened that no client should see."""

    words: str


class Ended(NamedTuple):
    """The process has delivered and closed everything."""

    name: str


Event = Acked | Saw | Committed | Generation | Created | Doubtful | Deleted | Trouble | Ended
_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
_one_at_a_time = threading.Lock()
_NUMBERS = frozenset({"partition", "offset", "generation", "partitions"})


def line_of(event: Event) -> str:
    """One line, without its end."""
    return "\t".join([type(event).__name__, *(str(field).replace("\t", " ").replace("\n", " ") for field in event)])


def event_of(line: str) -> Event:
    """The event in a line.

    Raises:
        ValueError: it is none, e.g. cut off where its process was killed.
    """
    name, *fields = line.split("\t")
    kind = _KINDS.get(name)
    if kind is None or len(fields) != len(kind._fields):
        raise ValueError(f"not an event: {line!r}")
    return kind(*(int(text) if field in _NUMBERS else text for field, text in zip(kind._fields, fields, strict=True)))


def tell(*events: Event) -> None:
    """Write events to standard output, at once."""
    data = "".join(f"{line_of(event)}\n" for event in events).encode()
    with _one_at_a_time:  # a pipe takes what is longer than a page piece by piece
        while data:
            data = data[os.write(1, data) :]
