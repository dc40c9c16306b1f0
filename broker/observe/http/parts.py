"""What the HTTP port shows, as interfaces; `ottla.broker.app` puts the real ones in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.broker.clock import Clock
from ottla.broker.core.events import Event
from ottla.broker.observe.http.changes import Changes
from ottla.broker.observe.sentinels.model import Alarm
from ottla.broker.observe.snapshot import BrokerView
from ottla.broker.observe.why.model import Episode
from ottla.broker.observe.why.store import Cost

Pause = Callable[[], Awaitable[None]]
"""Is awaited now and then by whoever takes long."""


class Log(Protocol):
    """Where it is said what the port does and what goes wrong."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


class Hashes(Protocol):
    """What hides the names of groups in what is recorded: see `ottla.broker.observe.recorder_hashes.Hashes`."""

    def group(self, group_id: str) -> str: ...


class Recorder(Protocol):
    """The flight recorder: see `ottla.broker.observe.recorder.Recorder`."""

    @property
    def hashes(self) -> Hashes | None: ...
    @property
    def last_seq(self) -> int: ...
    def events(self, group_id: str, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes]]: ...
    def subscribe(self, callback: Callable[[int, Event], None]) -> Callable[[], None]: ...


class History(Protocol):
    """What became of each group: see `ottla.broker.observe.why.history.History`."""

    on_episode: list[Callable[[Episode], None]]

    def knows(self, group_id: str) -> bool: ...
    def explain(self, episode: Episode) -> Episode: ...
    async def costs(self, since_ms: int, pause: Pause, *, most: int) -> list[Cost]: ...
    async def told(
        self,
        group_id: str,
        pause: Pause,
        *,
        last: int | None = None,
        since_ms: int | None = None,
        generation: int | None = None,
    ) -> list[Episode]: ...


class Sentinels(Protocol):
    """The alarms: see `ottla.broker.observe.sentinels`."""

    def active(self) -> Sequence[Alarm]: ...
    def recent(self) -> Sequence[Alarm]: ...


class Metrics(Protocol):
    """What Prometheus scrapes: see `ottla.broker.observe.metrics`."""

    async def scrape(self, accept: str) -> tuple[bytes, str]: ...


class Timelines(Protocol):
    """Makes the JSON of timelines: see `ottla.broker.observe.timeline.live.Timelines`."""

    async def told(self, group_id: str, pause: Pause, *, last: int | None, since_ms: int | None) -> bytes: ...


@dataclass
class Health:
    """How far the broker is. It is ``starting``, ``ready``, ``stopping`` or ``failed``.

    Attributes:
        refusal: says while it is ready why nothing can be written, ``full`` or ``degraded``; empty while it can.
    """

    status: str = "starting"
    refusal: Callable[[], str] = lambda: ""

    @property
    def now(self) -> str:
        """One of all these words."""
        return (self.refusal() if self.status == "ready" else "") or self.status


@dataclass
class Parts:
    """Everything that can be shown. What is None has no routes.

    Attributes:
        changes: an observer of the coordinator's events.
    """

    view: BrokerView
    clock: Clock
    recorder: Recorder | None = None
    history: History | None = None
    timelines: Timelines | None = None
    sentinels: Sentinels | None = None
    metrics: Metrics | None = None
    health: Health = field(default_factory=Health)
    changes: Changes = field(default_factory=Changes)
