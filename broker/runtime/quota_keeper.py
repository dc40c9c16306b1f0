"""Puts the quotas of the catalog in force, with the addresses of hosts that they name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address

from ottla.broker.core.quotas.entities import IP, Quotas
from ottla.broker.core.quotas.limits import ClientQuotas


class QuotaKeeper:
    """Told of quotas, it sets them; told of names of hosts, it looks them up first and sets the rest meanwhile.

    Args:
        changed: called when other quotas are in force.
    """

    def __init__(self, limits: ClientQuotas, changed: Callable[[], None]) -> None:
        self._limits = limits
        self._changed = changed
        self._quotas: Quotas = {}
        self._task: asyncio.Task[None] | None = None

    def go_by(self, quotas: Quotas) -> None:
        """Put quotas in force."""
        self._quotas = quotas
        names = {name for entity in quotas for kind, name in entity if kind == IP and name is not None}
        known = {name: address for name in names if (address := _literal(name)) is not None}
        self._set(quotas, known)
        if known.keys() != names:
            self._task = asyncio.get_running_loop().create_task(self._look_up(quotas, known, names - known.keys()))

    def _set(self, quotas: Quotas, addresses: Mapping[str, str]) -> None:
        self._limits.set(quotas, addresses)
        self._changed()

    async def _look_up(self, quotas: Quotas, known: dict[str, str], names: Iterable[str]) -> None:
        for name in sorted(names):
            try:
                found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                continue  # nobody comes from there
            known[name] = str(found[0][4][0])
        if quotas is self._quotas:
            self._set(quotas, known)


def _literal(name: str) -> str | None:
    """An address as sockets spell it, or None for the name of a host."""
    try:
        return ip_address(name).compressed
    except ValueError:
        return None
