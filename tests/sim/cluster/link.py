"""A connection of a simulated node that is made again when it ends, with the statements that wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.storage.postgres.database import Answer, Statement
from ottla.testing.simulated.database import SimDatabase, SimSession
from ottla.testing.simulated.server import Server

CONNECT_MS = 5
RETRY_MS = 250


class Owner(Protocol):
    """What a link wants of its node."""

    node_id: int
    database: SimDatabase
    server: Server | None

    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None: ...

    def enter(self, call: Callable[..., None], *args: Any) -> None: ...

    def moved_to(self, server: Server, link: Link) -> None:
        """A connection to another server was made: those to the one before end before this one is used."""


class Link:
    """See the module. What was sent when the connection ended is told None: nobody knows what became of it.

    Attributes:
        on_connected: told before anything is sent.
        on_lost: told when it ended, however it did.
        deadline_ms: after so long without an answer the connection is let go.
    """

    def __init__(self, owner: Owner, role: str, deadline_ms: int) -> None:
        self.role = role
        self.deadline_ms = deadline_ms
        self.on_connected: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None
        self.session: SimSession | None = None
        self._owner = owner
        self._queue: deque[tuple[Statement, Callable[[Answer | None], None]]] = deque()
        self._sent: Callable[[Answer | None], None] | None = None
        self._turn = 0

    def connect(self) -> None:
        """Connect, and go on trying."""
        session = self._owner.database.connect(self._owner.node_id, self.role)
        if session is None:
            self._owner.after(RETRY_MS, self.connect)
            return
        session.on_lost = lambda: self._owner.enter(self._lost, session)
        if self._owner.server is not session.server:
            self._owner.moved_to(session.server, self)
        self.session = session
        self.on_connected()
        self._go_on()

    def ask(self, statement: Statement, then: Callable[[Answer | None], None]) -> None:
        """Send a statement when those before it are answered."""
        self._queue.append((statement, then))
        self._go_on()

    def abort(self) -> None:
        """Let go of the connection, and make another."""
        session = self.session
        if session is not None:
            session.abort()
            self._lost(session)

    def _go_on(self) -> None:
        if self.session is None or self._sent is not None or not self._queue:
            return
        statement, self._sent = self._queue.popleft()
        self._turn += 1
        turn, session = self._turn, self.session
        session.send(statement, lambda answer: self._owner.enter(self._answered, turn, answer))
        self._owner.database.kernel.after(self.deadline_ms, self._look_whether_late, turn)

    def _answered(self, turn: int, answer: Answer) -> None:
        if turn != self._turn or self._sent is None:
            return
        if answer.is_poisoned:
            self.abort()
            return
        then, self._sent = self._sent, None
        then(answer)
        self._go_on()

    def _look_whether_late(self, turn: int) -> None:
        """Nearly always it has been answered long ago, and the node is left alone."""
        if turn == self._turn:
            self._owner.enter(self._late, turn)

    def _late(self, turn: int) -> None:
        if turn == self._turn and self._sent is not None:
            self.abort()

    def _lost(self, session: SimSession) -> None:
        if session is not self.session:
            return
        self.session = None
        then, self._sent = self._sent, None
        self._turn += 1
        self.on_lost()
        if then is not None:
            then(None)
        self._owner.after(CONNECT_MS, self.connect)
