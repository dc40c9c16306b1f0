"""Threads of Python tell the kernel their names, so that `/proc/PID/task/*/comm` says what each is for."""

import threading
from pathlib import Path

_run = threading.Thread.run


def run(self: threading.Thread) -> None:
    """Name the thread, then run it."""
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(self.name[:15])
    _run(self)


threading.Thread.run = run  # type: ignore[method-assign]
