"""`Time`: the time of a broker for whoever tests its clients: frozen, ahead, faster, and held for some groups.

A jump stops at each deadline of the coordinators on the way, in order, and goes on once all that came of it is done and
durable: so sessions end, groups rebalance and transactions are aborted at their times. What looks at everything now
and then looks once, at the end: the sweeps for what has expired, the cleaner, the sentinels.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from typing import Protocol

from msgspec import Struct

from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.host import Host
from ottla.workbench.clock import VirtualClock

SLOWEST, FASTEST = 0.001, 10_000
PATIENCE_S = 30.0
"""A jump that takes longer, in real time, is given up."""
LAST_MS = 253_402_300_799_999
"""The end of the year 9999 in Unix time: there are no dates behind it."""
EAGER_TURNS = 100
LOOK_EVERY_S = 0.001
"""After so many turns of the loop a jump looks only so often whether it may go on."""


class TimeState(Struct):
    """How time goes.

    Attributes:
        now_ms: the broker's Unix time, in milliseconds.
        ahead_ms: how far it is ahead of the real one; negative if it is behind.
        pace: 1 as in reality, 0 if it is frozen.
        jumps_to_ms: the Unix time that a jump under way leads to; None if there is none.
        held: the groups of which no deadline takes effect.
    """

    now_ms: int
    ahead_ms: int
    pace: float
    jumps_to_ms: int | None
    held: list[str]


class Timed(Protocol):
    """What goes by the clock: one broker, or several nodes.

    Attributes:
        due_ms: the next deadline of coordinators; None if there is none.
        is_at_rest: whether all that was asked for is done and durable.
        groups: those that there are. holds: those that are held.
    """

    @property
    def due_ms(self) -> int | None: ...
    @property
    def is_at_rest(self) -> bool: ...
    @property
    def groups(self) -> Collection[str]: ...
    @property
    def holds(self) -> Collection[str]: ...

    def hold(self, group_id: str) -> None:
        """Let no deadline of a group take effect."""
        ...

    def let_go(self, group_id: str) -> None:
        """Let them take effect again."""
        ...

    def jumps(self, target_ms: int) -> None:
        """The clock is about to jump."""
        ...

    def jumped(self) -> None:
        """It has."""
        ...

    def put_off_sweeps(self, until_ms: int) -> None:
        """Let no coordinator look at whole partitions before a time."""
        ...

    def ring(self) -> None:
        """Handle what is due."""
        ...

    async def rest(self) -> None:
        """Let no work by an older time be under way."""
        ...


class OneBroker:
    """A broker, as far as it goes by its clock; see `Timed`.

    Args:
        host: has the deadlines of all coordinators.
        groups: the coordinator whose groups can be held.
        cleaner: of retention and compaction.
    """

    def __init__(self, host: Host, groups: GroupCoordinator, cleaner: Cleaner) -> None:
        self._host = host
        self._groups = groups
        self._cleaner = cleaner
        self.ring = host.ring
        self.put_off_sweeps = host.put_off_sweeps
        self.rest = cleaner.rest

    @property
    def due_ms(self) -> int | None:
        return self._host.due_ms

    @property
    def is_at_rest(self) -> bool:
        return self._host.is_at_rest

    @property
    def groups(self) -> Collection[str]:
        return self._groups.groups

    @property
    def holds(self) -> Collection[str]:
        return self._groups.holds

    def hold(self, group_id: str) -> None:
        self._groups.hold(group_id, *self._host.now())
        self._host.settle()

    def let_go(self, group_id: str) -> None:
        self._groups.let_go(group_id, *self._host.now())
        self._host.settle()

    def jumps(self, target_ms: int) -> None:
        """Coordinators are led from deadline to deadline."""

    def jumped(self) -> None:
        """They are there."""


class Time:
    """See the module. Everything here is called on the broker's event loop.

    Args:
        timed: what goes by the clock.
    """

    def __init__(self, clock: VirtualClock, timed: Timed) -> None:
        self._clock = clock
        self._timed = timed
        self._jumping = asyncio.Lock()
        self._jumps_to_ms: int | None = None

    @property
    def state(self) -> TimeState:
        """How time goes at the moment."""
        clock = self._clock
        now_ms = clock.wall_ms()
        return TimeState(now_ms, now_ms - clock.real.wall_ms(), clock.pace, self._jumps_to_ms, list(self._timed.holds))

    # Pace

    def freeze(self) -> None:
        """Let time stand: no deadline takes effect but by `advance`."""
        self._clock.go(0)

    def resume(self) -> None:
        """Let time go as fast as it really does, from where it is."""
        self._clock.go(1)

    def scale(self, factor: float) -> None:
        """Let time go so many times as fast as it really does.

        Raises:
            TypeError: the factor is no number.
            ValueError: it is not from 0.001 to 10,000.
        """
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            raise TypeError(f"scale({factor!r}): write a number, such as scale(60) for a minute a second")
        if not SLOWEST <= factor <= FASTEST:  # no number is in no order
            raise ValueError(f"scale({factor!r}): write a number from {SLOWEST} to {FASTEST:,}; freeze() stops it")
        self._clock.go(factor)

    # Groups

    def hold(self, group_id: str) -> None:
        """Let no deadline of a group take effect until `let_go`, which must be called as often as this was.

        Sessions, ids that were issued, the initial delay, and the join and sync phases are held. There need be no such
        group yet. Offsets of a group without members expire all the same.
        """
        self._timed.hold(group_id)

    def let_go(self, group_id: str) -> None:
        """Let the deadlines of a group go on where they were held.

        Raises:
            ValueError: the group is not held.
        """
        if group_id not in self._timed.holds:
            raise ValueError(f"group {group_id!r} is not held; these are: {list(self._timed.holds)}")
        self._timed.let_go(group_id)

    # Jumps

    async def advance(self, ms: float, hold: bool | Iterable[str] = False) -> None:
        """Move time ahead; afterwards it goes on as it did before. Returns once all that comes of it is done.

        Jumps that are asked for at the same time come one after the other.

        Args:
            ms: by so many milliseconds.
            hold: the groups whose deadlines are held meanwhile, by their ids; True holds all groups that there are.

        Raises:
            TypeError, ValueError: an argument that cannot be.
            TimeoutError: what came of it was not done in 30 s of real time. Time has moved all the same.
        """
        by_ms = _checked_ms(ms)
        wanted = _checked_hold(hold)
        async with self._jumping:
            clock = self._clock
            if clock.wall_ms() + by_ms > LAST_MS:
                raise ValueError(f"advance: {by_ms:,} ms from now is beyond the year 9999")
            held = list(self._timed.groups) if wanted is True else wanted or []
            with clock.still():
                target_ms = clock.monotonic_ms() + by_ms
                self._jumps_to_ms = clock.wall_ms() + by_ms
                self._timed.jumps(target_ms)
                for group_id in held:
                    self.hold(group_id)
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        await self._jump(target_ms)
                except TimeoutError as error:
                    raise TimeoutError(self._stuck(target_ms)) from error
                finally:
                    self._jumps_to_ms = None
                    clock.move_to(target_ms)
                    self._timed.jumped()
                    for group_id in held:
                        self.let_go(group_id)

    async def _jump(self, target_ms: int) -> None:
        clock, timed = self._clock, self._timed
        await self._settled()
        await timed.rest()  # a round that has begun has looked at the time already
        timed.put_off_sweeps(target_ms)
        await self._ring_until(target_ms)
        clock.move_to(target_ms)
        clock.ring()
        await self._settled()
        await timed.rest()
        await self._ring_until(target_ms)

    async def _ring_until(self, target_ms: int) -> None:
        clock, timed = self._clock, self._timed
        while (due_ms := timed.due_ms) is not None and due_ms <= target_ms:
            clock.move_to(max(due_ms, clock.monotonic_ms()))
            timed.ring()
            await self._settled()
            timed.put_off_sweeps(target_ms)

    async def _settled(self) -> None:
        """Wait until what was done is durable, and so is what follows from it."""
        await asyncio.sleep(0)
        turns = 0
        while not self._timed.is_at_rest:
            turns += 1
            await asyncio.sleep(0 if turns < EAGER_TURNS else LOOK_EVERY_S)

    def _stuck(self, target_ms: int) -> str:
        left_ms = target_ms - self._clock.monotonic_ms()
        what = "deadlines come up without end" if self._timed.is_at_rest else "records on their way are not durable"
        return (
            f"advance: after {PATIENCE_S:g} s of real time {left_ms:,} ms of the jump were left, because {what}: "
            "remove what keeps the storage from its work, or jump in smaller steps"
        )


def _checked_ms(ms: float) -> int:
    if isinstance(ms, bool) or not isinstance(ms, (int, float)):
        raise TypeError(f"advance({ms!r}): write a number of milliseconds")
    if not math.isfinite(ms) or (by_ms := round(ms)) < 1:
        raise ValueError(f"advance by {ms!r} ms: time only goes forward, by 1 ms or more")
    return by_ms


def _checked_hold(hold: bool | Iterable[str]) -> bool | list[str]:
    if isinstance(hold, bool):
        return hold
    if isinstance(hold, str) or not isinstance(hold, Iterable):
        raise TypeError(f"hold={hold!r}: write True for all groups, or a list of group ids such as ['billing']")
    group_ids = list(dict.fromkeys(hold))
    if unlike := [one for one in group_ids if not isinstance(one, str)]:
        raise TypeError(f"hold={group_ids!r}: {unlike[0]!r} is no group id")
    return group_ids
