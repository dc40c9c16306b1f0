"""Evidence for the report of a failed test: which brokers ran in it, and what they knew when they stopped.

pytest imports this in every run: a broker, and what explains one, is only loaded by those who use it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.observe.observatory import Observatory
    from ottla.testing.group_look import Seen

T = TypeVar("T")

MOST_STOPPED = 8
"""So many brokers of a test that have stopped are remembered; each may hold tens of megabytes."""


class Running(Protocol):
    """A broker that runs; see `ottla.testing.embedded`."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def observatory(self) -> Observatory: ...

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the broker's loop."""
        ...


class Ran:
    """A broker that ran in a test.

    Attributes:
        address: where it listened.
        since_ms, since_seq: the Unix time and the number of the last event before the test; 0 if it began later.
        seen: its groups as they were when it stopped, by their ids; None while it runs.
        trouble: why that could not be found out; None if it could.
    """

    def __init__(self, broker: Running) -> None:
        self.broker = broker
        self.observatory = broker.observatory
        self.address = broker.bootstrap_servers
        self.since_ms = self.since_seq = 0
        self.seen: dict[str, Seen] | None = None
        self.trouble: Exception | None = None

    def on_loop(self, look: Callable[[], T]) -> T:
        """Look at what belongs to the broker's event loop; once it has stopped nobody else does."""
        return self.broker.run(look) if self.seen is None else look()

    def test_begins(self) -> None:
        """What happened until now is no evidence for the test that begins."""
        recorder, clock = self.observatory.recorder, self.observatory.clock
        with suppress(Exception):  # one that hangs must not keep tests from running that do not use it
            self.since_ms, self.since_seq = self.on_loop(lambda: (clock.wall_ms(), recorder.last_seq))

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

    def test_begins(self) -> None:
        """A test begins: only the brokers that run may have to do with it."""
        self.ran = [one for one in self.ran if one.seen is None]
        for one in self.ran:
            one.test_begins()


WITNESSES: list[Witness] = []
"""Those who are told of each embedded broker: the one of the pytest plugin, where that is in use."""
