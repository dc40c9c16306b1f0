"""Where metrics come from; `ottla.broker.app` puts them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ottla.broker.observe.metrics.counters import Counters
from ottla.broker.observe.metrics.histogram import Durations
from ottla.broker.observe.metrics.requests import Requests
from ottla.broker.observe.metrics.scene import Bounds
from ottla.broker.observe.snapshot import BrokerView


class Recorder(Protocol):
    """What is told of the flight recorder."""

    last_seq: int
    dropped_events: int

    @property
    def memory_bytes(self) -> int: ...
    @property
    def file_failed(self) -> bool | None: ...
    @property
    def file_lost_events(self) -> int: ...


class Sentinels(Protocol):
    """What is told of alarms."""

    @property
    def raised(self) -> Mapping[str, int]: ...
    @property
    def left_out(self) -> int: ...
    def active_by_sentinel(self) -> Mapping[str, int]: ...


@dataclass
class Sources:
    """Everything that is told. What is None is left out.

    Attributes:
        address: host and port that clients are told.
        cluster_name: kafka-lag-exporter's label.
        cleanup_policy: of topics that have none of their own.
        nanoseconds: a clock.
    """

    view: BrokerView
    requests: Requests
    counters: Counters
    nanoseconds: Callable[[], int]
    bounds: Bounds = field(default_factory=Bounds)
    connections_opened: Callable[[], int] = lambda: 0
    address: Callable[[], tuple[str, int]] = lambda: ("", 0)
    cluster_name: str = ""
    cleanup_policy: str = "delete"
    syncs: Durations = field(default_factory=Durations)
    recorder: Recorder | None = None
    sentinels: Sentinels | None = None
