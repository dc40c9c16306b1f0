"""A fault of an embedded broker, as a test holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from ottla.workbench import faults
    from ottla.workbench.bench import Workbench
    from ottla.workbench.rule import Rule


T = TypeVar("T")


class Served(Protocol):
    """A broker, or several nodes, as far as a fault has to do with them.

    Attributes:
        benches: the workbenches of those that run.
    """

    @property
    def is_running(self) -> bool: ...
    @property
    def benches(self) -> list[Workbench]: ...
    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the event loop."""
        ...

    def wait(self, work: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Wait for what a test waits for."""
        ...

    async def wait_async(self, work: Coroutine[Any, Any, None]) -> None:
        """The same, for tests with an event loop."""
        ...


class FaultNeverFired(AssertionError):
    """A fault was set and never fired: the test has not tested what it meant to."""


class Fault:
    """A fault in force, until the ``with`` block ends or `remove` is called.

    ```python
    with broker.fault("SyncGroup", group="billing", drop="response", times=1) as fault:
        start_my_consumer()
        fault.wait()
    assert fault.hits == 1
    ```
    """

    def __init__(self, broker: Served, rule: Rule) -> None:
        self.rule = rule
        self._broker = broker
        self._parts: list[faults.Fault] = []
        self._is_checked = False
        broker.run(self._put_everywhere)

    def _put_everywhere(self) -> None:
        for bench in self._broker.benches:
            self.put(bench)

    def put(self, bench: Workbench) -> None:
        """Put it in force at a broker, or at one more node; on the loop. What came of it counts together."""
        tally = self._parts[0].tally if self._parts else None
        self._parts.append(bench.faults.add(self.rule, tally))

    @property
    def is_set(self) -> bool:
        """Whether it is in force."""
        return any(part.is_set for part in self._parts)

    @property
    def _fault(self) -> faults.Fault:
        """The first of its parts, which says of all what came of them."""
        return self._parts[0]

    def __repr__(self) -> str:
        return f"<Fault {self._fault.name}: {self.hits} hits>"

    @property
    def hits(self) -> int:
        """How often it fired."""
        return self._fault.hits

    @property
    def held(self) -> int:
        """How many requests and answers it holds at this moment."""
        return sum(part.held for part in self._parts)

    def release(self) -> int:
        """Let go of what it holds, and go on to hold what comes; returns how many that were."""
        return self._broker.run(lambda: sum(part.release() for part in self._parts))

    def remove(self) -> None:
        """Take it out of force, and let go of what it holds."""
        if self._broker.is_running:
            self._broker.run(self._remove)

    def _remove(self) -> None:
        for part in self._parts:
            part.remove()

    def wait(self, hits: int = 1, timeout: float = 30) -> None:
        """Wait until it has fired so often since it was set.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: it has not; the message says what came instead.
        """
        __tracebackhide__ = True
        self._broker.wait(self._until(hits, timeout), timeout)

    async def wait_async(self, hits: int = 1, timeout: float = 30) -> None:  # noqa: ASYNC109 - as `wait` has it
        """The same as `wait`, for tests with an event loop, which goes on meanwhile."""
        await self._broker.wait_async(self._until(hits, timeout))

    def check(self) -> None:
        """Fail if it never fired and had to. Raises `FaultNeverFired`, once."""
        if not self._is_checked and (text := self._fault.never_fired):
            self._is_checked = True
            raise FaultNeverFired(f"{text}. Mend the rule, or say allow_unused=True if it need not fire.")

    async def _until(self, hits: int, timeout_s: float) -> None:
        fired = asyncio.Event()
        fault = self._fault
        fault.tally.on_fired.append(fired.set)
        try:
            async with asyncio.timeout(timeout_s):
                while fault.hits < hits:
                    fired.clear()
                    await fired.wait()
        except TimeoutError:
            raise TimeoutError(
                f"the fault {fault.name} fired {fault.hits} times in {timeout_s:g} s, and {hits} are awaited: "
                f"{fault.came}"
            ) from None
        finally:
            fault.tally.on_fired.remove(fired.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
        if error is None:
            self.check()
        self._is_checked = True  # another error says more
