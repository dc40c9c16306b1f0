"""A fault of an embedded broker, as a test holds it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker
    from ottla.workbench import faults
    from ottla.workbench.rule import Rule


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

    def __init__(self, broker: EmbeddedBroker, rule: Rule) -> None:
        self._broker = broker
        self._fault: faults.Fault = broker.run(lambda: broker.workbench.faults.add(rule))
        self._is_checked = False

    def __repr__(self) -> str:
        return f"<Fault {self._fault.name}: {self.hits} hits>"

    @property
    def hits(self) -> int:
        """How often it fired."""
        return self._fault.hits

    @property
    def held(self) -> int:
        """How many requests and answers it holds at this moment."""
        return self._fault.held

    def release(self) -> int:
        """Let go of what it holds, and go on to hold what comes; returns how many that were."""
        return self._broker.run(self._fault.release)

    def remove(self) -> None:
        """Take it out of force, and let go of what it holds."""
        if self._broker.is_running:
            self._broker.run(self._fault.remove)

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
        fault.on_fired.append(fired.set)
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
            fault.on_fired.remove(fired.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
        if error is None:
            self.check()
        self._is_checked = True  # another error says more
