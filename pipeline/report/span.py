"""The time that a report is about, cut into buckets of whole minutes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

SIZES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)
"""Minutes that a bucket may have."""
MOST_BUCKETS = 180
DEFAULT_DAYS = 7
"""The days that a report goes back by default: as far as the broker keeps its events."""
_STEPS = tuple(timedelta(minutes=minutes) for minutes in SIZES)


class Tick(NamedTuple):
    """A place on the axis: where (0 to 1) and what is written there."""

    at: float
    label: str


class Span(NamedTuple):
    """A span of time in UTC, without its end; ``start`` is at a whole bucket."""

    start: datetime
    end: datetime
    bucket: timedelta

    @classmethod
    def of(cls, first: datetime, last: datetime) -> Span:
        """The span that holds both, in as fine buckets as a page can show."""
        minutes = max(1.0, (last - first).total_seconds() / 60)
        size = next((one for one in SIZES if minutes / one <= MOST_BUCKETS), None)
        bucket = timedelta(minutes=size or -(-int(minutes) // (1440 * MOST_BUCKETS)) * 1440)
        start = _floor(first, bucket)
        end = _floor(last, timedelta(minutes=1))
        return cls(start, max(end + timedelta(minutes=1) if last > end else end, start + timedelta(minutes=1)), bucket)

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def buckets(self) -> int:
        return -(-self.length // self.bucket)

    @property
    def bucket_minutes(self) -> int:
        return self.bucket // timedelta(minutes=1)

    @property
    def dates(self) -> tuple[date, date]:
        """The first and the last day, in UTC."""
        return self.start.date(), (self.end - timedelta(microseconds=1)).date()

    def part(self, when: datetime) -> float:
        """The place of a time in the span: 0 to 1, those outside at the edges."""
        return min(1.0, max(0.0, (when - self.start) / self.length))

    def begins(self, bucket: int) -> datetime:
        """The beginning of a bucket."""
        return self.start + bucket * self.bucket

    def ticks(self, most: int = 9) -> list[Tick]:
        """Round times for an axis; a day's first is named by the day."""
        step = next((one for one in _STEPS if self.length / one <= most), _STEPS[-1])
        while self.length / step > most:
            step *= 2
        ticks: list[Tick] = []
        when = _floor(self.start, step)
        while when < self.end:
            if when >= self.start:
                ticks.append(Tick(self.part(when), _label(when, step, first=not ticks)))
            when += step
        return ticks


def _label(when: datetime, step: timedelta, *, first: bool) -> str:
    midnight = (when.hour, when.minute) == (0, 0)
    if step >= timedelta(days=1) or midnight:
        return f"{when.day} {when:%b}"
    return f"{when.day} {when:%b} {when:%H:%M}" if first else f"{when:%H:%M}"


def _floor(when: datetime, step: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (when - epoch) // step * step


def as_time(value: date | datetime | str | None, name: str) -> datetime | None:
    """A day or a time that somebody gave, in UTC; without a zone it is UTC.

    Raises:
        ValueError: a text is neither; the message names ``name``, what it is and what is allowed.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"{name} is {value!r}, and must be a day or a time in UTC, such as 2026-11-22 or 2026-11-22T09:30"
            ) from None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - its zone is set below
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
