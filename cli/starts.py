"""The offsets at which `ottla consume` begins without a group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.resets import Place, Target, To, move, parse_datetime_ms

if TYPE_CHECKING:
    from ottla.clients import Consumer, TopicPartition

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
            return Target(To.TIME, int(time) if time.isdigit() else parse_datetime_ms(time))
        except ValueError as error:
            raise click.UsageError(f"--offset {text!r}: {error}.") from None
    raise click.UsageError(f"--offset {text!r}: write earliest, latest, an offset, -N for the last N, or @TIME.")
