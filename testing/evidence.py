"""Evidence for the report of a failed test: which brokers ran in it, and what they knew when they stopped.

pytest imports this in every run: a broker, and what explains one, is only loaded by those who use it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.testing.group_look import Account, Seen
    from ottla.workbench.bench import Workbench

T = TypeVar("T")

MOST_STOPPED = 8
"""So many brokers of a test that have stopped are remembered; each may hold tens of megabytes."""


class Running(Protocol):
    """A broker that runs; see `ottla.testing.embedded`."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def workbench(self) -> Workbench: ...

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the broker's loop."""
        ...


class Ran:
    """A broker that ran in a test.

    Attributes:
        address: where it listened.
        since_ms, since_seq: the Unix time and the number of the last event before the test; 0 if it began later.
        seen: its groups as they were when it stopped, by their ids; None while it runs.
        accounts: its groups as they were when the test had last waited for one in vain; None if it never did.
        trouble: why that could not be found out; None if it could.
    """

    def __init__(self, broker: Running) -> None:
        self.broker = broker
        self.observatory = broker.workbench
        self.address = broker.bootstrap_servers
        self.since_ms = self.since_seq = 0
        self.seen: dict[str, Seen] | None = None
        self.accounts: list[Account] | None = None
        self.trouble: Exception | None = None

    def on_loop(self, look: Callable[[], T]) -> T:
        """Look at what belongs to the broker's event loop; once it has stopped nobody else does."""
        return self.broker.run(look) if self.seen is None else look()

    def test_begins(self) -> None:
        """What happened until now is no evidence for the test that begins."""
        recorder, clock = self.observatory.recorder, self.observatory.clock
        with suppress(Exception):  # one that hangs must not keep tests from running that do not use it
            self.since_ms, self.since_seq = self.on_loop(lambda: (clock.wall_ms(), recorder.last_seq))

    def look(self) -> list[Account]:
        """Each group to which something happened in the test, the worst first."""
        from ottla.testing.group_look import accounts

        if self.trouble is not None:
            raise self.trouble
        return self.on_loop(lambda: accounts(self.observatory, self.seen, self.since_ms, self.since_seq))

    def stops(self) -> None:
        """Keep what is gone once the broker has stopped, which it does in any case."""
        from ottla.testing.group_look import look

        try:
            self.seen = self.on_loop(lambda: look(self.observatory))
        except Exception as error:
            self.seen, self.trouble = {}, error


class Witness:
    """Knows the brokers that ran in the present test."""

    def __init__(self) -> None:
        self.ran: list[Ran] = []

    def started(self, broker: Running) -> None:
        """A broker serves clients."""
        self.ran.append(Ran(broker))

    def stopping(self, broker: Running) -> None:
        """A broker is about to stop; it still runs."""
        for one in self.ran:
            if one.broker is broker and one.seen is None:
                one.stops()
        stopped = [one for one in self.ran if one.seen is not None]
        if len(stopped) > MOST_STOPPED:
            self.ran.remove(stopped[0])

    def waited_in_vain(self, broker: Running) -> None:
        """Somebody has waited for something of the broker until his time was up: how it is now is what matters."""
        for one in self.ran:
            if one.broker is broker:
                with suppress(Exception):  # that it was in vain is told all the same
                    one.accounts = one.look()

    def test_begins(self) -> None:
        """A test begins: only the brokers that run may have to do with it."""
        self.ran = [one for one in self.ran if one.seen is None]
        for one in self.ran:
            one.accounts = None
            one.test_begins()


WITNESSES: list[Witness] = []
"""Those who are told of each embedded broker: the one of the pytest plugin, where that is in use."""
