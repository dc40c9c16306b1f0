"""The progress of the incidents: a table that follows them on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class PlainView:
    """A line for everything that is done."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def note(self, group: str, text: str) -> None:
        """Something was done to a group; an empty group is the demo itself."""
        print(f"{time.monotonic() - self._began:6.1f} s  {group:9} {text}".rstrip(), flush=True)

    def close(self) -> None:
        pass


class Silent(PlainView):
    """Does not give away what is done to the groups."""

    def note(self, group: str, text: str) -> None:
        if not group:
            super().note(group, text)


class LiveView:
    """The last thing that was done to each group."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._began = time.monotonic()
        self._last: dict[str, tuple[float, str]] = {}
        self._console = Console()
        self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def note(self, group: str, text: str) -> None:
        at = time.monotonic() - self._began
        if group:
            self._last[group] = (at, text)
        else:
            self._console.print(f"[dim]{at:6.1f} s[/]  {text}", highlight=False)

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column(f"{time.monotonic() - self._began:.0f} s", justify="right", style="dim")
        table.add_column("group", style="bold")
        table.add_column("what was done to it last", min_width=60)
        for group, (at, text) in self._last.items():
            table.add_row(f"{at:.0f}", group, text)
        return table


View = PlainView | LiveView
"""A view of the progress."""


def open_view() -> View:
    """The view that suits standard output."""
    return LiveView() if sys.stdout.isatty() else PlainView()
