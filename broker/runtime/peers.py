"""What this node asks the others: a connection for each peer and kind of question, made when it is needed first.

A broker serves one request of a connection at a time, so a line has one open: what is to be asked meanwhile, or within
one turn of the event loop, goes together with the next. Kinds of questions have lines of their own, as with Kafka: one
of them may wait at the other node for what another one brings about.

Nothing is tried twice. Whoever asks hears that there was no answer, and has ways of his own to come again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.logger import Logger
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ProtocolError
from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.schema import Message

TIMEOUT_MS = 2_000
BACKOFF_MS, BACKOFF_MAX_MS = 50, 1_000
IDLE_MS = 60_000

Q = TypeVar("Q")
A = TypeVar("A")


class Connection(Protocol):
    """A connection to another node, as `ottla.broker.net.peer` has it."""

    @property
    def is_open(self) -> bool: ...
    async def ask(self, key: ApiKey, version: int, body: bytes) -> bytes: ...
    def close(self) -> None: ...


Connect = Callable[[str, int], Awaitable[Connection]]


class Kind(NamedTuple, Generic[Q, A]):
    """A kind of question.

    Attributes:
        request: puts some questions into one request.
        answers: takes the answer of each out of the response, in their order.
        most: so many questions are put into one request.
    """

    key: ApiKey
    version: int
    request: Callable[[Sequence[Q]], Message]
    answers: Callable[[Sequence[Q], Any], Sequence[A]]
    most: int = 1_000


class Peers:
    """See the module.

    Args:
        connect: to a host and port.
        endpoint: host and port of a node, None of one that is not up.
        clock: the real one.
    """

    def __init__(
        self, connect: Connect, endpoint: Callable[[int], tuple[str, int] | None], clock: Clock, report: Logger
    ) -> None:
        self._connect = connect
        self._endpoint = endpoint
        self._clock = clock
        self._report = report
        self._lines: dict[tuple[int, ApiKey], _Line[Any, Any]] = {}
        self._is_stopped = False

    def ask(self, node_id: int, kind: Kind[Q, A], question: Q, then: Callable[[A | None], None]) -> None:
        """Ask another node; ``then`` is called later with the answer, or with None if none comes."""
        if self._is_stopped:
            then(None)
            return
        line = self._lines.get((node_id, kind.key))
        if line is None:
            line = _Line(node_id, kind, self._connect, self._endpoint, self._clock, self._report)
            self._lines[node_id, kind.key] = line
        line.put(question, then)

    async def stop(self) -> None:
        """Close all connections; whoever waits hears that there is no answer."""
        self._is_stopped = True
        for line in self._lines.values():
            await line.stop()


@dataclass(slots=True, eq=False)
class _Line(Generic[Q, A]):
    """The questions of one kind to one peer."""

    node_id: int
    kind: Kind[Q, A]
    connect: Connect
    endpoint: Callable[[int], tuple[str, int] | None]
    clock: Clock
    report: Logger
    waiting: deque[tuple[Q, Callable[[A | None], None]]] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None
    connection: Connection | None = None
    connected_to: tuple[str, int] | None = None
    idle: TimerHandle | None = None
    backoff_ms: int = 0
    not_before_ms: int = 0

    def put(self, question: Q, then: Callable[[A | None], None]) -> None:
        self.waiting.append((question, then))
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        self._tell([then for _, then in self.waiting], None)
        self.waiting.clear()
        self._close()

    async def _run(self) -> None:
        """Ask until nothing is left to be asked."""
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None
        while self.waiting:
            some = list(islice(self.waiting, self.kind.most))
            answers = await self._ask([question for question, _ in some])
            for _ in some:
                self.waiting.popleft()
            self._tell([then for _, then in some], answers)
        self.task = None
        if self.connection is not None:
            self.idle = self.clock.call_at(self.clock.monotonic_ms() + IDLE_MS, self._close)

    def _tell(self, thens: Sequence[Callable[[A | None], None]], answers: Sequence[A] | None) -> None:
        for place, then in enumerate(thens):
            try:
                then(None if answers is None else answers[place])
            except Exception:  # a bug in what one makes of its answer must not keep the others from theirs
                self.report.error("the answer of another node could not be used", node=self.node_id, exc_info=True)

    async def _ask(self, questions: Sequence[Q]) -> Sequence[A] | None:
        endpoint = self.endpoint(self.node_id)
        if endpoint is None or self.clock.monotonic_ms() < self.not_before_ms:
            return None
        kind = self.kind
        row = api(kind.key)
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                connection = await self._connected(endpoint)
                body = row.request.layout(kind.version).encode(kind.request(questions))
                answer = row.response.layout(kind.version).decode(await connection.ask(kind.key, kind.version, body))
                answers = kind.answers(questions, answer)
        except (OSError, EOFError, TimeoutError, ProtocolError, AuthenticationFailed) as error:
            self._failed(error)
            return None
        except Exception:  # a bug of ours: who waits must not wait for ever
            self.report.error("another node could not be asked", node=self.node_id, exc_info=True)
            self._close()
            return None
        self.backoff_ms = 0
        return answers

    async def _connected(self, endpoint: tuple[str, int]) -> Connection:
        connection = self.connection
        if connection is None or not connection.is_open or endpoint != self.connected_to:
            self._close()
            connection = self.connection = await self.connect(*endpoint)
            self.connected_to = endpoint
        return connection

    def _failed(self, error: Exception) -> None:
        self._close()
        if not self.backoff_ms:  # once, until it answers again
            why = str(error) or type(error).__name__
            self.report.warning("Another node does not answer", node=self.node_id, api=self.kind.key.name, reason=why)
        self.backoff_ms = min(2 * self.backoff_ms or BACKOFF_MS, BACKOFF_MAX_MS)
        self.not_before_ms = self.clock.monotonic_ms() + self.backoff_ms

    def _close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None
