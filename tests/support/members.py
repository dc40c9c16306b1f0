"""Members of consumer groups behind one face, whatever client they are made of.

A `Member` polls in a thread of its own and notes what it saw and what it was given. `ProcessMember` is the same in a
process of its own, so that it can be killed.
"""

import asyncio
import json
import queue
import signal
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from tests.support.kit import Place
from tests.support.processes import Child
from tests.support.waiting import wait_for

SESSION_TIMEOUT_MS = 6_000
"""The shortest that Kafka allows by default."""


class Seen(NamedTuple):
    """A record as a member got it."""

    topic: str
    partition: int
    offset: int
    value: str
    at: float


class Change(NamedTuple):
    """A call of a member's rebalance listener: ``assigned``, ``revoked`` or ``lost``."""

    kind: str
    places: frozenset[Place]
    at: float


@dataclass(frozen=True)
class Role:
    """The task of a member. All fields can be written as JSON.

    Args:
        assignor: ``range``, ``roundrobin`` or ``cooperative-sticky``; empty for the client's own default.
        auto_commit: the client's default; without it the member commits when it is told to.
    """

    kind: str
    bootstrap: str
    group: str
    topics: tuple[str, ...]
    name: str
    instance_id: str = ""
    assignor: str = ""
    auto_commit: bool = True
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    options: dict[str, Any] = field(default_factory=dict)


def member(role: Role) -> "Member":
    """A member of the role's kind of client, not started yet."""
    made: Member = import_module(f"tests.support.clients.{role.kind.replace('-', '_')}").MEMBER(role)
    return made


def python_options(role: Role, assignors: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a consumer of a client in pure Python: but for the session timeout and the start at the beginning
    the client's defaults.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": role.bootstrap,
        "group_id": role.group,
        "client_id": role.name,
        "session_timeout_ms": role.session_timeout_ms,
        "auto_offset_reset": "earliest",
    }
    if role.instance_id:
        options["group_instance_id"] = role.instance_id
    if role.assignor:
        options["partition_assignment_strategy"] = [assignors[role.assignor]]
    if not role.auto_commit:
        options["enable_auto_commit"] = False
    return options | role.options


def listener(base: type, told: "Watched") -> Any:
    """A client's rebalance listener that passes on what it is called with."""

    class Listener(base):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            told.changed("assigned", map(tuple, assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            told.changed("revoked", map(tuple, revoked))

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            told.changed("lost", map(tuple, lost))

    return Listener()


class Watched:
    """The observed state of a member, in this process or in another."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.seen: list[Seen] = []
        self.changes: list[Change] = []
        self.owned: frozenset[Place] = frozenset()
        self.before_giving_up: Callable[[], object] = lambda: None
        """Called in the rebalance listener: partitions are being revoked, and the rebalance waits for this."""
        self.troubles: list[str] = []

    def saw(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        self.seen.append(Seen(topic, partition, offset, (value or b"").decode(), time.monotonic()))

    def saw_all(self, batches: Mapping[Any, Iterable[Any]]) -> None:
        """Records by partition, as the clients in pure Python give them."""
        for records in batches.values():
            for record in records:
                self.saw(record.topic, record.partition, record.offset, record.value)

    def changed(self, kind: str, places: Iterable[Place]) -> None:
        moved = frozenset(places)
        self.owned = self.owned | moved if kind == "assigned" else self.owned - moved
        self.changes.append(Change(kind, moved, time.monotonic()))
        if kind == "revoked" and moved:
            self.before_giving_up()

    def trouble(self, what: object) -> None:
        self.troubles.append(f"{type(what).__name__}: {what}"[:500])

    def __str__(self) -> str:
        changes = [
            (change.kind, sorted(change.places), round(change.at - self.changes[0].at, 2)) for change in self.changes
        ]
        text = f"{self.role.name} ({self.role.kind}): owns {sorted(self.owned)}, saw {len(self.seen)}; {changes[-8:]}"
        return text + f"; TROUBLES {self.troubles[-5:]}" if self.troubles else text


class Member(Watched, ABC):
    """A consumer that polls in a thread until it is stopped.

    Subclasses run their client in `_run`: they poll until `_stopping` is set, answer what was asked between two polls,
    and close the client as its users do, which makes a dynamic member leave the group.
    """

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        self._stopping = threading.Event()
        self._asked: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._guard, name=role.name, daemon=True)

    def start(self) -> "Member":
        self._thread.start()
        return self

    def begin_stop(self) -> None:
        """Have the client closed, without waiting for it."""
        self._stopping.set()

    def stop(self) -> None:
        """Close the client, and wait until it is closed."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join(60)
            assert not self._thread.is_alive(), f"{self} does not close"
        self.owned = frozenset()

    def ask(self, what: Callable[[Any], Any], timeout_s: float = 30) -> Any:
        """Have something done with the client, by the thread that it belongs to, and give the result."""
        future: Future[Any] = Future()
        self._asked.put((what, future))
        return future.result(timeout_s)

    @abstractmethod
    def commit(self) -> None:
        """Commit what was seen, and wait for the answer."""

    @abstractmethod
    def _run(self) -> None: ...

    def _answer(self, client: Any) -> None:
        while not self._asked.empty():
            what, future = self._asked.get()
            try:
                future.set_result(what(client))
            except BaseException as error:
                future.set_exception(error)

    def _guard(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.trouble(error)


class AsyncMember(Member):
    """A member whose client is one of asyncio's, on a loop of its own. Subclasses poll in `_poll`."""

    def commit(self) -> None:
        self.ask(lambda consumer: consumer.commit())

    @abstractmethod
    async def _poll(self) -> None: ...

    def _run(self) -> None:
        asyncio.run(self._poll())

    async def _answer_async(self, client: Any) -> None:
        while not self._asked.empty():
            what, future = self._asked.get()
            try:
                future.set_result(await what(client))
            except BaseException as error:
                future.set_exception(error)


class ProcessMember(Watched):
    """A member in a process of its own, which tells what happens line by line.

    Args:
        command: a program that takes the role as its last argument and behaves as tests/support/member_process.py does.
    """

    def __init__(
        self, role: Role, command: Sequence[str] = (sys.executable, "-m", "tests.support.member_process")
    ) -> None:
        super().__init__(role)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - it lives as long as the process
        self._ready = threading.Event()
        self._committed = 0
        self._child = Child([*command, json.dumps(asdict(role))], self._heard, self._errors)

    def start(self) -> "ProcessMember":
        """Let it join. Imports are over when this returns, so several start at the same time."""
        self._wait(self._ready.is_set, f"the process of {self.role.name}")
        self._tell("start")
        return self

    def commit(self) -> None:
        before = self._committed
        self._tell("commit")
        self._wait(lambda: self._committed > before, f"a commit of {self.role.name}")

    def stop(self) -> None:
        """Have it close its client, and wait for its end."""
        if self._child.runs:
            self._tell("stop")
            self._end()

    def pause(self) -> None:
        """SIGSTOP: its sockets stay open, and nothing of it runs."""
        self._child.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL: its sockets close, and it says goodbye to nobody."""
        self._child.process.kill()
        self._end()

    def _end(self) -> None:
        ended = self._child.wait(60)
        self._child.kill()
        self.owned = frozenset()
        assert ended, f"{self} does not end\n{self._log()}"

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def alive() -> bool:
            assert condition() or self._child.runs, f"{self.role.name} has ended\n{self._log()}"
            return condition()

        wait_for(alive, what, show=self._log)

    def _tell(self, word: str) -> None:
        try:
            self._child.say(word)
        except BrokenPipeError:
            raise AssertionError(f"{self.role.name} has ended\n{self._log()}") from None

    def _heard(self, line: str) -> None:
        if not line.endswith("\n"):
            return
        told = json.loads(line)
        match told["what"]:
            case "ready":
                self._ready.set()
            case "saw":
                self.seen.append(Seen(*told["seen"]))
            case "changed":
                self.changed(told["kind"], map(tuple, told["places"]))
            case "trouble":
                self.troubles.append(told["text"])
            case "committed":
                self._committed += 1

    def _log(self) -> str:
        self._errors.seek(0)
        return f"{self}\n{self._errors.read()[-3000:]}"
