"""The gate before a rebalance: partitions are taken away only while the user works on no records.

Kafka's consumer rebalances inside ``poll()``, so a listener never runs while records are being processed, and asking
for more records says that the ones before are finished. Here a rebalance runs in the background, and this gate gives
the same guarantee without holding anything up needlessly. It is open

* while the user is in a call for records, since it is then finished with what it was given before;
* while everything that was given out is finished: nothing was given out, or all of it was committed.

It is closed while the user has records. Whoever never comes back leaves the group after ``max_poll_interval_ms``.

While somebody waits for the gate, calls give out nothing more (``wanted``): a user whose buffer is never empty would
otherwise be back at work before the rebalance had its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class UserGate:
    """See the module's description.

    Args:
        holding: tells whether the user has records that it has not finished.
    """

    def __init__(self, holding: Callable[[], bool]) -> None:
        self._holding = holding
        self._calls = 0
        self._forced = False
        self._waiting = 0
        self._changed = asyncio.Event()
        self.on_passed: Callable[[], None] = lambda: None

    @property
    def is_open(self) -> bool:
        return self._forced or self._calls > 0 or not self._holding()

    @property
    def wanted(self) -> bool:
        """Somebody waits for the gate."""
        return self._waiting > 0

    def enter(self) -> None:
        """A call for records begins."""
        self._calls += 1
        self._changed.set()

    def leave(self) -> None:
        """A call for records ends."""
        self._calls -= 1

    def force(self) -> None:
        """The consumer is being stopped: the user will not come back."""
        self._forced = True
        self._changed.set()

    def look_again(self) -> None:
        """Look again: the user may have finished its records."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait until the gate is open. The caller's work up to its next await precedes the user's next records."""
        self._waiting += 1
        try:
            while not self.is_open:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._waiting -= 1
            self.on_passed()
