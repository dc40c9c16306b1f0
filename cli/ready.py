"""What a broker that is alone tells of itself when it is ready: its address, on standard output and in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.broker.endpoints import Endpoint
from ottla.cli.output import say
from ottla.cli.taken import is_taken, tell_taken

if TYPE_CHECKING:
    from ottla.broker.app import Broker, CannotStart


class Told:
    """See the module.

    Args:
        ready: the file; None for none.
        http: where it is to serve HTTP; empty for nowhere.
    """

    def __init__(self, ready: Path | None, endpoints: Sequence[Endpoint], http: str, log: Any) -> None:
        self._ready = ready
        self._endpoints = endpoints
        self._http = http
        self._log = log

    def begin(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
        """Nobody but the user stops it."""

    def ready(self, broker: Broker, http: tuple[str, int] | None) -> None:
        if self._ready is not None:
            _write_atomically(self._ready, f"{broker.listening}\n")
        say(broker.listening)

    def failed(self, error: CannotStart) -> None:
        self._log.error("Cannot start", reason=str(error))
        if is_taken(error):
            tell_taken(self._endpoints, self._http)

    def stopped(self) -> None:
        if self._ready is not None:
            self._ready.unlink(missing_ok=True)


def ready_file(file: str | None) -> Path | None:
    """The file that says that a broker is ready; there is none now."""
    if file is None:
        return None
    ready = Path(file)
    if not ready.parent.is_dir():
        raise click.UsageError(f"--ready-file {file!r}: there is no directory {str(ready.parent)!r}")
    ready.unlink(missing_ok=True)  # of a broker that was killed: it must not say that this one is ready
    return ready


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
