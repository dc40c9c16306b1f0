"""Puts metrics together, for a broker that has an HTTP port; without one nothing of this is imported."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ottla.broker.clock import Clock
from ottla.broker.dispatch import Dispatcher
from ottla.broker.dispatch_measured import MeasuredDispatcher
from ottla.broker.engine import Engine, Sync
from ottla.broker.observe.metrics.counters import Counters
from ottla.broker.observe.metrics.histogram import Durations
from ottla.broker.observe.metrics.requests import Requests
from ottla.broker.observe.metrics.scene import Bounds
from ottla.broker.observe.metrics.sources import Recorder, Sentinels, Sources
from ottla.broker.runtime.append_times import AppendTimes
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.view import View
from ottla.broker.settings import Settings
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.observe.metrics.collector import Metrics


class Measuring:
    """What has to be measured while the broker runs.

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

    def dispatcher(self, services: Any, log: Any, codec: str) -> Dispatcher:
        """One that counts and times requests."""
        return MeasuredDispatcher(services, log, codec, self._requests)

    def attach(self, engine: Engine, topics: TopicManager, clock: Clock) -> None:
        """Begin: the topics are there, and nothing is appended yet."""
        engine.watch_syncs(self._timed)
        now_ms = clock.wall_ms()
        for topic in topics.topics.values():
            for partition in topic.partitions:
                self.append_times.begin(partition.tp, partition.log.high_watermark, now_ms)
        note, wall_ms, logs, passed_on = self.append_times.note, clock.wall_ms, engine.logs, engine.on_appended

        def appended(tp: TopicPartition) -> None:
            note(tp, logs[tp].high_watermark, wall_ms())
            passed_on(tp)

        engine.on_appended = appended

    def forget(self, partitions: list[TopicPartition]) -> None:
        """These are gone."""
        for tp in partitions:
            self.append_times.forget(tp)

    def metrics(
        self,
        view: View,
        *,
        connections_opened: Callable[[], int],
        address: Callable[[], tuple[str, int]],
        recorder: Recorder | None,
        sentinels: Sentinels | None,
    ) -> Metrics:
        """What ``/metrics`` shows."""
        from ottla.broker.observe.metrics.collector import Metrics  # with the library, which may be missing before

        settings = self._settings
        view.record_times.noted = self.append_times
        sources = Sources(
            view=view,
            requests=self._requests,
            counters=self.counters,
            nanoseconds=perf_counter_ns,
            bounds=Bounds(
                groups=settings.ottla_metrics_max_groups,
                partitions=settings.ottla_metrics_max_partitions,
                group_partitions=settings.ottla_metrics_max_group_partitions,
            ),
            connections_opened=connections_opened,
            address=address,
            cluster_name=settings.ottla_metrics_cluster_name,
            cleanup_policy=settings.log_cleanup_policy,
            syncs=self._syncs,
            recorder=recorder,
            sentinels=sentinels,
        )
        return Metrics(sources, [name.strip() for name in settings.ottla_metrics_compat.split(",") if name.strip()])

    def _timed(self, sync: Sync) -> None:
        """Time a sync. This runs in the journal's thread, which is the only one that counts here."""
        began_ns = perf_counter_ns()
        try:
            sync()
        finally:
            self._syncs.add(perf_counter_ns() - began_ns)
