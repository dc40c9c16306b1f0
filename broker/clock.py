"""The clock as every room sees it: an interface. `ottla.broker.runtime.loop_clock` is the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """Something scheduled that can still be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Two times that are never mixed: one for intervals and deadlines, one for what is written down."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Unix time in milliseconds; may jump when the machine's clock is set."""
        ...

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call back once `monotonic_ms` has reached ``when_ms``."""
        ...
