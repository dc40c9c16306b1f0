"""The planted trouble: five groups on real clients, four of them in trouble, and topics written to meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from examples.demo.processes import Failed
from examples.demo.view import View
from examples.pipeline.ledger import Ledger
from examples.pipeline.members import Member, Role, member
from ottla.clients import Admin, NewTopic, Producer

PARTITIONS = 4
BACKLOG = 1_000
SEND_EVERY_S = 0.05
PER_ROUND = 4
"""Records of each topic that are sent at a time: 80 a second."""
TROUBLE_S = 45.0
FLAP_S = 2.5
RESTART_S = 6.0
STUCK_AFTER_S = 5.0
PATIENCE_S = 60.0


class Planted(NamedTuple):
    """A group, and what it goes through.

    Attributes:
        what: in words; suspect: who is to blame, empty for nobody.
        finding: what must be found of it; status: how its partitions must stand, empty where that is open.
        breaches: whether it falls behind its objective.
    """

    group: str
    what: str
    roles: tuple[Role, ...]
    finding: str = ""
    suspect: str = ""
    status: str = ""
    breaches: bool = False


def _roles(group: str, *clients: str, **options: float) -> tuple[Role, ...]:
    return tuple(
        Role(f"{group}-{number}", group, client, **options)  # type: ignore[arg-type]
        for number, client in enumerate(clients, 1)
    )


PLANTED = (
    Planted("healthy", "nothing", _roles("healthy", "confluent-kafka", "ottla"), status="OK"),
    Planted(
        "stormy",
        "one member comes and goes all the time",
        _roles("stormy", "confluent-kafka", "aiokafka", "confluent-kafka"),
        finding="storm",
        suspect="stormy-3",
    ),
    Planted(
        "deployed",
        "its members are restarted one after the other",
        _roles("deployed", "aiokafka", "ottla", "confluent-kafka"),
        finding="rolling_restart",
    ),
    Planted(
        "stuck",
        "its members hang: they neither poll nor commit, but are members still",
        _roles("stuck", "confluent-kafka", "confluent-kafka"),
        status="STOP",
        breaches=True,
    ),
    Planted(
        "slow",
        "its only member gets less done than there is to do",
        _roles("slow", "confluent-kafka", per_second=20, commit_s=5.0),
        breaches=True,
    ),
)


class Play:
    """See the module. What happens after `begin` goes on until `end`."""

    def __init__(self, bootstrap: str, view: View) -> None:
        self.bootstrap = bootstrap
        self.view = view
        self.ledger = Ledger()
        self.sent = 0
        self.members: dict[str, Member] = {
            role.name: member(role, bootstrap, self.ledger) for one in PLANTED for role in one.roles
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Topics that are written to, and all groups Stable.

        Raises:
            Failed: that takes too long.
        """
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            await admin.create_topics([NewTopic(one.group, PARTITIONS) for one in PLANTED])
        producer = Producer(bootstrap_servers=self.bootstrap, linger_ms=10)
        await producer.start()
        for number in range(BACKLOG):
            await self._send(producer, number)
        self._tasks.append(asyncio.create_task(self._write(producer)))
        await asyncio.gather(*(one.start() for one in self.members.values()))
        await self._until(
            lambda: all(
                sum(one.owned for one in self.members.values() if one.role.group == planted.group) == PARTITIONS
                for planted in PLANTED
            ),
            "all groups to be Stable",
        )

    async def trouble(self) -> None:
        """Let happen to the groups what is planted."""
        began = time.monotonic()
        await asyncio.gather(self._flap(began), self._deploy(), self._hang())
        await asyncio.sleep(max(0.0, began + TROUBLE_S - time.monotonic()))

    async def end(self) -> None:
        """All members leave."""
        await asyncio.gather(*(one.stop() for one in self.members.values()), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _flap(self, began: float) -> None:
        flapping = self.members["stormy-3"]
        for times in itertools.count(1):
            if time.monotonic() - began > TROUBLE_S - 2 * FLAP_S:
                self.view.note(f"stormy-3 left and came back {times - 1} times")
                return
            await flapping.stop()
            await asyncio.sleep(FLAP_S / 2)
            await flapping.start()
            await self._until(lambda: flapping.owned > 0, "stormy-3 to be back")
            await asyncio.sleep(FLAP_S / 2)

    async def _deploy(self) -> None:
        for name in ("deployed-1", "deployed-2", "deployed-3"):
            one = self.members[name]
            await asyncio.sleep(RESTART_S / 2)
            await one.stop()
            self.view.note(f"{name} is restarted")
            await asyncio.sleep(RESTART_S / 2)
            await one.start()
            await self._until(lambda one=one: one.owned > 0, f"{name} to be back")  # type: ignore[misc]

    async def _hang(self) -> None:
        await asyncio.sleep(STUCK_AFTER_S)
        for name in ("stuck-1", "stuck-2"):
            self.members[name].is_stuck = True
        self.view.note("stuck-1 and stuck-2 hang from now on")

    async def _write(self, producer: Producer) -> None:
        try:
            while True:
                for number in range(PER_ROUND):
                    await self._send(producer, number)
                await asyncio.sleep(SEND_EVERY_S)
        finally:
            await producer.stop()

    async def _send(self, producer: Producer, number: int) -> None:
        for one in PLANTED:
            await producer.send(one.group, b"record %d" % self.sent, partition=number % PARTITIONS)
            self.sent += 1

    async def _until(self, there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not there():
            if time.monotonic() > deadline:
                raise Failed(f"waited {PATIENCE_S:.0f} s for {what}")
            await asyncio.sleep(0.05)
