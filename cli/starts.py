"""Where `ottla consume` begins without a group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ottla.cli.resets import parse_datetime_ms

if TYPE_CHECKING:
    from ottla.clients import Consumer, TopicPartition

_WORDS = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


@dataclass(frozen=True)
class Start:
    """``how`` is earliest, latest, at (an offset), last (so many records) or time (Unix ms)."""

    how: str
    value: int = 0

    @property
    def is_latest(self) -> bool:
        return self.how == "latest"

    async def offsets(self, consumer: Consumer, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset to begin at, by partition; within the log."""
        begins = await consumer.beginning_offsets(places)
        ends = await consumer.end_offsets(places)
        match self.how:
            case "earliest":
                return begins
            case "latest":
                return ends
            case "time":
                found = await consumer.offsets_for_times(dict.fromkeys(places, self.value))
                return {tp: ends[tp] if at is None else at.offset for tp, at in found.items()}
            case "last":
                return {tp: max(begins[tp], ends[tp] - self.value) for tp in places}
            case _:
                return {tp: min(max(begins[tp], self.value), ends[tp]) for tp in places}


def parse_start(text: str) -> Start:
    """``earliest`` (``beginning``), ``latest`` (``end``), ``42``, ``-10``, ``@2026-05-04T13:30`` or ``@1777900000000``.

    Raises:
        click.UsageError: none of these.
    """
    if text in _WORDS:
        return Start(_WORDS[text])
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        number = int(text)
        return Start("at", number) if number >= 0 else Start("last", -number)
    # s@ is how kcat writes it.
    if (time := text.removeprefix("s")).startswith("@"):
        time = time[1:]
        try:
            return Start("time", int(time) if time.isdigit() else parse_datetime_ms(time))
        except ValueError as error:
            raise click.UsageError(f"--offset {text!r}: {error}.") from None
    raise click.UsageError(f"--offset {text!r}: write earliest, latest, an offset, -N for the last N, or @TIME.")
