"""The clock of an embedded broker, as a test holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.loop_thread import LoopThread
    from ottla.workbench.time import Time

UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "ms": 1}
JUMP_S = 60
"""A jump that cannot be done says so before."""


class Clock:
    """The time of a broker. Sessions, rebalances, transactions, retention, expiry and quotas go by it; clients do not.

    ```python
    broker.clock.freeze()
    broker.clock.advance(days=7)
    broker.clock.resume()
    ```
    """

    def __init__(self, thread: LoopThread, time: Callable[[], Time]) -> None:
        self._thread = thread
        self._of = time

    def __repr__(self) -> str:
        state = self._thread.run(lambda: self._time.state)
        pace = "frozen" if not state.pace else f"at {state.pace:g} times the real pace"
        return f"<Clock {_date(state.now_ms).isoformat(timespec='milliseconds')}, {pace}>"

    @property
    def now(self) -> datetime:
        """The date and time of the broker, in UTC."""
        return _date(self._thread.run(lambda: self._time.state.now_ms))

    @property
    def is_frozen(self) -> bool:
        """Whether time stands still between calls of `advance`."""
        return not self._thread.run(lambda: self._time.state.pace)

    def freeze(self) -> None:
        """Let time stand still: no deadline takes effect but by `advance`."""
        self._thread.run(lambda: self._time.freeze())

    def resume(self) -> None:
        """Let time go as fast as it really does, from where it is."""
        self._thread.run(lambda: self._time.resume())

    def scale(self, factor: float) -> None:
        """Let time go so many times as fast as it really does: ``scale(60)`` is a minute a second.

        Raises:
            TypeError, ValueError: the factor is not a number from 0.001 to 10,000.
        """
        self._thread.run(lambda: self._time.scale(factor))

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
        hold: bool | Iterable[str] = False,
    ) -> None:
        """Move time ahead, and return once all that comes of it is done. Afterwards time goes on as it did before.

        ```python
        broker.clock.advance(days=7, minutes=20)
        broker.clock.advance(hours=1, hold=["billing"])
        ```

        Args:
            days, hours, minutes, seconds, ms: by how much; they add up.
            hold: groups whose members live through it: no session of theirs ends, and no rebalance of theirs runs out
                of time. True stands for all groups that there are.

        Raises:
            TypeError, ValueError: an argument that cannot be, such as a jump back.
            TimeoutError: what came of the jump was not done in 30 s of real time.
        """
        self._thread.call(self._time.advance(_sum_ms(days, hours, minutes, seconds, ms), hold), JUMP_S)

    async def advance_async(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
        hold: bool | Iterable[str] = False,
    ) -> None:
        """The same as `advance`, for tests with an event loop, which goes on meanwhile."""
        await self._thread.call_async(self._time.advance(_sum_ms(days, hours, minutes, seconds, ms), hold))

    @property
    def _time(self) -> Time:
        return self._of()


def _sum_ms(*amounts: float) -> float:
    """The milliseconds of an amount of each unit, in the order of `UNITS_MS`."""
    total_ms = 0.0
    for (unit, unit_ms), amount in zip(UNITS_MS.items(), amounts, strict=True):
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"advance({unit}={amount!r}): write a number, such as {unit}=7")
        if not amount >= 0:
            raise ValueError(f"advance({unit}={amount!r}): time only goes forward; write a number above 0")
        total_ms += amount * unit_ms
    if not total_ms:
        raise ValueError(f"advance(): write by how much, in {', '.join(UNITS_MS)}: such as advance(days=7)")
    return total_ms


def _date(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, UTC)
