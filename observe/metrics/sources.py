"""Sources of the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.observe.metrics.counters import Counters
from ottla.observe.metrics.histogram import Durations
from ottla.observe.metrics.requests import Requests
from ottla.observe.metrics.scene import Bounds
from ottla.observe.recorder import Recorder
from ottla.observe.view import View

if TYPE_CHECKING:
    from ottla.observe.sentinels import Sentinels


@dataclass
class Sources:
    """Everything that is told. What is None is left out.

    Attributes:
        address: host and port that clients are told.
        cluster_name: kafka-lag-exporter's label.
        cleanup_policy: of topics that have none of their own.
        nanoseconds: a clock.
    """

    view: View
    requests: Requests
    counters: Counters
    nanoseconds: Callable[[], int]
    bounds: Bounds = field(default_factory=Bounds)
    connections_opened: Callable[[], int] = lambda: 0
    address: tuple[str, int] = ("", 0)
    cluster_name: str = ""
    cleanup_policy: str = "delete"
    syncs: Durations = field(default_factory=Durations)
    recorder: Recorder | None = None
    sentinels: Sentinels | None = None
