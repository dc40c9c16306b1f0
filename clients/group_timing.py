"""The clocks of a group member: when a heartbeat is due, a session over, the user away too long."""

from __future__ import annotations

from ottla.clients.backoff import Backoff
from ottla.clients.group_effects import Sent
from ottla.clients.options import ConsumerOptions


class Liveness:
    """Heartbeats and the session they keep; times in ms."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self.open: Sent | None = None
        """The heartbeat in flight."""
        self.due_ms = 0.0
        self.session_until_ms = 0.0

    def begin(self, now_ms: float) -> None:
        """A generation was entered."""
        self.answered(now_ms)
        self.alive(now_ms)

    def alive(self, now_ms: float) -> None:
        """The coordinator knows that this member is alive."""
        self.session_until_ms = now_ms + self._options.session_timeout_ms

    def answered(self, now_ms: float) -> None:
        """A heartbeat's answer came; the next is due after the interval."""
        self.open = None
        self.due_ms = now_ms + self._options.heartbeat_interval_ms

    def failed(self, now_ms: float) -> None:
        """No useful answer came: the next heartbeat is due as soon as there is a coordinator."""
        self.open = None
        self.due_ms = now_ms

    @property
    def timeout_ms(self) -> float:
        """The time to wait for one answer. A second try still fits into the session."""
        return min(self._options.request_timeout_ms, self._options.session_timeout_ms * 2 / 3)


class PollWatch:
    """Watches how long the user has been away (``max_poll_interval_ms``)."""

    def __init__(self, max_poll_interval_ms: float) -> None:
        self._limit_ms = max_poll_interval_ms
        self._calls = 0
        self._since_ms = 0.0
        self.expired = False

    def enter(self) -> bool:
        """A call begins. True if the user had been away too long."""
        self._calls += 1
        expired, self.expired = self.expired, False
        return expired

    def leave(self, now_ms: float) -> None:
        self._calls -= 1
        self._since_ms = now_ms

    def restart(self, now_ms: float) -> None:
        self._since_ms = now_ms

    def deadline_ms(self) -> float | None:
        """When the user has been away too long; None while it is in a call, or known to be away."""
        return None if self._calls or self.expired else self._since_ms + self._limit_ms


class Lookup:
    """The coordinator's broker, or the time to look it up again."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.node_id: int | None = None
        self.wanted = False
        self.running = False
        self.not_before_ms = 0.0

    def found(self, node_id: int) -> None:
        self.running = False
        self.node_id = node_id
        self._backoff.reset()

    def failed(self, now_ms: float) -> None:
        self.running = False
        self.not_before_ms = now_ms + self._backoff.next_ms()
