"""Shell completion of groups and topics, as the broker has them that the command line names.

It is quick or silent: where no broker answers in time, nothing is completed and nothing is said.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TYPE_CHECKING

import click

from ottla.cli.connecting import client_options

if TYPE_CHECKING:
    from ottla.clients import Admin

PATIENCE_S = 1.0
DEFAULT_BOOTSTRAP = "localhost:9092"


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The groups whose names begin so."""

    async def ask(admin: Admin) -> list[str]:
        return [one.group_id for one in await admin.list_groups()]

    return _fitting(context, ask, incomplete)


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics whose names begin so; internal ones if they are asked for by their underscores."""

    with_internal = incomplete.startswith("_")
    return _fitting(context, lambda admin: admin.list_topics(include_internal=with_internal), incomplete)


def _fitting(context: click.Context, ask: Callable[[Admin], Awaitable[list[str]]], incomplete: str) -> list[str]:
    """The names that begin so; none if no broker tells them in time."""
    from ottla.clients import Admin

    bootstrap = context.params.get("bootstrap") or os.environ.get("OTTLA_BOOTSTRAP_SERVERS") or DEFAULT_BOOTSTRAP

    async def main() -> list[str]:
        with context.scope(cleanup=False):
            options = client_options(bootstrap)
        async with Admin(**options) as admin:
            # A name that the shell would have to quote is left out: what a shell makes of such completions differs.
            return sorted(one for one in await ask(admin) if one.startswith(incomplete) and shlex.quote(one) == one)

    logging.disable()
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        return asyncio.run(main())
    except Exception:  # whatever is wrong, the command itself will say it
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        logging.disable(logging.NOTSET)


def _give_up(number: int, frame: FrameType | None) -> None:
    """End the process, which does nothing else: a look-up of a name in a thread may hang for long."""
    os._exit(0)
