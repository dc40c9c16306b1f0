"""Offsets to move to, for `ottla groups reset-offsets` and `ottla consume --offset`. Pure: numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum


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
