"""Quotas are put in force, those of named hosts once their addresses are known."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.core.quotas.entities import Quotas
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.runtime.quota_keeper import QuotaKeeper
from ottla.broker.settings import Settings


def addresses(*names: str | None) -> Quotas:
    return {(("ip", name),): {"connection_creation_rate": 5.0} for name in names}


class Keeping:
    """A keeper, what it set, and how often it said so."""

    def __init__(self) -> None:
        self.limits = ClientQuotas(Settings())
        self.changes = 0
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.keeper = QuotaKeeper(self.limits, self.changed, self)

    def warning(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    error = warning

    def changed(self) -> None:
        self.changes += 1

    @property
    def known(self) -> set[str | None]:
        return set(self.limits.addresses.limits)


async def test_addresses_are_known_as_sockets_spell_them() -> None:
    keeping = Keeping()
    keeping.keeper.go_by(addresses("10.0.0.1", "0:0:0:0:0:0:0:1", None))
    assert keeping.known == {"10.0.0.1", "::1", None}
    assert keeping.changes == 1
    keeping.keeper.go_by({})
    assert keeping.known == set()


async def test_quotas_of_clients_need_no_addresses() -> None:
    keeping = Keeping()
    keeping.keeper.go_by({(("client-id", "c"),): {"producer_byte_rate": 5.0}})
    assert keeping.limits.produce.on
    assert keeping.limits.of_requests


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the running loop know two hosts, ``near`` and ``mapped``."""
    hosts = {"near": "10.0.0.1", "mapped": "::ffff:10.1.2.3"}

    async def getaddrinfo(host: str, port: Any, **options: Any) -> list[Any]:
        if host not in hosts:
            raise OSError("no such host")
        return [(2, 1, 6, "", (hosts[host], 0))]

    return lambda: monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


async def test_hosts_are_looked_up(named: Callable[[], None]) -> None:
    named()
    keeping = Keeping()
    keeping.keeper.go_by(addresses("near", "10.0.0.9", "nowhere"))
    assert "10.0.0.9" in keeping.known
    assert "10.0.0.1" not in keeping.known
    assert keeping.keeper._task is not None
    await keeping.keeper._task
    assert {"10.0.0.1", "10.0.0.9"} <= keeping.known
    assert keeping.changes == 2
    ((_, fields),) = keeping.logged
    assert fields == {"host": "nowhere", "reason": "no such host"}


async def test_what_is_no_longer_in_force_is_not_set_again(named: Callable[[], None]) -> None:
    named()
    keeping = Keeping()
    keeping.keeper.go_by(addresses("near"))
    task = keeping.keeper._task
    keeping.keeper.go_by(addresses("10.0.0.9"))
    assert task is not None
    await asyncio.wait([task])
    assert keeping.known == {"10.0.0.9"}


async def test_ipv4_addresses_are_known_as_such_however_they_are_spelled(named: Callable[[], None]) -> None:
    named()
    keeping = Keeping()
    keeping.keeper.go_by(addresses("::ffff:10.1.2.4", "::ffff:a01:205", "mapped"))
    assert {"10.1.2.4", "10.1.2.5"} <= keeping.known
    assert keeping.keeper._task is not None
    await keeping.keeper._task
    assert keeping.known == {"10.1.2.3", "10.1.2.4", "10.1.2.5"}


async def test_nothing_is_looked_up_after_the_end(named: Callable[[], None]) -> None:
    named()
    keeping = Keeping()
    keeping.keeper.go_by(addresses("near"))
    task = keeping.keeper._task
    assert task is not None
    keeping.keeper.stop()
    keeping.keeper.stop()
    await asyncio.wait([task])
    assert task.cancelled()
    assert keeping.changes == 1


async def test_what_cannot_be_put_in_force_fails_nobody() -> None:
    keeping = Keeping()
    keeping.keeper.go_by({(("ip", None),): {"connection_creation_rate": math.nan}})
    assert [event for event, _ in keeping.logged] == ["Quotas could not be put in force"]
    keeping.keeper.go_by(addresses("10.0.0.9"))
    assert keeping.known == {"10.0.0.9"}
