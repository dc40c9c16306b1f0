"""Requests that wait for a turn: of some, thousands may come in one moment, each to change something."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.effects import Reply
from ottla.broker.logger import Logger
from ottla.broker.runtime.coordinator_log import Defer

ENTRIES_MS = 5
"""Requests are served for so long in each turn of the event loop."""

A = TypeVar("A")


class _Waiting(NamedTuple):
    serve: Callable[[], Any]
    ctx: RequestContext
    failed: Callable[[], Any]


class Turns:
    """Serves requests as long as the present turn has time, and the others in the next ones, in their order.

    Args:
        defer: calls back in the next turn; without it all are served at once.
        reply: gives an answer that comes later.
    """

    def __init__(self, clock: Clock, defer: Defer | None, reply: Callable[[Reply], None], report: Logger) -> None:
        self._clock = clock
        self._defer = defer
        self._reply = reply
        self._report = report
        self._waiting: deque[_Waiting] = deque()
        self._until_ms: int | None = None  # when those of the present turn are enough; None before the first

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def serve(self, serve: Callable[[], A | None], ctx: RequestContext, failed: Callable[[], A]) -> A | None:
        """Serve a request if the present turn has time left, else in one of the next.

        Args:
            serve: enters a coordinator; returns the answer, None if it is parked.
            failed: the answer if that fails later.

        Returns:
            What ``serve`` does; None if the request waits, and is answered through its context.
        """
        if self._defer is None or (not self._waiting and self._has_time(self._defer)):
            return serve()
        self._waiting.append(_Waiting(serve, ctx, failed))
        return None

    def finish(self) -> None:
        """Serve all that wait, now."""
        while self._waiting:
            self._serve(self._waiting.popleft())

    def clear(self) -> None:
        """Serve none of them."""
        self._waiting.clear()

    def _has_time(self, defer: Defer) -> bool:
        """Whether another may be served in this turn, which begins with the first one."""
        now_ms = self._clock.real.monotonic_ms()
        if self._until_ms is None:
            self._until_ms = now_ms + ENTRIES_MS
            defer(self._next)
        return now_ms < self._until_ms

    def _next(self) -> None:
        self._until_ms = None
        assert self._defer is not None
        while self._waiting and self._has_time(self._defer):
            self._serve(self._waiting.popleft())

    def _serve(self, waiting: _Waiting) -> None:
        try:
            answer = waiting.serve()
        except Exception:  # a bug in one request must not keep the others from their turn
            self._report.error("a request failed that waited for its turn", exc_info=True)
            answer = waiting.failed()
        if answer is not None:
            self._reply(Reply(waiting.ctx, answer))
