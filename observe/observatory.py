"""Observes a broker as its settings say: log lines, recorder, history, timelines, topic, sentinels, metrics, HTTP."""

from __future__ import annotations

import asyncio
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ottla.broker.clock import Clock
from ottla.broker.core.events import Observer, TopicChanged
from ottla.broker.engine import StorageFull
from ottla.broker.logger import Silent
from ottla.broker.observing import Address, Observing
from ottla.broker.runtime.group_events import GroupEventLog, topic_configs
from ottla.broker.settings import Settings
from ottla.observe.group_events import GroupEvents
from ottla.observe.lines import CoordinatorLines
from ottla.observe.observers import Observers
from ottla.observe.recorder_start import begin_file, new_header, new_recorder
from ottla.observe.timeline.live import Timelines
from ottla.observe.why.episode_file import NAME, EpisodeFile
from ottla.observe.why.explain import Explanations
from ottla.observe.why.history import History
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ottla.broker.cluster.view import NodeInfo
    from ottla.broker.core.groups.coordinator import GroupCoordinator
    from ottla.broker.core.topics.partition import Topic
    from ottla.broker.dispatch import Dispatcher
    from ottla.broker.engine import Engine
    from ottla.broker.handlers.services import Explain, Services
    from ottla.broker.net.socket_server import SocketServer
    from ottla.broker.runtime.topics import TopicManager
    from ottla.observe.http.api import Endpoint
    from ottla.observe.http.server import HttpPort
    from ottla.observe.http.visitors import Visitor
    from ottla.observe.measuring import Measuring
    from ottla.observe.sentinels.watch import Sentinels
    from ottla.observe.view import View
    from ottla.protocol.records import TopicPartition

EVERYWHERE = ("0.0.0.0", "::")
SENTINELS_AFTER_MS = 1_000
"""Sentinels begin so long after the start, or at once where they can be seen by HTTP."""


class Observatory(Observing):
    """See the module and `Observing`.

    Args:
        log: a structlog logger; nothing is logged without one.
        records_all: whether the recorder keeps every event in memory, so that `recording` can be played back.

    Attributes:
        measuring: None where nobody can ask for metrics.
        group_event_log: None where ``ottla.group.events.enable`` is off.
        sentinels: None where they are off, and in the first second.
        http: None where ``ottla.http.listen`` is not set.
        why_down: says why another node is down; may be set until the broker is ready.
    """

    def __init__(self, settings: Settings, log: Any = None, *, records_all: bool = False) -> None:
        self.settings = settings
        self.log = Silent() if log is None else log
        self.recorder = new_recorder(settings, wants_all=records_all)
        self.measuring: Measuring | None = None
        if settings.ottla_http_listen:
            from ottla.observe.measuring import Measuring  # nobody can ask for metrics without HTTP

            self.measuring = Measuring(settings)
        self.history = History(
            lambda: {row.name: row.value for row in settings.describe() if row.value is not None},
            settings.ottla_history_memory_bytes,
        )
        self.timelines = Timelines(self.history, settings.ottla_timeline_memory_bytes)
        self.group_event_log = GroupEventLog(self.log) if settings.ottla_group_events_enable else None
        self.sentinels: Sentinels | None = None
        self.http: HttpPort | None = None
        self.why_down: Callable[[int], str] = lambda node_id: ""
        self.clock: Clock
        self._engine: Engine
        self._services: Services
        self._topics: TopicManager
        self._group_events: GroupEvents | None = None
        self._episodes: EpisodeFile | None = None
        self._stopped = False
        self.observer: Observers = self._observers(logs=log is not None)

    def _observers(self, *, logs: bool) -> Observers:
        """All who are told, in this order."""
        settings = self.settings
        observers: list[Observer] = []
        if logs:
            observers.append(CoordinatorLines(self.log))
        if settings.ottla_recorder_memory_bytes or settings.ottla_recorder_file:
            observers.append(self.recorder)
        if self.group_event_log is not None:
            # Before the history, which forgets who goes.
            self._group_events = GroupEvents(self.history, self.group_event_log.put, self.recorder.hashes)
            observers.append(self._group_events)
            self.history.on_episode.append(self._group_events.on_episode)
        if settings.ottla_history_memory_bytes:
            observers.append(self.history)
            if self.timelines.traffic is not None:
                observers.append(self.timelines.traffic)
        elif self._group_events is not None:
            observers.append(self.history)  # it keeps nothing, but tells of each episode
        if self.measuring is not None:
            observers.append(self.measuring.counters)
            self.history.on_episode.append(self.measuring.counters.on_episode)
        return Observers(observers, self.log, wants_requests=settings.ottla_sentinel_enable)

    async def start(self, clock: Clock) -> None:
        self.clock = clock
        self._started_ms, self._started_at_ms = clock.wall_ms(), clock.monotonic_ms()
        self.observer.defer(asyncio.get_running_loop().call_soon)
        if self.settings.ottla_http_listen:
            # Before anything is loaded, so that one can ask how far it is.
            from ottla.observe.http.start import start_http

            self.http = await start_http(self.settings, self.log)

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of the HTTP port; an empty host stands for every name of this machine. None where it is not."""
        if self.http is None:
            return None
        return "" if self.http.host in EVERYWHERE else self.http.host, self.http.port

    def topic_changed(self, topic: str, partitions_before: int, partitions: int) -> None:
        self.observer(
            TopicChanged(
                group_id="",
                cause=0,
                at_ms=self.clock.monotonic_ms(),
                wall_ms=self.clock.wall_ms(),
                topic=topic,
                partitions=partitions,
                partitions_before=partitions_before,
            )
        )

    def topic_deleted(self, topic: Topic) -> None:
        if "view" in self.__dict__:
            self.view.record_times.forget(topic.name)
        if self.measuring is not None:
            for partition in topic.partitions:
                self.measuring.append_times.forget(partition.tp)

    async def begin(self, engine: Engine, topics: TopicManager, directory: Path | None) -> None:
        self._engine, self._topics = engine, topics
        if topics.placement.dealt_to:  # one of several nodes
            self.history.node = str(engine.node_id)
        if directory is not None and self.history.keeps and self.settings.ottla_history_file_enable:
            self._episodes = EpisodeFile(directory / NAME, self.history.store, self.clock, self.log)
            await self._episodes.begin()
        if self.group_event_log is not None:
            await self._begin_group_events(self.group_event_log, topics)
        begin_file(self.recorder, self.settings, engine, topics.partition_count(OFFSETS_TOPIC), self.clock, self.log)
        if self.measuring is not None:
            self.measuring.begin(engine, topics, self.clock)

    async def _begin_group_events(self, log: GroupEventLog, topics: TopicManager) -> None:
        """Have the topic from the start: whoever reads before the first group comes must not take it for missing."""
        settings = self.settings
        await topics.create_internal(
            GROUP_EVENTS_TOPIC, settings.ottla_group_events_topic_num_partitions, topic_configs(settings)
        )
        log.begin(
            topics.partition,
            topics.partition_count(GROUP_EVENTS_TOPIC),
            self.clock,
            max_batch_bytes=settings.message_max_bytes,
        )

    def explain(self, coordinator: GroupCoordinator, software_of: Callable[[str, str], str]) -> Explain | None:
        self._coordinator, self._software_of = coordinator, software_of
        self.timelines.begin(lambda: self.view, self.clock)
        self.history.now_ms = self.clock.wall_ms
        if not self.history.keeps:
            return None
        return Explanations(
            self.history,
            self.clock.wall_ms,
            recorder=self.recorder,
            timelines=self.timelines,
            is_group=coordinator.groups.__contains__,
        )

    def dispatcher(self, services: Services, log: Any, codec: str) -> Dispatcher:
        self._services = services
        if self.measuring is None:
            return super().dispatcher(services, log, codec)
        return self.measuring.dispatcher(services, log, codec)

    def watch_appends(self, appended: Callable[[TopicPartition], None]) -> Callable[[TopicPartition], None]:
        return appended if self.measuring is None else self.measuring.watch_appends(appended)

    def ready(self, address: Address, server: SocketServer) -> None:
        self._listening, self._server = address.listening, server
        if self.http is None:
            self.clock.call_at(self.clock.monotonic_ms() + SENTINELS_AFTER_MS, self._watch)
        else:
            self._watch()
            self._open(self.http, address, server)

    @cached_property
    def view(self) -> View:
        """The broker as it is, once it is ready: made, and imported, when somebody looks."""
        from ottla.observe.view import Identity, View

        engine = self._engine
        identity = Identity(engine.node_id, engine.cluster_id, _version(), self._listening, self._started_ms)
        return View(
            identity,
            self._coordinator,
            self._topics,
            self.clock,
            server=self._server,
            software_of=self._software_of,
            why_down=self.why_down,
        )

    def recording(self) -> bytes:
        """The file of a recording of all that is in memory; empty if nothing is. Also of a broker that has stopped."""
        from ottla.observe.recording import beginning, frame

        recorder = self.recorder
        rows = sorted(
            row for group_id in ("", *recorder.group_ids()) for row in recorder.events(group_id, limit=sys.maxsize)
        )
        if not rows:
            return b""
        header = new_header(
            recorder,
            self.settings,
            self._engine,
            self._topics.partition_count(OFFSETS_TOPIC),
            started_ms=self._started_ms,
            started_at_ms=self._started_at_ms,
        )
        header.first_seq = rows[0][0]
        return beginning(header, as_json=False) + b"".join(frame(*row) for row in rows)

    def _watch(self) -> None:
        """Look after groups from now on, if that is wanted: not before the start is through."""
        if not self.settings.ottla_sentinel_enable or self._stopped:
            return
        from ottla.observe.sentinels.watch import Sentinels

        self.sentinels = Sentinels(self.view, self.settings, self.log, self.clock, self.observer)
        self.history.on_episode.append(self.sentinels.on_episode)
        if self._group_events is not None:
            self.sentinels.board.on_alarm.append(self._group_events.on_alarm)
        self.observer.add(self.sentinels)
        self.sentinels.start()

    def _open(self, port: HttpPort, address: Address, server: SocketServer) -> None:
        from ottla.observe.http.parts import Parts

        recorder = self.recorder if self.settings.ottla_recorder_memory_bytes else None
        history = self.history if self.history.keeps else None
        alarms = None if self.sentinels is None else self.sentinels.board
        assert self.measuring is not None
        metrics = self.measuring.metrics(
            self.view, server, address.told, recorder, alarms, self.history, port.certificates_end
        )
        self.timelines.watch()
        timelines = self.timelines if history is not None else None

        audit = self._services.audit

        def tell_failed(visitor: Visitor, mechanism: str, reason: str) -> None:
            server.count_authentication("failed_authentications", visitor.session.listener, mechanism)
            audit.tell_once("authentication_failed", visitor, reason, mechanism=mechanism, reason=reason)

        parts = Parts(self.view, self.clock, recorder, history, timelines, alarms, metrics)
        parts.permits = self._services.permits
        parts.tell_failed = tell_failed
        parts.tell_entered = lambda who: audit.tell_debugging("authenticated", who, mechanism="token")
        self.observer.add(parts.changes)
        port.health.refusal = self._refusal
        port.health.nodes_down = lambda: self._nodes(lambda node: not node.is_up)
        port.health.nodes_silent = lambda: self._nodes(lambda node: node.is_silent)
        port.allow(address.told[0])
        port.open(parts, self.endpoints())

    def endpoints(self) -> Sequence[Endpoint]:
        """What the HTTP port serves besides what every broker shows."""
        return ()

    def _refusal(self) -> str:
        """Why nothing can be written at the moment, in the word that probes are told."""
        refusal = self._engine.refusal
        return "" if refusal is None else "full" if isinstance(refusal, StorageFull) else "degraded"

    def _nodes(self, which: Callable[[NodeInfo], bool]) -> list[int]:
        """Those of the nodes, by id."""
        return sorted(node.node_id for node in self._topics.placement.view.nodes.values() if which(node))

    def tell_ready(self) -> None:
        if self.http is not None:
            self.http.tell_ready()

    def look_at_keys(self) -> None:
        if self.http is not None:
            self.http.look_at_keys()

    def failed(self) -> None:
        if self.http is not None:
            self.http.health.status = "failed"

    def stopping(self) -> None:
        if self.http is not None:
            self.http.stopping()
        self._stop_watching()

    def _stop_watching(self) -> None:
        self._stopped = True
        if self.sentinels is not None:
            self.sentinels.stop()

    def drained(self) -> None:
        self.observer.defer(None)
        self.timelines.close()
        if self.group_event_log is not None:
            self.group_event_log.stop()

    def silence(self) -> None:
        self.observer.defer(None)
        self._stop_watching()
        self.timelines.close()
        if self.group_event_log is not None:
            self.group_event_log.silence()

    async def stop(self) -> None:
        self.observer.defer(None)
        self.timelines.close()
        if self._episodes is not None:
            await self._episodes.close()
        if (file := self.recorder.file) is not None:
            await asyncio.to_thread(file.close)
        if self.http is not None:
            await self.http.stop()
            self.http = None


def _version() -> str:
    from importlib.metadata import version  # takes longer to import than most of the broker

    return version("ottla")
