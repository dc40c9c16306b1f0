"""The progress of the demo: live bars and a table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class MemberRow:
    """A member as it is now."""

    name: str
    kind: str
    state: str
    partitions: tuple[int, ...]
    lines_seen: int


@dataclass(frozen=True)
class Snapshot:
    """The demo as it is now."""

    lines: int
    sent: int
    seen: int
    members: tuple[MemberRow, ...] = field(default_factory=tuple)


class PlainView:
    """A line for what happens, and one every few seconds for how far things are."""

    EVERY_S = 2.0

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._last: tuple[int, int] | None = None

    def note(self, text: str) -> None:
        """Something happened."""
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def update(self, snapshot: Snapshot) -> None:
        """Show the progress."""
        now, state = time.monotonic(), (snapshot.sent, snapshot.seen)
        if now - self._told < self.EVERY_S or state == self._last:
            return
        self._told, self._last = now, state
        owners = " ".join(f"{row.name}:{len(row.partitions)}" for row in snapshot.members if row.partitions)
        share = 100 * snapshot.seen // snapshot.lines
        self.note(
            f"  {snapshot.sent:,} lines sent, {snapshot.seen:,} seen ({share} %)  partitions {owners or 'unassigned'}"
        )

    def close(self) -> None:
        pass


_STATE_STYLES = {"starting": "dim", "joining": "yellow", "consuming": "green", "left": "dim", "killed": "red"}


class LiveView:
    """Two bars and a table of the members, with what happens scrolling by above them."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._began = time.monotonic()
        self._console = Console()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._sent = self._bars.add_task("lines sent", total=None)
        self._seen = self._bars.add_task("lines seen", total=None)
        self._live = Live(self._bars, console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def note(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/]  {text}", highlight=False)

    def update(self, snapshot: Snapshot) -> None:
        self._bars.update(self._sent, total=snapshot.lines, completed=snapshot.sent)
        self._bars.update(self._seen, total=snapshot.lines, completed=snapshot.seen)
        self._live.update(self._draw(snapshot))

    def close(self) -> None:
        self._live.stop()

    def _draw(self, snapshot: Snapshot) -> RenderableType:
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in ("member", "client", "state"):
            table.add_column(heading)
        table.add_column("lines seen", justify="right")
        table.add_column("partitions", min_width=30)
        for row in snapshot.members:
            table.add_row(
                row.name,
                row.kind,
                Text(row.state, _STATE_STYLES.get(row.state, "")),
                f"{row.lines_seen:,}",
                " ".join(map(str, row.partitions)),
            )
        return Group(self._bars, table)


View = PlainView | LiveView
"""A view of the progress."""


def open_view() -> View:
    """The view that suits standard output."""
    return LiveView() if sys.stdout.isatty() else PlainView()
