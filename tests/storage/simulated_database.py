"""A bench for the contract of the port to the database, with the simulated database on it.

A bench for a real server has the same verbs: ``hold`` is a transaction that is not committed yet, ``settle`` lets the
loop run for a while, and a standby of its own is stopped and promoted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.cluster.plan import LogRow
from ottla.broker.storage.postgres.database import Answer, Statement
from ottla.testing.simulated.database import SimDatabase, SimSession
from tests.sim.kernel import Kernel


class Pending:
    """A statement that was sent. ``answer`` is None until there is one."""

    def __init__(self) -> None:
        self.answer: Answer | None = None

    def told(self, answer: Answer) -> None:
        self.answer = answer


class SimBench:
    """See the module. Sessions are numbers."""

    def __init__(self, logs: Sequence[LogRow], document: object) -> None:
        self._kernel = Kernel("contract")
        self._database = SimDatabase(self._kernel)
        self._database.create(list(logs), document)
        self._sessions: dict[int, SimSession] = {}

    def session(self, role: str = "M", node: int = 1) -> int:
        """A new connection of a node. One with the role ``H`` shows that the node is there."""
        session = self._database.connect(node, role)
        assert session is not None
        self._sessions[session.number] = session
        return session.number

    def start(self, session: int, statement: Statement) -> Pending:
        """Send a statement and let it come as far as it does."""
        pending = Pending()
        self._sessions[session].send(statement, pending.told)
        self.settle(100)
        return pending

    def hold(self, session: int, statement: Statement) -> Pending:
        """The same, but its last bytes do not come: it keeps its locks, and is not committed."""
        self._sessions[session].is_cut_short = True
        return self.start(session, statement)

    def release(self, session: int) -> None:
        """The last bytes come."""
        self._database.release(session)
        self.settle(100)

    def drop(self, session: int) -> None:
        """The connection ends."""
        self._database.lose(self._sessions[session])
        self.settle(100)

    def settle(self, how_long_ms: int) -> None:
        """Let time pass."""
        self._kernel.run(self._kernel.now_ms + how_long_ms)

    def stall(self, stalls: bool) -> None:
        """The standby does not answer, or does again."""
        if stalls:
            self._database.stall()
        else:
            self._database.go_on()
        self.settle(100)

    def cancel(self, session: int) -> None:
        """Cancel what a session waits for."""
        self._database.cancel(session)
        self.settle(100)

    def promote(self) -> None:
        """The standby takes over; the old primary lives on, alone, for those who have a connection to it."""
        self._database.promote(leaves_zombie=True)
        self.settle(100)

    def crash(self) -> None:
        """The server dies and starts again."""
        self._database.crash()
        self.settle(100)
        self._database.start()
        self.settle(100)
