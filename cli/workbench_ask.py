"""Commands that ask the workbench of a broker: `ottla fault`, `ottla clock`, `ottla groups pause`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from ottla.cli.common import bootstrap_option, run
from ottla.cli.connecting import client_options
from ottla.cli.output import Refused

T = TypeVar("T")

Ask = Callable[..., Awaitable[Any]]
"""Asks for a verb with its arguments: see `ottla.clients.workbench.WorkbenchAdmin.ask`."""


def asks_workbench(function: Callable[..., Awaitable[T]]) -> Callable[..., T]:
    """``--bootstrap-server``, for a command whose function gets what asks a workbench first.

    Raises:
        Refused: no broker answers, it has no workbench, or it refuses.
    """

    @bootstrap_option
    @wraps(function)
    def command(bootstrap: str, **options: Any) -> T:
        async def main() -> T:
            from ottla.cli.silence import waiting_told
            from ottla.clients.errors import UnsupportedByBroker
            from ottla.clients.workbench import WorkbenchAdmin

            admin = WorkbenchAdmin(**client_options(bootstrap))
            async with waiting_told(admin, bootstrap), admin:
                try:
                    return await function(admin.ask, **options)
                except UnsupportedByBroker:
                    raise _no_workbench(bootstrap) from None

        return run(main(), bootstrap)

    return command


def _no_workbench(bootstrap: str) -> Refused:
    return Refused(
        f"The broker at {bootstrap} has no workbench.",
        "An Ottla has one if it is started so, for tests: `ottla serve --workbench`. Apache Kafka has none.",
    )
