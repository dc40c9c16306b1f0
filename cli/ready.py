"""What is told once brokers are ready: where clients reach them, on standard output and in a file."""

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
    from ottla.broker.logger import Logger
    from ottla.cli.node import Member


class Told:
    """What a broker that is alone, or a node of a database, tells of itself.

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

    def joined(self, node: Member) -> None:
        """Nobody here counts nodes."""

    def ready(self, broker: Broker, http: tuple[str, int] | None) -> None:
        tell_ready(broker.listening, self._ready, self._log)

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


def tell_ready(line: str, ready: Path | None, log: Logger) -> None:
    """Say where clients connect to, in the file and on standard output; what of this fails is in the log."""
    from ottla.broker.storage.local.files import Files, SyncFailed, replace_file

    try:
        if ready is not None:
            replace_file(Files(), str(ready.absolute()), f"{line}\n".encode())
    except (OSError, SyncFailed) as error:
        log.error("The file that says where to connect cannot be written", file=str(ready), reason=str(error))
    try:
        say(line)
    except OSError as error:  # a full disk, or nobody reads it
        log.error("Where to connect cannot be printed", listen=line, reason=str(error))
