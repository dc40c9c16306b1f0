"""Where `ottla groups reset-offsets` moves a group to. Pure: numbers in, numbers out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum


class To(Enum):
    """What to move to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Target:
    """What the user asked for; ``value`` is an offset, a distance, or Unix ms, by ``to``."""

    to: To
    value: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of a partition.

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
    """There is nothing to reckon from; the message says what to do."""


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


_ISO = re.compile(
    r"P(?=.)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?=.)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SHORT = re.compile(
    r"(?=.)(?:(?P<w>\d+)w)?(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)s)?"
    r"(?:(?P<ms>\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
LONGEST_MS = 5_200 * 7 * 86_400_000
"""A duration that somebody means: a hundred years."""
_MILLISECONDS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration_ms(text: str) -> int:
    """``10s``, ``1h30m``, ``500ms``, or ``PT1H30M`` (ISO 8601, as Kafka's tool takes it); 0 needs no unit.

    A number without a unit is refused: Kafka's tools mean milliseconds by some, minutes or seconds by others.

    Raises:
        ValueError: none of these, or more than `LONGEST_MS`.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        if float(text):
            raise ValueError(f"{text!r} has no unit: write {text}ms, {text}s or {text}m")
        return 0
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration: write e.g. 30s, 1h30m or 500ms")
    found = sum(float(count) * _MILLISECONDS[unit] for unit, count in match.groupdict().items() if count)
    if found > LONGEST_MS:
        raise ValueError(f"{text[:20]!r} is too long: at most 5200w")
    return round(found)


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
