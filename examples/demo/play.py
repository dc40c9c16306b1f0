"""The script of the demo: what is done to the group, and what must come of it each time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.broker_log import BrokerLog
from examples.demo.guest import Attempt, attempts
from examples.demo.ledger import Ledger
from examples.demo.offsets import committed_and_ends
from examples.demo.processes import Failed, Process
from examples.demo.reports import Tail
from examples.demo.security import GUEST, OPERATOR, READER, SENDER, Security, properties
from examples.demo.view import MemberRow, Snapshot, View

TOPIC = "lines"
GROUP = "readers"
FIRST = (
    ("ottla-1", "ottla"),
    ("confluent-1", "confluent-kafka"),
    ("confluent-2", "confluent-kafka"),
    ("aiokafka-1", "aiokafka"),
)
LATE = ("ottla-2", "ottla")
LEAVES = "confluent-2"
KILLED = "ottla-1"
STAGES = 5
TICK_S = 0.1


@dataclass(frozen=True)
class Plan:
    """The options of a run.

    Attributes:
        stage_s: the time over which lines are spread, for each thing that is done to the group.
        deadline_s: the longest time for the whole run.
        step_timeout_s: the longest time for one step.
        settings: of the broker.
        secure: with TLS, SCRAM and rules.
    """

    lines: int
    directory: Path
    partitions: int = 12
    session_timeout_ms: int = 6_000
    stage_s: float = 6.0
    deadline_s: float = 115.0
    step_timeout_s: float = 60.0
    settings: tuple[str, ...] = ()
    secure: bool = False


@dataclass
class Member:
    """A member as the demo sees it, from its reports.

    Attributes:
        fate: how it ended, once the demo has ended it.
        remark: what else sets it apart.
        errors: those it reported, refused commits among them.
    """

    name: str
    kind: str
    process: Process
    positions: Tail
    events: Tail
    client: str = ""
    state: str = "starting"
    partitions: tuple[int, ...] = ()
    fate: str = ""
    remark: str = ""
    errors: list[str] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        """Take in one event that it reported."""
        event = json.loads(line)
        match event["event"]:
            case "started":
                self.client = event["client"]
                self.state = "consuming" if self.partitions else "joining"
            case "assigned":
                self.partitions = tuple(event["partitions"])
                self.state = "consuming"
            case "revoked":
                self.partitions = ()
                self.state = "joining"
            case "left":
                self.partitions = ()
                self.state = "left"
            case _:
                self.errors.append(f"{event['event']}: {event.get('error', '')}")


class Play:
    """One run. `run` raises `Failed` if the script cannot be followed to its end.

    Attributes:
        committed, log_ends: by partition, as asked for at the end.
        restart_s: the time for which the broker was away.
        generations_around_restart: the last one before it, and the one in which the members went on.
        security: None if everybody is let in.
        attempts: what those tried who may not.
        finished_at: when all was seen and committed, in Unix seconds; after it the members leave.
    """

    def __init__(self, plan: Plan, view: View) -> None:
        self.plan = plan
        self.view = view
        self.ledger = Ledger()
        self.log = BrokerLog(GROUP)
        self.members: dict[str, Member] = {}
        self.committed: dict[int, int] = {}
        self.log_ends: dict[int, int] = {}
        self.restart_s = 0.0
        self.generations_around_restart: tuple[int | None, int | None] = (None, None)
        self.finished_at: float | None = None
        self.attempts: list[Attempt] = []
        self.bootstrap = ""
        self.reports = plan.directory / "reports"
        self.reports.mkdir(parents=True)
        self.security = Security(plan.directory) if plan.secure else None
        self.broker = self._broker("127.0.0.1:0")
        self._sent = Tail(self.reports / "producer.positions")
        self._log_tail = Tail(self.broker.log)
        self._began = time.monotonic()
        self._stages_left = STAGES
        self._allowed = 0.0
        self._producer: Process | None = None
        self._told: int | None = None
        self._ticked = asyncio.Event()

    @property
    def generation(self) -> int | None:
        """The group's last one, by the broker's log."""
        return self.log.rebalances[-1].generation if self.log.rebalances else None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    async def run(self) -> None:
        """Follow the script, watching all processes meanwhile. All of them have ended afterwards.

        Raises:
            Failed: something did not happen in time, or a process ended that should not.
        """
        script, watch = asyncio.create_task(self._script()), asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(self.plan.deadline_s):
                done, _ = await asyncio.wait({script, watch}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except TimeoutError:
            raise Failed(f"not done within {self.plan.deadline_s:.0f} s", self.plan.directory) from None
        finally:
            script.cancel()
            watch.cancel()
            await asyncio.gather(script, watch, return_exceptions=True)
            await asyncio.gather(*(process.kill() for process in self._processes()))
            self.read_reports()

    # -- the script

    async def _script(self) -> None:
        note = self.view.note
        if self.security is not None:
            await self._ottla("users", "set", OPERATOR, "--data-dir", self._data)
        await self.broker.start()
        self.bootstrap = await self.broker.first_line(30)
        note(f"broker at {self.bootstrap}, topic {TOPIC!r} with {self.plan.partitions} partitions")
        if self.security is not None:
            await self._let_in(self.security)
        self._producer = await self._start("producer", "producer", "--lines", str(self.plan.lines))
        for name, kind in FIRST:
            await self._join(name, kind)
        note("four members start: " + ", ".join(name for name, _ in FIRST))
        note("  a new group first waits group.initial.rebalance.delay.ms, again with each that comes, as Kafka's does")
        await self._settled("the group to form")

        if self.security is not None:
            note("five clients try what they may not, while the group works")
            guest = properties(self.security.properties[GUEST])
            self.attempts = await asyncio.to_thread(attempts, self.bootstrap, TOPIC, guest)

        self._stages_left -= 1
        note(f"{LATE[0]} joins late: five members of three kinds")
        await self._join(*LATE, remark="joined late")
        await self._settled(f"{LATE[0]} to be assigned partitions")

        self._stages_left -= 1
        note(f"{LEAVES} leaves cleanly")
        await self._end(LEAVES, "left cleanly")
        await self._settled(f"the partitions of {LEAVES} to be assigned to others")

        self._stages_left -= 1
        note(f"{KILLED} is killed (SIGKILL): its session of {self.plan.session_timeout_ms / 1000:.0f} s must run out")
        await self._kill(KILLED)
        await self._settled(f"the partitions of {KILLED} to be assigned to others")

        self._stages_left -= 1
        before = self.generation
        await self._restart_broker()
        await self._settled("the members to go on after the restart")
        self.generations_around_restart = (before, self.generation)

        self._stages_left = 0
        note("all is done to the group; the rest of the lines follows")
        await self._until("every line to be sent", self._producer_done)
        await self._until("every line to be seen", lambda: self.ledger.lines_seen >= self.plan.lines)
        await self._all_committed()
        self.finished_at = time.time()
        note("every line is seen and committed; the members leave")
        await asyncio.gather(*(self._end(name, "stayed to the end") for name in self._present()))
        await self._ask_offsets()
        await self.broker.stop()

    async def _let_in(self, security: Security) -> None:
        """Make the users, and the rules that say what they may do: by the commands that an operator types."""
        for name in (SENDER, READER, GUEST):
            await self._ottla("users", "set", name, "-b", self.bootstrap)
        for rule in security.rules(TOPIC, GROUP):
            await self._ottla(*rule, "-b", self.bootstrap)
        self.view.note(f"TLS, and four users: {SENDER} may produce, {READER} may consume, {GUEST} may do nothing")

    async def _ottla(self, *arguments: str) -> None:
        assert self.security is not None
        self.view.note("$ ottla " + " ".join(arguments))
        more = ["--password-file", str(self.security.password_file(arguments[2]))] if arguments[0] == "users" else []
        environment = {} if "--data-dir" in arguments else self._environment(OPERATOR)
        name = "ottla " + " ".join(arguments[:2])
        command = Process(name, self._log_file("commands"), "ottla.cli", *arguments, *more, environment=environment)
        await command.start()
        await command.ended(30)

    def _environment(self, user: str) -> dict[str, str]:
        """Says to a process who it is."""
        return {} if self.security is None else {"OTTLA_COMMAND_CONFIG": str(self.security.properties[user])}

    async def _join(self, name: str, kind: str, remark: str = "") -> None:
        process = await self._start(
            name, "member", "--kind", kind, "--name", name, "--group", GROUP,
            "--session-timeout-ms", str(self.plan.session_timeout_ms),
        )  # fmt: skip
        positions, events = (Tail(self.reports / f"{name}.{what}") for what in ("positions", "events"))
        self.members[name] = Member(name, kind, process, positions, events, remark=remark)

    async def _end(self, name: str, fate: str) -> None:
        member = self.members[name]
        member.fate = fate
        code = await member.process.stop()
        self.read_reports()
        if code != 0 or member.state != "left":
            raise Failed(f"{name} did not leave cleanly (exit code {code})", member.process.log)

    async def _kill(self, name: str) -> None:
        member = self.members[name]
        member.fate = "killed with SIGKILL"
        await member.process.kill()
        self.read_reports()
        member.state, member.partitions = "killed", ()

    async def _restart_broker(self) -> None:
        self.view.note("the broker is restarted")
        began = time.monotonic()
        code = await self.broker.stop()
        if code != 0:
            raise Failed(f"the broker ended with exit code {code}", self.broker.log)
        self.broker = self._broker(self.bootstrap)
        await self.broker.start()
        await self.broker.first_line(30)
        self.restart_s = time.monotonic() - began
        self.view.note(f"the broker is back after {self.restart_s:.1f} s")

    # -- conditions

    async def _settled(self, what: str) -> None:
        """Every member owns partitions, together all of them, and has seen a line that was sent since."""
        present = self._present()
        everything = list(range(self.plan.partitions))

        def assigned() -> bool:
            owned = [self.members[name].partitions for name in present]
            return all(owned) and sorted(p for one in owned for p in one) == everything and self.log.current is None

        await self._until(what, assigned)
        ends = self.ledger.log_ends()
        await self._until(
            f"each of {', '.join(present)} to see lines",
            lambda: all(self.ledger.saw_beyond(name, ends) for name in present),
        )
        generation = self.generation
        words = f"generation {generation} goes on" if generation == self._told else f"generation {generation}"
        self._told = generation
        self.view.note(f"  {words}: {len(present)} members at work, each has seen new lines")

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self.plan.step_timeout_s):
                while not condition():
                    self._ticked.clear()
                    await self._ticked.wait()
        except TimeoutError:
            raise Failed(
                f"waited {self.plan.step_timeout_s:.0f} s for {what}", self.broker.log, self.plan.directory / "logs"
            ) from None

    async def _all_committed(self) -> None:
        async def wait() -> None:
            while self.committed != self.log_ends or not self.log_ends:
                await asyncio.sleep(0.25)
                await self._ask_offsets()

        try:
            await asyncio.wait_for(wait(), self.plan.step_timeout_s)
        except TimeoutError:
            raise Failed(
                f"committed offsets {self.committed} are not at the log ends {self.log_ends}", self.broker.log
            ) from None

    async def _ask_offsets(self) -> None:
        security = {} if self.security is None else properties(self.security.properties[READER])
        found = asyncio.to_thread(committed_and_ends, self.bootstrap, GROUP, TOPIC, self.plan.partitions, security)
        self.committed, self.log_ends = await found

    def _producer_done(self) -> bool:
        return self._producer is not None and self._producer.exit_code == 0

    def _present(self) -> list[str]:
        return [name for name, member in self.members.items() if member.state not in ("left", "killed")]

    # -- watching

    async def _watch(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self._let_send(now - last)
            last = now
            self.read_reports()
            self._check_processes()
            self.view.update(self.snapshot())
            self._ticked.set()

    def _let_send(self, seconds: float) -> None:
        """Spread the lines that are left over what is still to come, so that there is always something to consume."""
        if self._producer is None:
            return
        left = self.plan.lines - self._allowed
        if self._stages_left:
            self._allowed += left * min(seconds / (self._stages_left * self.plan.stage_s), 1)
        else:
            self._allowed = self.plan.lines
        self._producer.tell(str(int(self._allowed)))

    def read_reports(self) -> None:
        """Take in what the processes have written."""
        self.ledger.sent(self._sent.positions())
        for member in self.members.values():
            self.ledger.saw(member.name, member.positions.positions())
            for line in member.events.lines():
                member.take(line)
        self.log.read(self._log_tail.lines())

    def _check_processes(self) -> None:
        if self._producer is not None and self._producer.exit_code not in (None, 0):
            raise Failed(f"the producer ended with exit code {self._producer.exit_code}", self._producer.log)
        for member in self.members.values():
            if not member.process.alive and not member.fate:
                raise Failed(f"{member.name} ended with exit code {member.process.exit_code}", member.process.log)

    def snapshot(self) -> Snapshot:
        rows = tuple(
            MemberRow(one.name, one.kind, one.state, one.partitions, self.ledger.sightings[one.name])
            for one in self.members.values()
        )
        # A line may be seen before the producer has told that it was acknowledged.
        sent = max(self.ledger.lines_sent, self.ledger.lines_seen)
        return Snapshot(self.plan.lines, sent, self.ledger.lines_seen, rows)

    # -- processes

    @property
    def _data(self) -> str:
        return str(self.plan.directory / "data")

    def _broker(self, listen: str) -> Process:
        secured = () if self.security is None else self.security.settings
        where = ["--listen", listen] if self.security is None else ["--set", f"listeners=SASL_SSL://{listen}"]
        settings = [argument for setting in (*self.plan.settings, *secured) for argument in ("--set", setting)]
        return Process(
            "the broker", self._log_file("broker"),
            "ottla.cli", "serve", *where, "--data-dir", self._data,
            "--create-topic", f"{TOPIC}:{self.plan.partitions}", "--log-format", "json", *settings,
        )  # fmt: skip

    async def _start(self, name: str, module: str, *arguments: str) -> Process:
        process = Process(
            name, self._log_file(name),
            f"examples.demo.{module}", "--bootstrap", self.bootstrap, "--topic", TOPIC, "--reports", str(self.reports),
            *arguments, environment=self._environment(SENDER if module == "producer" else READER),
        )  # fmt: skip
        await process.start()
        return process

    def _log_file(self, name: str) -> Path:
        directory = self.plan.directory / "logs"
        directory.mkdir(exist_ok=True)
        return directory / f"{name}.log"

    def _processes(self) -> Iterable[Process]:
        # The members first: they have no reason to complain about a broker that is gone.
        yield from (member.process for member in self.members.values())
        if self._producer is not None:
            yield self._producer
        yield self.broker
