"""Plays a failure of `ottla.workbench.failures` with an embedded broker and a cast of clients.

The broker's clock stands still but where the file moves it, so that it does not matter how fast the machine is. Clients
live in real time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from multiprocessing.connection import wait as wait_for_any
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.logger import Silent
from ottla.clients.errors import KafkaError
from ottla.observe.why.plain import count, duration, listed
from ottla.testing.broker import Broker
from ottla.testing.cast import Actor, Cast, Part, Sight, prepare
from ottla.testing.clock import UNITS_MS
from ottla.testing.fault import Fault
from ottla.testing.verdict import Finding, Sights, findings, seen, summary
from ottla.workbench.failures import Advance, Failure, Step, Wait

if TYPE_CHECKING:
    from ottla.observe.snapshot import GroupState, MemberState
    from ottla.observe.why.model import Episode

OPTIONS: dict[str, Any] = {
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 100,
    "fetch.max.wait.ms": 50,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "partition.assignment.strategy": "range",
    "request.timeout.ms": 2_000,
}
"""What a consumer has unless its file says otherwise: it hears of everything soon, and commits when told to."""
CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
PATIENCE_S = 20.0
SETTLE_S = 5.0
"""The longest, in real time, that a step waits; and what must be seen in the end."""
LOOK_S = 0.005
_REST_OF_ID = re.compile("(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a member id so much is left out that a line can be read."""
RECORD_BYTES = 1_000
"""Records are so large that what damages an answer with one damages the record."""


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a consumer. With the protocol ``consumer`` clients refuse what the broker decides."""
    is_modern = given.get("group.protocol") == "consumer"
    return {key: value for key, value in OPTIONS.items() if not (is_modern and key in CLASSIC_ONLY)} | given


class Stuck(Exception):
    """A step could not be done; the message says what was waited for, and how things stood."""


class Line(NamedTuple):
    """Something that happened.

    Attributes:
        at_ms: on the broker's clock, since it started.
        who: a role, ``broker``, or empty for a step of the file.
    """

    at_ms: int
    who: str
    text: str


class Outcome(NamedTuple):
    """What came of a failure.

    Attributes:
        saw: by role, in words, what its client saw in all.
        episodes: what happened to the group, as ``ottla why`` has it.
        stuck: why it did not come to its end; empty if it did.
    """

    saw: dict[str, str]
    episodes: list[Episode]
    findings: list[Finding]
    stuck: str

    @property
    def is_right(self) -> bool:
        """Whether the failure showed itself as its file says."""
        return not self.stuck and all(one.is_so for one in self.findings)


def play(failure: Failure, cast: Cast, note: Callable[[Line], None] = lambda line: None) -> Outcome:
    """Let a failure happen.

    Args:
        note: called with all that happens, in order.
    """
    prepare(cast)
    lines = _GroupLines(failure.group)
    broker = Broker(failure.settings, topics=failure.topics, log=lines).start()
    try:
        broker.clock.freeze()
        return _Player(failure, cast, broker, lines, note).play()
    finally:
        broker.stop()


class _GroupLines(Silent):
    """A broker's log, of which only what is about a group is kept."""

    def __init__(self, group_id: str) -> None:
        self.new: list[str] = []
        self._group_id = group_id

    def info(self, event: str, **fields: Any) -> None:
        if fields.get("group_id") == self._group_id:
            self.new.append(_REST_OF_ID.sub("", event))


class _Player:
    def __init__(
        self, failure: Failure, cast: Cast, broker: Broker, lines: _GroupLines, note: Callable[[Line], None]
    ) -> None:
        self._failure = failure
        self._cast = cast
        self._broker = broker
        self._group = broker.group(failure.group)
        self._lines = lines
        self._note = note
        self._began = broker.clock.now
        self._actors: dict[str, Actor] = {}
        self._sights = Sights()
        self._faults: dict[str, Fault] = {}
        self._produced = 0
        self._bring_back: Callable[[], None]

    def play(self) -> Outcome:
        """Take all steps, and see what came of them."""
        stuck = ""
        try:
            for step in self._failure.steps:
                if text := _in_words(step):
                    self._tell("", text)
                self._take(step)
                self._hear()
            self._settle()
        except (Stuck, TimeoutError, KafkaError) as error:
            stuck = str(error)
        finally:
            for actor in self._actors.values():
                actor.kill()  # what they would see now does not belong to the failure
        saw = {role: summary(self._sights.of(role)) for role in self._failure.roles}
        return Outcome(saw, self._episodes(), self._findings(), stuck)

    # steps

    def _take(self, step: Step) -> None:
        broker, given = self._broker, step.given
        match step.word:
            case "start":
                for role in step.roles:
                    self._actors[role] = self._new_actor(role)
            case "stop" | "kill" | "freeze" | "thaw":
                for role in step.roles:
                    self._move(step.word, role)
            case "work" | "poll" | "commit" | "begin_commit" | "begin" | "end":
                for role in step.roles:
                    self._actor(role).ask(step.word.removeprefix("begin_"))
                if step.word != "begin_commit":
                    self._wait(Wait(done=step.roles))
            case "send":
                self._actor(given.role).ask("send", given.topic, self._values(given.records))
                self._wait(Wait(done=step.roles))
            case "produce":
                for topic, number in given.items():
                    self._produce(topic, number)
            case "wait":
                self._wait(given)
            case "fault" | "release" | "remove":
                self._fault(step.word, given)
            case "advance":
                self._advance(given)
            case "pace":
                broker.clock.scale(given) if given else broker.clock.freeze()
            case "evict":
                for role in step.roles:
                    self._group.evict(self._member(role).member_id)
            case "create_topic" | "delete_topic":
                broker.call(self._change_topics(step))
            case _:
                broker.run(lambda: self._on_the_workbench(step))

    def _new_actor(self, role: str) -> Actor:
        failure = self._failure
        is_consumer = role in failure.consumers
        options = _options(failure.consumers[role]) if is_consumer else failure.producers[role]
        part = Part(role, failure.group, tuple(failure.topics), self._broker.bootstrap_servers, options)
        return Actor(self._cast.consumer if is_consumer else self._cast.producer, part)

    def _move(self, word: str, role: str) -> None:
        actor = self._actor(role)
        match word:
            case "stop":
                actor.stop()
            case "kill":
                actor.kill()
                self._sights.add(role, Sight("closed"))  # it owns nothing any more
            case "freeze":
                actor.freeze()
            case _:
                actor.thaw()

    def _actor(self, role: str) -> Actor:
        actor = self._actors.get(role)
        if actor is None or not actor.is_alive:
            raise Stuck(f"role {role} does not run: start it first")
        return actor

    def _values(self, number: int) -> list[bytes]:
        first, self._produced = self._produced, self._produced + number
        return [f"record {at}".ljust(RECORD_BYTES).encode() for at in range(first, first + number)]

    def _produce(self, topic: str, number: int) -> None:
        partitions = self._broker.topics[topic]
        values = self._values(number)
        for partition in range(partitions):
            self._broker.produce(topic, values[partition::partitions], partition=partition)

    def _fault(self, word: str, given: Any) -> None:
        match word:
            case "fault":
                rule = {key: self._meant(value) for key, value in given.items()}
                self._faults[given["name"]] = self._broker.fault(rule.pop("api"), **rule)
            case "release":
                self._faults[given].release()
            case _:
                self._faults[given].remove()

    def _meant(self, value: Any) -> Any:
        """A value of a rule: ``$b`` is the member id of role b."""
        return self._member(value[1:]).member_id if isinstance(value, str) and value.startswith("$") else value

    def _on_the_workbench(self, step: Step) -> None:
        bench = self._broker.workbench
        match step.word:
            case "pause":
                bench.pause(step.given)
            case "resume":
                bench.resume(step.given)
            case "restart":
                bench.restart(step.given)
            case _ if step.given == "away":
                self._bring_back = bench.move_coordinator(self._failure.group, None)
            case _:
                self._bring_back()

    async def _change_topics(self, step: Step) -> None:
        from ottla.clients import Admin

        async with Admin(**self._broker.connection) as admin:
            if step.word == "create_topic":
                await admin.create_topics(step.given)
            else:
                await admin.delete_topics([step.given])

    # time

    def _advance(self, by: Advance) -> None:
        clock = self._broker.clock
        if by.hold:
            clock.advance(**by.amount, hold=True)
            return
        left_ms = sum(UNITS_MS[unit] * number for unit, number in by.amount.items())
        while left_ms > 0:
            # So short that whoever lives is heard of within its session.
            step_ms = min([left_ms, *(max(one.session_timeout_ms // 3, 1) for one in self._living(by.silent))])
            clock.advance(ms=step_ms)
            left_ms -= step_ms
            self._until(
                lambda: not self._unheard(by.silent),
                lambda: f"to hear of {listed(self._unheard(by.silent))}: name in `silent` who is not heard of",
            )

    def _living(self, silent: Iterable[str]) -> list[MemberState]:
        """The members of whom something is heard."""
        quiet = {*silent, *(role for role, actor in self._actors.items() if actor.is_frozen or not actor.is_alive)}
        return [one for one in self._members() if one.client_id not in quiet]

    def _unheard(self, silent: Iterable[str]) -> list[str]:
        """Those of whom nothing was heard for a while. Whoever waits for an answer has no session that ends."""
        living = self._living(silent)
        return [one.client_id for one in living if not one.waits_for and one.heard_ms * 4 > one.session_timeout_ms]

    # waiting

    def _wait(self, wanted: Wait) -> None:
        sights = self._sights
        state = wanted.state or ("Stable" if wanted.members else None)

        def met() -> bool:
            found = self._found()
            if state is not None and state != (found.state if found is not None else "Dead"):
                return False
            if wanted.members is not None and wanted.members != (len(found.members) if found is not None else 0):
                return False
            if wanted.lag is not None and ((lag := self._group.lag) is None or lag > wanted.lag):
                return False
            if wanted.fault is not None and self._faults[wanted.fault].hits < wanted.hits:
                return False
            return (
                all(sights.read(role) >= number for role, number in wanted.read.items())
                and all(len(sights.errors(role)) >= number for role, number in wanted.errors.items())
                and all(len(sights.owned(role)) == number for role, number in wanted.owns.items())
                and not any(self._actors[role].asked for role in wanted.done)
            )

        self._until(met, lambda: f"for {_wanted(wanted)}")

    def _until(self, met: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        self._hear()
        while not met():
            if time.monotonic() >= deadline:
                raise Stuck(f"waited {PATIENCE_S:g} s {what()}; {self._state()}")
            self._hear(LOOK_S)

    def _hear(self, patience_s: float = 0) -> None:
        """Take in what happened, and tell it."""
        if patience_s:
            wires = [one.wire for one in self._actors.values() if one.is_alive and not one.is_frozen]
            wait_for_any(wires, patience_s) if wires else time.sleep(patience_s)
        lines, self._lines.new = self._lines.new, []
        for line in lines:
            self._tell("broker", line)
        for role, actor in self._actors.items():
            for sight in actor.hear():
                self._sights.add(role, sight)
                if text := seen(sight):
                    self._tell(role, text)

    def _tell(self, who: str, text: str) -> None:
        since = self._broker.clock.now - self._began
        self._note(Line(round(since / timedelta(milliseconds=1)), who, text))

    def _state(self) -> str:
        """How things stand."""
        sights = self._sights
        roles = [
            f"{role} has {count(len(sights.owned(role)), 'partition')}, read {sights.read(role)}"
            for role in self._actors
        ]
        faults = [f"the fault {name!r} fired {count(fault.hits, 'time')}" for name, fault in self._faults.items()]
        return "; ".join([repr(self._group).strip("<>"), *roles, *faults])

    def _found(self) -> GroupState | None:
        view, group_id = self._broker.observatory.view, self._failure.group
        return self._broker.run(lambda: view.group(group_id))

    def _members(self) -> list[MemberState]:
        found = self._found()
        return [] if found is None else found.members

    def _member(self, role: str) -> MemberState:
        found = [one for one in self._members() if one.client_id == role]
        if not found:
            raise Stuck(f"role {role} is no member of the group: wait until it is; {self._state()}")
        return found[-1]

    # what came of it

    def _episodes(self) -> list[Episode]:
        history, group_id = self._broker.observatory.history, self._failure.group
        return self._broker.run(lambda: history.episodes(group_id))

    def _findings(self) -> list[Finding]:
        offsets = {f"{place.topic}-{place.partition}": offset for place, offset in self._group.offsets.items()}
        hits = {name: fault.hits for name, fault in self._faults.items()}
        return list(findings(self._failure.expect, self._cast.name, self._sights, self._episodes(), offsets, hits))

    def _settle(self) -> None:
        """Give what must be seen a moment to be seen."""
        deadline = time.monotonic() + SETTLE_S
        while not all(one.is_so for one in self._findings()) and time.monotonic() < deadline:
            self._hear(LOOK_S)


# words


def _in_words(step: Step) -> str:
    """A step as it is told; empty for one that only waits."""
    given, who = step.given, listed(step.roles)
    are = "is" if len(step.roles) == 1 else "are"
    match step.word:
        case "start":
            return f"{who} {are} started"
        case "stop":
            return f"{who} {are} closed"
        case "kill":
            return f"{who} {are} killed"
        case "freeze":
            return f"{who} {are} frozen"
        case "thaw":
            return f"{who} {are} thawed"
        case "work":
            return f"{who} {are} to be busy with the next records, and not to poll"
        case "poll":
            return f"{who} {are} to poll again"
        case "commit" | "begin_commit":
            return f"{who} {are} to commit"
        case "begin":
            return f"{who} {are} to begin a transaction"
        case "end":
            return f"{who} {are} to commit the transaction"
        case "send":
            return f"{who} {are} to send {count(given.records, 'record')} to {given.topic}"
        case "produce":
            return listed([f"{count(number, 'record')} for {topic}" for topic, number in given.items()])
        case "fault":
            rule = [value if key == "api" else f"{key} {value}" for key, value in given.items() if key != "name"]
            return f"the fault {given['name']!r} is set: {', '.join(map(str, rule))}"
        case "release" | "remove":
            return f"the fault {given!r} {'lets go' if step.word == 'release' else 'is over'}"
        case "advance":
            ms = sum(UNITS_MS[unit] * number for unit, number in given.amount.items())
            return f"{duration(round(ms))} pass"
        case "pace":
            return f"time goes {given:g} times as fast as it does" if given else "time stands still"
        case "pause" | "resume":
            return f"group {given} is {step.word}d"
        case "evict":
            return f"{who} {are} removed by an administrator"
        case "restart":
            return f"the broker restarts, and is away for {given:g} s"
        case "coordinator":
            return f"the coordinator of the group is {given}"
        case "create_topic":
            return listed([f"topic {topic} is created with {count(n, 'partition')}" for topic, n in given.items()])
        case "delete_topic":
            return f"topic {given} is deleted"
    return ""


def _wanted(wait: Wait) -> str:
    """What is waited for."""
    parts = [f"{key} {value}" for key, value in (("state", wait.state), ("members", wait.members), ("lag", wait.lag))
             if value is not None]  # fmt: skip
    parts += [f"{role} to read {count(number, 'record')}" for role, number in wait.read.items()]
    parts += [f"{role} to have {count(number, 'partition')}" for role, number in wait.owns.items()]
    parts += [f"{role} to be told of {count(number, 'error')}" for role, number in wait.errors.items()]
    parts += [f"the fault {wait.fault!r} to fire {count(wait.hits, 'time')}"] if wait.fault is not None else []
    parts += [f"{listed(wait.done)} to have done what was asked"] if wait.done else []
    return ", ".join(parts)
