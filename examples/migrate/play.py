"""The script of the demo: a rolling restart to the other protocol and one back, then a restart that stops the world."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.processes import Failed, Process
from examples.demo.reports import Tail
from examples.demo.view import View
from examples.migrate.books import Books
from ottla.clients import Admin, GroupDescription, KafkaError, Producer

TOPIC = "payments"
GROUP = "settlement"
PARTITIONS = 6
SEND_EVERY_S = 0.05
STEP_TIMEOUT_S = 40.0
TICK_S = 0.05
READ_AFTER_S = 0.2
"""What was reported later than this is booked when it is read again."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""The broker's settings that are not Kafka's defaults: members are heard of every second, as the classic ones are."""


@dataclass
class Phase:
    """A part of the script: ``began_at`` and ``ended_at`` in Unix seconds, and the group's type at its end."""

    name: str
    began_at: float
    ended_at: float = 0.0
    group_type: str = ""
    wanted_type: str = ""


@dataclass
class Running:
    """A member's process, and what it reports."""

    kind: str
    protocol: str
    process: Process
    events: Tail


@dataclass
class Play:
    """One run. `run` raises `Failed` if the script cannot be followed to its end.

    Attributes:
        members: by name their kinds.
        bootstrap: a broker that runs already; empty to start one.
    """

    directory: Path
    view: View
    members: dict[str, str]
    bootstrap: str = ""
    books: Books = field(default_factory=Books)
    phases: list[Phase] = field(default_factory=list)
    _broker: Process | None = None
    _running: dict[str, Running] = field(default_factory=dict)
    _all: list[Running] = field(default_factory=list)
    _unbooked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _sending: bool = True

    async def run(self) -> None:
        """Follow the script. All processes have ended afterwards."""
        try:
            await self._start_broker()
            async with (
                Admin(bootstrap_servers=self.bootstrap) as admin,
                Producer(bootstrap_servers=self.bootstrap) as producer,
            ):
                await admin.create_topics({TOPIC: PARTITIONS})
                sending = asyncio.create_task(self._send(producer))
                try:
                    await self._script(admin, sending)
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
        finally:
            await asyncio.gather(*(one.process.kill() for one in self._all))
            if self._broker is not None:
                await self._broker.stop()
            self._read(at_the_end=True)

    async def _script(self, admin: Admin, sending: asyncio.Task[None]) -> None:
        note = self.view.note
        note(f"{len(self.members)} classic members share {PARTITIONS} partitions: {', '.join(self.members)}")
        for name in self.members:
            await self._start(name, "classic")
        await self._settled("the classic group to form", admin)
        await self._phase("rolling, to consumer", "consumer", admin, lambda: self._roll(admin, "consumer"))
        await self._phase("rolling, back to classic", "classic", admin, lambda: self._roll(admin, "classic"))
        await self._phase(
            "stop the world, to consumer", "consumer", admin, lambda: self._stop_the_world(admin, "consumer")
        )
        self._sending = False
        await sending
        await self._until("every record to be seen", lambda: not self.books.unseen)
        note("every record was seen; the members leave")
        await asyncio.gather(*(self._stop(name) for name in list(self._running)))

    async def _phase(self, name: str, protocol: str, admin: Admin, play: Callable[[], Awaitable[None]]) -> None:
        self.view.note(f"{name}:")
        phase = Phase(name, time.time(), wanted_type=protocol)
        self.phases.append(phase)
        await play()
        phase.ended_at = time.time()
        phase.group_type = (await self._described(admin)).group_type

    async def _roll(self, admin: Admin, protocol: str) -> None:
        for name in self.members:
            await self._stop(name)
            await self._start(name, protocol)
            group = await self._settled(f"{name} to work again", admin)
            modern = sum(one.protocol == "consumer" for one in group.members)
            self.view.note(
                f"  {name} restarted: a {group.group_type} group with {len(group.members) - modern} classic and "
                f"{modern} consumer members, {group.state}"
            )

    async def _stop_the_world(self, admin: Admin, protocol: str) -> None:
        await asyncio.gather(*(self._stop(name) for name in self.members))
        self.view.note("  all members stopped")
        for name in self.members:
            await self._start(name, protocol)
        await self._settled("all members to work again", admin)
        self.view.note("  all members work again")

    async def _described(self, admin: Admin) -> GroupDescription:
        try:
            return (await admin.describe_groups([GROUP]))[GROUP]
        except KafkaError as error:
            raise Failed(f"the group cannot be described: {error}", self.directory / "logs") from None

    # processes

    async def _start_broker(self) -> None:
        (self.directory / "logs").mkdir(parents=True)
        (self.directory / "reports").mkdir()
        if self.bootstrap:
            return
        settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        data = str(self.directory / "data")
        self._broker = Process(
            "the broker", self._log("broker"),
            "ottla.cli", "serve", "--listen", "127.0.0.1:0", "--data-dir", data, *settings,
        )  # fmt: skip
        await self._broker.start()
        self.bootstrap = await self._broker.first_line(30)

    async def _start(self, name: str, protocol: str) -> None:
        reports = self.directory / "reports"
        # Each life of a member has files of its own: what one wrote must not be read as another's.
        life = f"{name}.{len(self._all)}"
        process = Process(
            name, self._log(life), "examples.migrate.member", "--kind", self.members[name], "--protocol", protocol,
            "--name", name, "--bootstrap", self.bootstrap, "--group", GROUP, "--topic", TOPIC,
            "--reports", str(reports / life),
        )  # fmt: skip
        (reports / life).mkdir()
        await process.start()
        running = Running(self.members[name], protocol, process, Tail(reports / life / f"{name}.events"))
        self._running[name] = running
        self._all.append(running)

    async def _stop(self, name: str) -> None:
        running = self._running.pop(name)
        code = await running.process.stop()
        if code != 0:
            raise Failed(f"{name} did not leave cleanly (exit code {code})", running.process.log)
        self._read()

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    # what happens

    async def _send(self, producer: Producer) -> None:
        """Send a record to each partition, twenty times a second, and book what is acknowledged."""
        while self._sending:
            sent = [await producer.send(TOPIC, b"%f" % time.time(), partition=one) for one in range(PARTITIONS)]
            for record in await asyncio.gather(*sent):
                self.books.sent((record.partition, record.offset))
            await asyncio.sleep(SEND_EVERY_S)

    def _read(self, *, at_the_end: bool = False) -> None:
        """Book what was reported in the order of its times: files are read one after the other, and so not at once."""
        until = math.inf if at_the_end else time.time() - READ_AFTER_S
        self._unbooked += [(one.process.name, json.loads(line)) for one in self._all for line in one.events.lines()]
        self._unbooked.sort(key=lambda row: row[1]["at"])
        ready = [row for row in self._unbooked if row[1]["at"] < until]
        del self._unbooked[: len(ready)]
        self.books.take(ready)

    async def _settled(self, what: str, admin: Admin) -> GroupDescription:
        """Every member owns partitions, together all of them, each partition has been seen at work since, and the group
        is Stable.

        A member that is an epoch behind when the last one of the protocol consumer leaves has no generation of the
        classic group, and loses what it holds: as `ottla groups migrate` says, one waits before the next restart.
        """
        everything = list(range(PARTITIONS))

        def shared() -> bool:
            owned = [self.books.owned.get(name, set()) for name in self._running]
            return all(owned) and sorted(one for held in owned for one in held) == everything

        await self._until(what, shared)
        since = time.time()
        await self._until(
            f"{what}, and records of all partitions to be seen",
            lambda: shared() and all(self.books.last_seen.get(one, 0) > since for one in everything),
        )
        group = await self._described(admin)
        until = time.monotonic() + STEP_TIMEOUT_S
        while group.state != "Stable":
            if time.monotonic() > until:
                raise Failed(f"waited {STEP_TIMEOUT_S:.0f} s for {what}: it is {group.state}", self.directory / "logs")
            await asyncio.sleep(TICK_S)
            group = await self._described(admin)
        self._read()
        return group

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                while not condition():
                    await asyncio.sleep(TICK_S)
                    self._read()
                    for name, running in self._running.items():
                        process = running.process
                        if not process.alive:
                            raise Failed(f"{name} ended with exit code {process.exit_code}", process.log)
        except TimeoutError:
            raise Failed(f"waited {STEP_TIMEOUT_S:.0f} s for {what}", self.directory / "logs") from None
