"""Progress bars, results and notes of the pipeline's commands."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from ottla.cli.output import note, print_json, print_table, warn
from ottla.observe.printable import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.pipeline.cluster import Cluster
    from ottla.pipeline.running import Progress

_LINE_EVERY_S = 30.0
"""Time between two lines of progress, which a pipe gets instead of bars."""
_REDRAWN_PER_S = 4
"""Progress comes this often, and a stream's bars may be watched over a slow line for days."""


class Bars(ExitStack):
    """A bar for each thing that is under way, on standard error; use with ``with``.

    Args:
        unit: what is counted: ``records`` or ``tasks``.
    """

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit
        self._bars: dict[str, Any] = {}
        self._steps: dict[str, int] = {}
        self._told = time.monotonic()
        self._progress = self.enter_context(_rich_progress()) if sys.stderr.isatty() else None

    def show(self, name: str, done: int, of: int | None, rows: int | None = None, rate: float = 0.0) -> None:
        """Show how far one is; ``of`` is None where there is no end."""
        if self._progress is None:
            self._line(name, done, of)
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(printable(name), total=of, rows="", count="")
        text = "" if rows is None else f"{rows:,} rows" + (f"  {rate:,.0f} rows/s" if rate else "")
        count = (f"{done:,}" if of is None else f"{done:,}/{of:,}") + f" {self._unit}"
        self._progress.update(self._bars[name], completed=done, total=of, rows=text, count=count)

    def step(self, name: str, of: int, what: str) -> None:
        """Count one more as done, of ``of`` in all."""
        self._steps[name] = done = self._steps.get(name, 0) + 1
        if self._progress is None:
            self._line(name, done, of)
        else:
            self.show(name, done, of)
            self._progress.update(self._bars[name], rows=printable(what))

    def finish(self, name: str, rows: int | None = None) -> None:
        """Show one as done, whatever was counted."""
        if self._progress is not None:
            # One that was done before it was looked at has no bar yet.
            self.show(name, 1, 1, rows)
            self._progress.update(self._bars[name], count="")

    def streams(self, found: dict[str, Progress], ends: dict[str, int], begins: dict[str, int]) -> None:
        """Show how far streams are, each in offsets of its log; without an end in ``ends`` a bar has none."""
        if self._progress is None:
            if time.monotonic() - self._told >= _LINE_EVERY_S:
                self._told = time.monotonic()
                note(", ".join(f"{name} {one.rows:,} rows" for name, one in found.items()))
            return
        for name, one in found.items():
            if name not in begins:
                # Samples have a time for a position, and a topic that came later has an unknown beginning.
                self.show(name, one.rows, None, one.rows, one.rate)
                continue
            total = max(0, ends[name] - begins[name]) if name in ends else None
            done = max(0, one.at - begins[name]) if one.batches else 0
            self.show(name, min(done, total) if total is not None else done, total, one.rows, one.rate)

    def _line(self, name: str, done: int, of: int | None) -> None:
        if time.monotonic() - self._told >= _LINE_EVERY_S:
            self._told = time.monotonic()
            note(f"{name}: {done:,} {self._unit}" + (f" of {of:,}" if of else ""))


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}", justify="right"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rows]}", markup=False),
        console=Console(stderr=True),
        refresh_per_second=_REDRAWN_PER_S,
    )


def cannot_know(cluster: Cluster) -> None:
    """Say what is missing without the event topic."""
    if not cluster.has_events:
        note(
            "There is no __ottla_group_events, as with Apache Kafka: how long rebalances took, their reasons, zombies "
            "and members that held up a rebalance cannot be known. All the rest can."
        )


def quarantined(rows: list[tuple[str, int]]) -> None:
    """Records that could not be read, by reason."""
    if rows:
        warn(f"{sum(count for _, count in rows):,} records could not be read; they are kept in quarantine:")
        print_table(("why", "records"), [(error, f"{count:,}") for error, count in rows])


def print_rows(asked: pa.Table, limit: int, as_json: bool) -> None:
    """The answer to a question: at most ``limit`` rows, and whether there are more."""
    rows = asked.to_pylist()
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        print_json([_plain(row) for row in rows])
    elif rows:
        # A lake is of one cluster, whose name would only make each line longer.
        names = [name for name in asked.column_names if name != "cluster_id"]
        cells = [[None if row[name] is None else _text(row[name]) for name in names] for row in rows]
        print_table([name.replace("_", " ") for name in names], cells)
    else:
        note("There are no rows.")
    if more:
        note(f"There are more than {limit} rows: say --limit.")


def _plain(value: Any) -> Any:
    """For JSON: times in ISO 8601, bytes in hexadecimal."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes | bytearray) else value


def _text(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, float):
        return f"{plain:.1f}"
    if isinstance(plain, list):
        return ", ".join(_text(one) for one in plain)
    return str(plain)
