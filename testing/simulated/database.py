"""`SimDatabase`: the port to the database, served by simulated servers, over connections that fail.

Every step of a statement is an event of its own at a random later time: the way there, the snapshot, each lock, the
writes, the commit, the standby, the moment in which others see it, the way back. A connection that ends takes nothing
back: what was under way goes on, and what was not there yet may arrive late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

from ottla.broker.cluster.plan import LogRow
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Refusal, Statement
from ottla.testing.simulated.server import Server, Transaction
from ottla.testing.simulated.statements import STEPS, LogState, Refused, Steps, Want

Answered = Callable[[Answer], None]


class Kernel(Protocol):
    """Time and chance: those of a simulation, or of an event loop."""

    @property
    def now_ms(self) -> int: ...
    def rng(self, name: str) -> Random: ...
    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None: ...


@dataclass(slots=True)
class Paces:
    """How long things take, in milliseconds: each is drawn from nothing up to this."""

    network_ms: int = 2
    step_ms: int = 2
    standby_ms: int = 3


class SimSession:
    """A connection of a node, and the backend at its other end. See `port.Session`."""

    def __init__(self, database: SimDatabase, server: Server, number: int, node: int, role: str) -> None:
        self.database = database
        self.server = server
        self.number = number
        self.node = node
        self.role = role
        self.on_lost: Callable[[], None] = lambda: None
        self.is_open = True
        """As the node sees it."""
        self.is_closing = False
        """The backend ends when what it does is done."""
        self.is_poisoned = False
        self.is_cut_short = False
        """All but the last bytes of the next statement arrive: it is carried out, and not committed."""
        self.slow_ms = 0
        self.sent = 0
        self.statement: Statement | None = None
        """What was sent and is not answered."""
        self._answered: Answered | None = None

    # What the node does

    def send(self, statement: Statement, answered: Answered) -> None:
        assert self._answered is None, f"{self.role}: a statement at a time"
        if not self.is_open:
            return  # the node has not looked yet
        self.sent += 1
        self._answered, self.statement = answered, statement
        self.database.carry(self, statement)

    def abort(self) -> None:
        if self.is_open:
            self._let_go()
            self.database.closed(self)

    # What happens to it

    def cut(self) -> None:
        """The connection ends under the node's feet."""
        if self.is_open:
            self._let_go()
            self.on_lost()

    def deliver(self, number: int, answer: Answer) -> None:
        """An answer comes."""
        if self.is_open and number == self.sent and self._answered is not None:
            answered, self._answered, self.statement = self._answered, None, None
            answered(answer)

    def _let_go(self) -> None:
        self.is_open = False
        self._answered = self.statement = None


class SimDatabase:
    """See the module. Faults are methods; who draws them is the world.

    Attributes:
        on_commit: told of each transaction when its commit is written, which is when its fate is decided.
        on_publish: told when others see it.
    """

    def __init__(self, kernel: Kernel, paces: Paces | None = None) -> None:
        self.kernel = kernel
        self.rng = kernel.rng("database")
        self.paces = paces or Paces()
        self.on_commit: Callable[[Transaction], None] = lambda transaction: None
        self.on_publish: Callable[[Transaction], None] = lambda transaction: None
        self.primary = Server(1, kernel.now_ms, [], 0)
        self.sessions: dict[int, SimSession] = {}
        """Those whose backend lives."""
        self._held: dict[int, Callable[[], None] | None] = {}
        """How half-sent statements end, by backend: they stay in their transaction until their last bytes come."""
        self._freezing: dict[int, int] = {}
        self._frozen: dict[int, list[Callable[[], None]]] = {}
        """What backends that are stopped do when they go on."""
        self._number = 0
        self._refuses = False

    def create(self, logs: list[LogRow], document: object = ()) -> None:
        """Lay out the tables, before anything is simulated."""
        writes: dict[Any, Any] = {("log", row.log_id): LogState(row) for row in logs}
        writes["catalog", 0] = (1, document)
        writes["counter", "incarnation"] = 1
        setup = Transaction(self.primary, 0, None, writes=writes, state="over")
        self.primary.wal.append(setup)
        self.primary.replicated = 1
        self.primary.store.publish(writes)

    # Connections

    def connect(self, node: int, role: str) -> SimSession | None:
        """A connection to the server that takes connections; None if there is none now."""
        if not self.primary.is_up or self._refuses:
            return None
        self._number += 1
        session = SimSession(self, self.primary, self._number, node, role)
        self.sessions[session.number] = session
        if role == "H":
            self.primary.held.append(node)
        return session

    def carry(self, session: SimSession, statement: Statement) -> None:
        """Bring a statement to its backend."""
        self.kernel.after(session.slow_ms + self._network(), self._arrive, session, session.sent, statement)

    def closed(self, session: SimSession) -> None:
        """The node has closed a connection."""
        self.kernel.after(self._network(), self.hang_up, session)

    def hang_up(self, session: SimSession) -> None:
        """The server learns that a connection is closed: at once where it reads from it, else after the statement."""
        transaction = session.server.transactions.get(session.number)
        if transaction is not None and session.number not in self._held:
            session.is_closing = True
            return
        if transaction is not None:
            session.server.rollback(transaction)
        self._drop(session)

    def _drop(self, session: SimSession) -> None:
        """A backend ends."""
        self._held.pop(session.number, None)
        if self.sessions.pop(session.number, None) is not None and session.role == "H":
            session.server.held.remove(session.node)

    # Statements

    def _network(self) -> int:
        return int(self.rng.random() * (self.paces.network_ms + 1))

    def _arrive(self, session: SimSession, number: int, statement: Statement) -> None:
        if not session.server.is_up or session.number not in self.sessions:
            return
        if isinstance(statement, port.Evict):
            ended = session.server.blockers(statement.waiting)
            for backend in ended:
                self.terminate(backend)
            self._answer(session, number, Answer(len(ended)))
            return
        transaction = session.server.begin(session.number, statement)
        if session.is_cut_short:
            session.is_cut_short = False
            self._held[session.number] = None
        steps = STEPS[type(statement)](transaction, statement)
        self._advance(session, number, transaction, steps)

    def _advance(self, session: SimSession, number: int, transaction: Transaction, steps: Steps) -> None:
        """Take steps until one has to wait."""
        while True:
            if transaction.state != "running":
                return
            if self._is_frozen(session.number):
                self._frozen[session.number].append(partial(self._advance, session, number, transaction, steps))
                return
            try:
                wish = next(steps)
            except StopIteration as end:
                self._finish(session, number, transaction, end.value)
                return
            except Refused as refused:
                session.server.rollback(transaction)
                self._answer(session, number, Answer(refusal=refused.refusal))
                return
            if wish is not None and not self._lock(session, number, transaction, steps, wish):
                return
            delay = int((self.rng.random() * 2 - 1) * (self.paces.step_ms + 1))
            if delay > 0:
                self.kernel.after(delay, self._advance, session, number, transaction, steps)
                return

    def _lock(self, session: SimSession, number: int, transaction: Transaction, steps: Steps, want: Want) -> bool:
        def granted() -> None:
            self.kernel.after(0, self._advance, session, number, transaction, steps)

        if session.server.lock(transaction, want.key, want.mode, granted):
            return True
        if want.timeout_ms is not None:
            self.kernel.after(want.timeout_ms, self._give_up_waiting, session, number, transaction, want)
        return False

    def _give_up_waiting(self, session: SimSession, number: int, transaction: Transaction, want: Want) -> None:
        if transaction.state == "running" and transaction.waits_for == want.key:
            session.server.rollback(transaction)
            self._answer(session, number, Answer(refusal=Refusal.LOCK_NOT_AVAILABLE))

    def _finish(self, session: SimSession, number: int, transaction: Transaction, result: Any) -> None:
        if session.number in self._held:
            self._held[session.number] = partial(self._finish, session, number, transaction, result)
            return
        server = session.server

        def published() -> None:
            self.on_publish(transaction)
            self._answer(session, number, Answer(result, is_poisoned=session.is_poisoned))

        if server.commit(transaction, published):
            self._answer(session, number, Answer(result))
            return
        self.on_commit(transaction)
        self._replicate_later(server, transaction.lsn)

    def _replicate_later(self, server: Server, lsn: int) -> None:
        self.kernel.after(int(self.rng.random() * (self.paces.standby_ms + 1)), server.replicate, lsn)

    def _answer(self, session: SimSession, number: int, answer: Answer) -> None:
        if session.is_closing:
            self._drop(session)
        elif session.number in self.sessions:
            self.kernel.after(session.slow_ms + self._network(), session.deliver, number, answer)

    # Faults of connections and backends

    def lose(self, session: SimSession, *, late_ms: int | None = None) -> None:
        """A connection ends. What is under way goes on; what is not there yet arrives ``late_ms`` late, or never."""
        if not session.is_open:
            return
        statement, number = session.statement, session.sent
        is_on_its_way = statement is not None and session.number not in session.server.transactions
        session.cut()
        if session.number in self.sessions:
            self.hang_up(session)
        if is_on_its_way and late_ms is not None:
            self._number += 1
            straggler = SimSession(self, session.server, self._number, session.node, "late")
            straggler.is_open, straggler.is_closing = False, True
            self.sessions[straggler.number] = straggler
            self.kernel.after(late_ms, self._arrive, straggler, number, statement)

    def release(self, backend: int) -> None:
        """The last bytes of a half-sent statement arrive."""
        finish = self._held.pop(backend, None)
        if finish is not None:
            finish()

    def freeze(self, backend: int, steps: int = 0) -> None:
        """The process of a backend is stopped, wherever it is after so many steps."""
        self._freezing[backend] = steps

    def _is_frozen(self, backend: int) -> bool:
        steps = self._freezing.get(backend)
        if steps == 0:
            self._freezing.pop(backend)
            self._frozen[backend] = []
        elif steps is not None:
            self._freezing[backend] = steps - 1
        return backend in self._frozen

    def thaw(self, backend: int) -> None:
        """And goes on."""
        self._freezing.pop(backend, None)
        for go_on in self._frozen.pop(backend, ()):
            self.kernel.after(0, go_on)

    def terminate(self, backend: int) -> None:
        """End a backend: what it does is undone, but a commit that waits for the standby shows at once."""
        session = self.sessions.get(backend)
        if session is None:
            return
        if backend in self._frozen:
            self._frozen[backend].insert(0, partial(self.terminate, backend))
            return
        transaction = session.server.transactions.get(backend)
        self._drop(session)
        if transaction is not None and transaction.state == "running":
            session.server.rollback(transaction)
        elif transaction is not None:
            session.server.publish(transaction)
        # Others see the hint no sooner than the node sees its connection end.
        self.kernel.after(0 if session.role == "H" else self._network(), session.cut)

    def cancel(self, backend: int) -> None:
        """Cancel what a backend does. A wait for the standby ends as if all were well, with a warning."""
        session = self.sessions.get(backend)
        transaction = None if session is None else session.server.transactions.get(backend)
        if session is not None and transaction is not None and transaction.state == "committing":
            session.is_poisoned = True
            session.server.publish(transaction)

    # Faults of servers

    def stall(self) -> None:
        """The standby does not answer: commits wait."""
        self.primary.is_stalled = True

    def go_on(self) -> None:
        """The standby answers again."""
        self.primary.is_stalled = False
        if self.primary.is_up:
            self._replicate_later(self.primary, len(self.primary.wal))

    def refuse(self, refuses: bool) -> None:
        """No new connections, as if there were too many."""
        self._refuses = refuses

    def crash(self) -> None:
        """The server dies: locks and what runs are gone, what is in its log stays, replicated or not."""
        self._down(self.primary)

    def start(self) -> None:
        """It starts again."""
        old = self.primary
        self.primary = Server(old.timeline, self.kernel.now_ms, old.wal, old.replicated)
        self.primary.is_stalled = old.is_stalled
        self._replicate_later(self.primary, len(old.wal))

    def promote(self, *, leaves_zombie: bool) -> None:
        """The standby takes over with what it has. The old primary dies, or lives on: it reads, and never commits."""
        old = self.primary
        if leaves_zombie:
            old.is_stalled = True
        else:
            self._down(old)
        wal = old.wal[: old.replicated]
        self.primary = Server(old.timeline + 1, self.kernel.now_ms, wal, len(wal))

    def end_zombies(self) -> None:
        """Former primaries die."""
        for server in {id(one.server): one.server for one in self.sessions.values()}.values():
            if server is not self.primary:
                self._down(server)

    def _down(self, server: Server) -> None:
        server.is_up = False
        for session in [one for one in self.sessions.values() if one.server is server]:
            self._drop(session)
            self._frozen.pop(session.number, None)
            self.kernel.after(self._network(), session.cut)
        for transaction in server.transactions.values():
            transaction.state = "over"
        server.transactions.clear()
