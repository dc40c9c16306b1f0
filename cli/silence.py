"""Tells the user that no broker answers, or that an answer takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from ottla.cli.output import note

if TYPE_CHECKING:
    from ottla.clients import Admin

PATIENCE_MS = 3_000
LOOK_EVERY_S = 0.25


class Reaching(Protocol):
    """A consumer or a producer."""

    @property
    def unanswered_ms(self) -> float: ...


class Silence:
    """The lines about an outage: one when it has lasted a while, and one when it is over. Pure.

    Args:
        bootstrap: the address that the user knows.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._told = False

    def words(self, unanswered_ms: float) -> str | None:
        """The line to print now, if any; ``unanswered_ms`` is how long no broker has answered."""
        if not self._told and unanswered_ms >= PATIENCE_MS:
            self._told = True
            return f"No broker answers at {self._bootstrap}; still trying."
        if self._told and not unanswered_ms:
            self._told = False
            return "Connected again."
        return None


@asynccontextmanager
async def silence_told(client: Reaching, bootstrap: str) -> AsyncIterator[None]:
    """Tell of outages on standard error for as long as the block lasts."""
    watching = asyncio.create_task(_watch(client, Silence(bootstrap)))
    try:
        yield
    finally:
        watching.cancel()


@asynccontextmanager
async def waiting_told(admin: Admin, bootstrap: str) -> AsyncIterator[None]:
    """Say on standard error what a command waits for, once, when the block has lasted a while."""

    async def tell() -> None:
        await patience()
        address, api = admin.last_request or (bootstrap, "its first request")
        note(f"Waiting for {address} to answer {api}; Ctrl-C stops that.")

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


async def patience() -> None:
    """Wait as long as nobody wonders."""
    await asyncio.sleep(PATIENCE_MS / 1000)


async def _watch(client: Reaching, silence: Silence) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if words := silence.words(client.unanswered_ms):
            note(words)
