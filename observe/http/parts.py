"""The parts of a broker that the HTTP port shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.broker.clock import Clock
from ottla.observe.http.changes import Changes
from ottla.observe.http.visitors import EVERYTHING, Permits, Sight, TellEntered, TellFailed, Visitor, everything
from ottla.observe.recorder import Recorder
from ottla.observe.timeline.live import Timelines
from ottla.observe.view import View
from ottla.observe.why.history import History

if TYPE_CHECKING:
    from ottla.observe.metrics.collector import Metrics
    from ottla.observe.sentinels.board import Board


@dataclass
class Health:
    """State of the broker: ``starting``, ``ready``, ``stopping`` or ``failed``.

    Attributes:
        refusal: says while it is ready why nothing can be written, ``full`` or ``degraded``; empty while it can.
        nodes_down, nodes_silent: the ids of other nodes that are down, or are up and do not answer.
    """

    status: str = "starting"
    refusal: Callable[[], str] = lambda: ""
    nodes_down: Callable[[], list[int]] = list
    nodes_silent: Callable[[], list[int]] = list

    @property
    def now(self) -> str:
        """One of all these words."""
        return (self.refusal() if self.status == "ready" else "") or self.status


@dataclass
class Parts:
    """Everything that can be shown. What is None has no routes.

    Attributes:
        changes: an observer of the coordinator's events.
        permits: what rules let visitors do.
        tell_failed, tell_entered: see `ottla.observe.http.access.Access`.
        sight: what the visitor may see for whom they are.
    """

    view: View
    clock: Clock
    recorder: Recorder | None = None
    history: History | None = None
    timelines: Timelines | None = None
    sentinels: Board | None = None
    metrics: Metrics | None = None
    health: Health = field(default_factory=Health)
    changes: Changes = field(default_factory=Changes)
    permits: Permits = everything
    tell_failed: TellFailed = lambda visitor, mechanism, reason: None
    tell_entered: TellEntered = lambda visitor: None
    sight: Sight = EVERYTHING

    def seen_by(self, visitor: Visitor) -> Parts:
        """The same for one visitor."""
        return replace(self, sight=Sight(self.permits, visitor))
