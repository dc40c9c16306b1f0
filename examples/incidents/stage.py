"""The stage of the incidents: a broker, topics that are written to, and processes that consume them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.processes import Failed, Process
from examples.demo.reports import Tail
from examples.incidents.view import View
from ottla.clients import Admin, GroupDescription, KafkaError, NewTopic, Producer
from ottla.observe.why.model import HERE

SETTINGS = (
    "group.max.size=4",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.heartbeat.interval.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=1000",
)
"""What is not Kafka's default: the size that the group which is too large runs into, and the times of consumer groups,
which are those that all other members have here."""

STEP_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.25
SEND_EVERY_S = 0.05


@dataclass
class Actor:
    """A member as the stage sees it, from its reports.

    Attributes:
        expected: it may end; nobody else may.
        troubles: errors that its client told of.
    """

    name: str
    process: Process
    events: Tail
    expected: bool = False
    joined: bool = False
    troubles: list[str] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        """Take in one event that it reported."""
        event = json.loads(line)
        if event["event"] == "assigned":
            self.joined = True
        elif event["event"] == "trouble":
            self.troubles.append(event["error"])


def is_without(episode: dict[str, Any], name: str) -> bool:
    """Whether an episode, as ``ottla why --format json`` has it, is over and ended without a client."""
    went = [one["client_id"] for one in episode["members"] if one.get("fate", "stayed") not in HERE]
    return "outcome" in episode and name in went  # without an outcome it runs


class Stage:
    """See the module. Use it with `opened`.

    Attributes:
        console: the address of the console.
        recording: the file in which the broker keeps all that happens to groups.
        groups: their descriptions, a fraction of a second old.
        actors: by name; a name that was started anew is the newer one.
    """

    def __init__(self, directory: Path, view: View, http: str = "127.0.0.1:0") -> None:
        self.directory = directory
        self.recording = directory / "groups.recording"
        self.view = view
        self.groups: dict[str, GroupDescription] = {}
        self.actors: dict[str, Actor] = {}
        self.bootstrap = ""
        self.console = ""
        self._everyone: list[Process] = []
        self._runs = itertools.count(1)
        self._looked = asyncio.Event()
        self._topics: list[str] = []
        self._admin: Admin
        self.broker = self._process(
            "the broker", "broker",
            "ottla.cli", "serve", "--listen", "127.0.0.1:0", "--http", http, "--ephemeral", "--log-format", "json",
            "--record", str(self.recording),
            *(argument for setting in SETTINGS for argument in ("--set", setting)),
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def opened(self, topics: dict[str, int]) -> AsyncIterator[Stage]:
        """Start the broker, and see to it that all topics are written to. At the end all processes have ended."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self.broker.start()
            self.bootstrap = await self.broker.first_line(30)
            self.console = await self._console_url()
            async with (
                Admin(bootstrap_servers=self.bootstrap, client_id="incidents") as admin,
                Producer(
                    bootstrap_servers=self.bootstrap,
                    client_id="incidents",
                    delivery_timeout_ms=10_000,
                    request_timeout_ms=5_000,
                ) as producer,
            ):
                await admin.create_topics([NewTopic(name, partitions) for name, partitions in topics.items()])
                self._topics = list(topics)
                self._admin = admin
                tasks = [asyncio.create_task(self._look(admin)), asyncio.create_task(self._send(producer))]
                yield self
                await self._end(tasks)
        finally:
            await self._end(tasks)
            # The members first: they have no reason to complain about a broker that is gone.
            await asyncio.gather(*(process.kill() for process in reversed(self._everyone)))

    async def _console_url(self) -> str:
        """The console's address; the broker logs it after it has said that it is ready."""
        log = Tail(self.broker.log)
        async with asyncio.timeout(STEP_TIMEOUT_S):
            while True:
                for line in log.lines():
                    entry = json.loads(line) if line.startswith(b"{") else {}
                    if entry.get("event") == "HTTP":
                        return str(entry["url"])
                await asyncio.sleep(0.05)

    @staticmethod
    async def _end(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- what can be done

    async def join(self, client: str, name: str, group: str, **options: str | float) -> Actor:
        """Start a member of a group that consumes the topic of its name. Options: `examples.incidents.member`."""
        number = next(self._runs)
        reports = self.directory / "reports" / f"{number:02}"
        reports.mkdir(parents=True)
        named: dict[str, str | float] = {"client": client, "name": name, "group": group, "topics": group}
        arguments = named | options
        process = self._process(
            name, f"{number:02}-{name}", "examples.incidents.member", "--bootstrap", self.bootstrap,
            "--reports", str(reports), *(f"--{key.replace('_', '-')}={value}" for key, value in arguments.items()),
        )  # fmt: skip
        actor = Actor(name, process, Tail(reports / f"{name}.events"))
        self.actors[name] = actor
        await process.start()
        return actor

    async def leave(self, name: str) -> None:
        """SIGTERM: the member closes its client and ends."""
        actor = self.actors[name]
        actor.expected = True
        if code := await actor.process.stop():
            raise Failed(f"{name} did not end cleanly (exit code {code})", actor.process.log)

    async def kill(self, name: str) -> None:
        """SIGKILL: nobody is told."""
        self.actors[name].expected = True
        await self.actors[name].process.kill()

    def tell(self, name: str, command: str) -> None:
        """Say something to a member; see `examples.incidents.member`."""
        self.actors[name].process.tell(command)

    # -- what can be waited for

    async def stable(self, group: str, *names: str) -> None:
        """Wait until the group is Stable with exactly these clients."""

        def met() -> bool:
            return self.is_stable(group, *names) and all(self.actors[name].joined for name in names)

        await self.until(f"group {group} to be Stable with {', '.join(names)}", met)

    async def gone(self, group: str, since_ms: int, name: str) -> int:
        """Wait until it is recorded that a client has been put out of the group, or left it, since a Unix time.

        It may be back before anybody looks; what is recorded stays. Gives when that episode began.
        """

        episode = await self.recorded(group, since_ms, f"to be without {name}", lambda one: is_without(one, name))
        started_ms: int = episode["started_ms"]
        return started_ms

    async def recorded(
        self, group: str, since_ms: int, what: str, found: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Wait for an episode that began after a Unix time, as ``ottla why --format json`` has it; gives it.

        Raises:
            Failed: it took too long.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STEP_TIMEOUT_S):
                while True:
                    with contextlib.suppress(KafkaError):  # as in `_look`
                        told = json.loads(await self._admin.describe_group_history(group, "why", since_ms=since_ms))
                        episodes: list[dict[str, Any]] = told["episodes"]
                        if (one := next(filter(found, episodes), None)) is not None:
                            return one
                    await asyncio.sleep(LOOK_EVERY_S)
        raise self._late(f"group {group} {what}")

    def is_stable(self, group: str, *names: str) -> bool:
        return self.state(group) == "Stable" and self.clients(group) == sorted(names)

    def state(self, group: str) -> str:
        seen = self.groups.get(group)
        return seen.state if seen is not None else ""

    def clients(self, group: str) -> list[str]:
        """The client ids of the members that a group has just now."""
        seen = self.groups.get(group)
        return sorted(member.client_id for member in seen.members) if seen is not None else []

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something.

        Raises:
            Failed: it took too long.
        """
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                while not condition():
                    self._looked.clear()
                    await self._looked.wait()
        except TimeoutError:
            raise self._late(what) from None

    def _late(self, what: str) -> Failed:
        return Failed(f"waited {STEP_TIMEOUT_S:.0f} s for {what}", self.broker.log, self.directory / "logs")

    # -- meanwhile

    async def watch(self) -> None:
        """Until cancelled, see that nobody ends who should not.

        Raises:
            Failed: somebody did.
        """
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if not self.broker.alive:
                raise Failed(f"the broker ended with exit code {self.broker.exit_code}", self.broker.log)
            for actor in self.actors.values():
                if actor.process.exit_code is not None and not actor.expected:
                    raise Failed(f"{actor.name} ended with exit code {actor.process.exit_code}", actor.process.log)

    async def _look(self, admin: Admin) -> None:
        """Keep what is known fresh."""
        while True:
            began = time.monotonic()
            with contextlib.suppress(KafkaError):  # a busy machine; the next look is soon
                listed = await admin.list_groups()
                self.groups = await admin.describe_groups([one.group_id for one in listed])
            for actor in self.actors.values():
                for line in actor.events.lines():
                    actor.take(line)
            self._looked.set()
            await asyncio.sleep(max(0.0, began + LOOK_EVERY_S - time.monotonic()))

    async def _send(self, producer: Producer) -> None:
        """A record for every topic now and then, so that there is something to consume and to commit."""
        for number in itertools.count():
            for topic in self._topics:
                sent = await producer.send(topic, f"{topic} {number}".encode(), key=str(number).encode())
                sent.add_done_callback(asyncio.Future.exception)  # who consumes is what matters here
            await asyncio.sleep(SEND_EVERY_S)

    def _process(self, name: str, log: str, *arguments: str) -> Process:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        process = Process(name, logs / f"{log}.log", *arguments, alone=True)
        self._everyone.append(process)
        return process
