"""Offsets to move to, for `ottla groups reset-offsets` and `ottla consume --offset`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.clients import Consumer, TopicPartition


class To(Enum):
    """The kinds of places to move to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    LAST = "last"
    SHIFT = "shift"
    TIME = "time"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Target:
    """The place that the user asked for; ``value`` is an offset, a count, a distance, or Unix ms, by ``to``."""

    to: To
    value: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A partition's log, and a group's place in it.

    Attributes:
        committed: the group's offset; None if it has none.
        at_time: the first offset at or after the asked time; None if there is none, or no time was asked for.
    """

    log_start_offset: int
    log_end_offset: int
    committed: int | None = None
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """The new offset, and a remark when it is not simply what was asked for."""

    offset: int
    remark: str = ""


class CannotReset(Exception):
    """There is no offset to count from; the message says what to do."""


def move(target: Target, place: Place) -> Move:
    """The new offset of a partition, kept within its log as Kafka's tool does.

    Raises:
        CannotReset: a shift without a committed offset.
    """
    match target.to:
        case To.EARLIEST:
            return Move(place.log_start_offset)
        case To.LATEST:
            return Move(place.log_end_offset)
        case To.OFFSET:
            return _within(target.value, place)
        case To.LAST:
            return _within(place.log_end_offset - target.value, place)
        case To.SHIFT:
            if place.committed is None:
                raise CannotReset("nothing is committed that could be shifted: use --to-earliest or --to-offset")
            return _within(place.committed + target.value, place)
        case To.TIME:
            if place.at_time is None:
                return Move(place.log_end_offset, "no record at or after that time: the log's end")
            return Move(place.at_time)
        case To.CURRENT:
            if place.committed is None:
                return Move(place.log_end_offset, "nothing is committed: the log's end")
            return Move(place.committed)


def _within(offset: int, place: Place) -> Move:
    if offset < place.log_start_offset:
        return Move(place.log_start_offset, f"{offset} is before the log's start")
    if offset > place.log_end_offset:
        return Move(place.log_end_offset, f"{offset} is beyond the log's end")
    return Move(offset)


def parse_datetime_ms(text: str) -> int:
    """An ISO 8601 date, with or without time; UTC unless it names its zone. In Unix ms.

    Raises:
        ValueError: not a date.
    """
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no date: write e.g. 2026-05-04T13:30:00.000 or 2026-05-04T13:30+02:00") from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


# -- where `ottla consume` begins without a group

_WORDS = {"earliest": To.EARLIEST, "beginning": To.EARLIEST, "latest": To.LATEST, "end": To.LATEST}


async def offsets_of(consumer: Consumer, start: Target, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset to begin at, by partition; within the log."""
    begins = await consumer.beginning_offsets(places)
    ends = await consumer.end_offsets(places)
    times = await consumer.offsets_for_times(dict.fromkeys(places, start.value)) if start.to is To.TIME else {}
    first = {tp: None if found is None else found.offset for tp, found in times.items()}
    return {tp: move(start, Place(begins[tp], ends[tp], at_time=first.get(tp))).offset for tp in places}


def parse_start(text: str) -> Target:
    """``earliest`` (``beginning``), ``latest`` (``end``), ``42``, ``-10``, ``@2026-05-04T13:30`` or ``@1777900000000``.

    Raises:
        click.UsageError: none of these.
    """
    if text in _WORDS:
        return Target(_WORDS[text])
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        number = int(text)
        return Target(To.OFFSET, number) if number >= 0 else Target(To.LAST, -number)
    # s@ is how kcat writes it.
    if (time := text.removeprefix("s")).startswith("@"):
        time = time[1:]
        try:
            return Target(To.TIME, int(time) if time.isdecimal() else parse_datetime_ms(time))
        except ValueError as error:
            raise click.UsageError(f"--offset {text!r}: {error}.") from None
    raise click.UsageError(f"--offset {text!r}: write earliest, latest, an offset, -N for the last N, or @TIME.")
