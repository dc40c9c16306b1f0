"""Puts metrics together, for a broker that has an HTTP port; without one nothing of this is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ottla.broker.clock import Clock
from ottla.broker.engine import Engine, Sync
from ottla.broker.handlers.services import Services
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.runtime.audit import Audit
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import Settings
from ottla.observe.metrics.counters import Counters
from ottla.observe.metrics.dispatcher import MeasuredDispatcher
from ottla.observe.metrics.histogram import Durations
from ottla.observe.metrics.requests import Requests
from ottla.observe.metrics.scene import Sources
from ottla.observe.record_times import AppendTimes
from ottla.observe.recorder import Recorder
from ottla.observe.view import View
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.observe.metrics.collector import Metrics
    from ottla.observe.sentinels.board import Board
    from ottla.observe.why.history import History


class Measuring:
    """Measures while the broker runs what metrics are made of.

    Attributes:
        counters: an observer of the coordinator's events, and of episodes.
        append_times: when records came, for lag in seconds.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.counters = Counters(settings.ottla_metrics_max_groups)
        self.append_times = AppendTimes(settings.ottla_metrics_max_partitions)
        self._requests = Requests(perf_counter_ns)
        self._syncs = Durations()
        self._engine: Engine
        self._clock: Clock
        self._audit: Audit

    def begin(self, engine: Engine, topics: TopicManager, clock: Clock) -> None:
        """Begin: the topics are there, and nothing is appended yet."""
        self._engine, self._clock = engine, clock
        engine.watch_syncs(self._timed)
        now_ms = clock.wall_ms()
        for topic in topics.topics.values():
            for partition in topic.partitions:
                self.append_times.begin(partition.tp, partition.log.high_watermark, now_ms)

    def dispatcher(self, services: Services, log: Any, codec: str) -> MeasuredDispatcher:
        """One that counts and times requests."""
        self._audit = services.audit
        return MeasuredDispatcher(services, log, codec, self._requests)

    def watch_appends(self, passed_on: Callable[[TopicPartition], None]) -> Callable[[TopicPartition], None]:
        """Note when records come, and pass on where."""
        note, wall_ms, logs = self.append_times.note, self._clock.wall_ms, self._engine.logs

        def appended(tp: TopicPartition) -> None:
            note(tp, logs[tp].high_watermark, wall_ms())
            passed_on(tp)

        return appended

    def metrics(
        self,
        view: View,
        server: SocketServer,
        address: tuple[str, int],
        recorder: Recorder | None,
        sentinels: Board | None,
        history: History,
        http_certificate_ends: Callable[[], Mapping[str, int]],
    ) -> Metrics:
        """Make what ``/metrics`` shows."""
        from ottla.observe.metrics.collector import Metrics  # with the library, which may be missing before

        settings = self._settings
        view.record_times.noted = self.append_times
        sources = Sources(
            view=view,
            requests=self._requests,
            counters=self.counters,
            nanoseconds=perf_counter_ns,
            settings=settings,
            connections_opened=lambda: server.accepted,
            authentications=lambda: server.authentications,
            address=address,
            syncs=self._syncs,
            recorder=recorder,
            sentinels=sentinels,
            certificates_end=lambda: {**server.certificates_end(), **http_certificate_ends()},
            running=history.running,
            audit=self._audit,
        )
        return Metrics(sources, [name.strip() for name in settings.ottla_metrics_compat.split(",") if name.strip()])

    def _timed(self, sync: Sync) -> None:
        """Time a sync. This runs in the journal's thread, which is the only one that counts here."""
        began_ns = perf_counter_ns()
        try:
            sync()
        finally:
            self._syncs.add(perf_counter_ns() - began_ns)
