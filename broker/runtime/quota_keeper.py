"""Puts the quotas of the catalog in force, with the addresses of hosts that they name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address, ip_address

from ottla.broker.core.quotas.entities import IP, Quotas
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.logger import Logger


class QuotaKeeper:
    """Told of quotas, it sets them; told of names of hosts, it looks them up first and sets the rest meanwhile.

    Args:
        changed: called when other quotas are in force.
    """

    def __init__(self, limits: ClientQuotas, changed: Callable[[], None], log: Logger) -> None:
        self._limits = limits
        self._changed = changed
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def go_by(self, quotas: Quotas) -> None:
        """Put quotas in force. They are durable already: what cannot be done with them is logged and no more."""
        self.stop()
        names = {name for entity in quotas for kind, name in entity if kind == IP and name is not None}
        known = {name: address for name in names if (address := _literal(name)) is not None}
        self._set(quotas, known)
        if known.keys() != names:
            self._task = asyncio.get_running_loop().create_task(self._look_up(quotas, known, names - known.keys()))

    def stop(self) -> None:
        """Look nothing up any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _set(self, quotas: Quotas, addresses: Mapping[str, str]) -> None:
        try:
            self._limits.set(quotas, addresses)
            self._changed()
        except Exception:
            self._log.error("Quotas could not be put in force", exc_info=True)

    async def _look_up(self, quotas: Quotas, known: dict[str, str], names: Iterable[str]) -> None:
        for name in sorted(names):
            try:
                found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                self._log.warning("A host that has a quota is not known: it has none", host=name, reason=str(error))
                continue
            address = str(found[0][4][0])
            known[name] = _literal(address) or address
        self._set(quotas, known)


def _literal(name: str) -> str | None:
    """An address as sockets spell it, or None for the name of a host."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)  # as the listener knows such clients
    return address.compressed
