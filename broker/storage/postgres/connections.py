"""The connections of a node to its database: each is made again when it ends, and has one statement under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.engine import Unavailable
from ottla.broker.storage.postgres.database import Answer, Connect, Session, Statement

RECONNECT_MS: Final = 5
RETRY_MS: Final = 250
DEADLINES_MS: Final = {"H": 2_000, "M": 5_000, "R": 5_000, "L": 5_000, "F0": 10_000, "F1": 10_000}
"""How long each connection waits for an answer before it is let go, by its role."""

Then = Callable[[Answer | None], None]


class Link:
    """One of them. What was sent when it ended is told None: nobody knows what became of it.

    Attributes:
        on_connected: told before anything is sent.
        on_lost: told when it ended, however it did.
        session: None while there is none.
    """

    def __init__(self, role: str, connect: Connect, clock: Clock, moved_to: Callable[[object, Link], None]) -> None:
        self.role = role
        self.on_connected: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None
        self.session: Session | None = None
        self.is_closed = False
        self._connect = connect
        self._clock = clock
        self._moved_to = moved_to
        self._queue: deque[tuple[Statement, Then]] = deque()
        self._sent: Then | None = None
        self._late: TimerHandle | None = None
        self._turn = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way, nor waits."""
        return self._sent is None and not self._queue

    def connect(self) -> None:
        """Connect, and go on trying."""
        if not self.is_closed:
            self._connect(self.role, self._connected)

    def ask(self, statement: Statement, then: Then) -> None:
        """Send a statement when those before it are answered."""
        if self.is_closed:
            then(None)
            return
        self._queue.append((statement, then))
        self._go_on()

    async def answer(self, statement: Statement) -> Answer:
        """Send a statement that may be carried out twice, again and again until it is answered.

        Raises:
            Unavailable: the connection was closed.
        """
        while not self.is_closed:
            future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
            self.ask(statement, partial(_tell, future))
            if (answer := await future) is not None:
                return answer
        raise Unavailable("the connections to the database are closed")

    def abort(self) -> None:
        """Let go of the connection, and make another."""
        if (session := self.session) is not None:
            session.abort()
            self._lost(session)

    def close(self) -> None:
        """Let go of it for good. Whatever waits is told None."""
        self.is_closed = True
        self.abort()
        waiting, self._queue = self._queue, deque()
        for _, then in waiting:
            then(None)

    def _connected(self, session: Session | None) -> None:
        if session is None or self.is_closed:
            if session is not None:
                session.abort()
            else:
                self._again(RETRY_MS)
            return
        session.on_lost = lambda: self._lost(session)
        self._moved_to(session.server, self)
        self.session = session
        self.on_connected()
        self._go_on()

    def _again(self, after_ms: int) -> None:
        self._clock.call_at(self._clock.monotonic_ms() + after_ms, self.connect)

    def _go_on(self) -> None:
        if self.session is None or self._sent is not None or not self._queue:
            return
        statement, self._sent = self._queue.popleft()
        self._turn += 1
        self._late = self._clock.call_at(self._clock.monotonic_ms() + DEADLINES_MS[self.role], self.abort)
        self.session.send(statement, partial(self._answered, self._turn))

    def _answered(self, turn: int, answer: Answer) -> None:
        if turn != self._turn or self._sent is None:
            return
        if answer.is_poisoned:
            self.abort()
            return
        self._over(answer)
        self._go_on()

    def _over(self, answer: Answer | None) -> None:
        if self._late is not None:
            self._late.cancel()
        then, self._sent, self._late = self._sent, None, None
        if then is not None:
            then(answer)

    def _lost(self, session: Session) -> None:
        if session is not self.session:
            return
        self.session = None
        self._turn += 1
        self.on_lost()
        self._over(None)
        if not self.is_closed:
            self._again(RECONNECT_MS)


def _tell(future: asyncio.Future[Answer | None], answer: Answer | None) -> None:
    if not future.done():  # who waited may have gone
        future.set_result(answer)


class Connections:
    """All of them.

    Attributes:
        h: for beats. m: for claims, the catalog and whatever changes logs. r: for loads and pages. look: for what must
            not wait behind those. f0, f1: the lanes of internal logs and of all others.
    """

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._server: object = None
        self.h, self.m, self.r, self.look, self.f0, self.f1 = self._links = [
            Link(role, connect, clock, self._moved_to) for role in DEADLINES_MS
        ]

    def open(self) -> None:
        """Connect all but the one for beats, which waits until the node is registered."""
        for link in self._links:
            if link is not self.h:
                link.connect()

    def close(self) -> None:
        """Let go of all of them for good."""
        for link in self._links:
            link.close()

    @property
    def is_closed(self) -> bool:
        """Whether they were closed."""
        return self.h.is_closed

    def _moved_to(self, server: object, link: Link) -> None:
        """All talk to one server: those to the one before end before the first to another is used."""
        if server is not self._server:
            self._server = server
            for other in self._links:
                if other is not link and other.session is not None and other.session.server is not server:
                    other.abort()
