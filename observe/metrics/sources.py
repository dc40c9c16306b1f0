"""Sources of the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.settings import Settings
from ottla.observe.metrics.counters import Counters
from ottla.observe.metrics.histogram import Durations
from ottla.observe.metrics.requests import Requests
from ottla.observe.recorder import Recorder
from ottla.observe.view import View

if TYPE_CHECKING:
    from ottla.observe.sentinels.board import Board


@dataclass
class Sources:
    """Everything that is told. What is None is left out.

    Attributes:
        address: host and port that clients are told.
        nanoseconds: a clock.
    """

    view: View
    requests: Requests
    counters: Counters
    nanoseconds: Callable[[], int]
    settings: Settings = field(default_factory=Settings)
    connections_opened: Callable[[], int] = lambda: 0
    address: tuple[str, int] = ("", 0)
    syncs: Durations = field(default_factory=Durations)
    recorder: Recorder | None = None
    sentinels: Board | None = None
