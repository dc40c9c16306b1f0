"""Puts together who is told of the coordinator's events: log lines, recorder, history, timelines, topic, metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from ottla.broker.clock import Clock
from ottla.broker.core.events import Emit, TopicChanged, no_op
from ottla.broker.observe.group_events import GroupEvents
from ottla.broker.observe.lines import CoordinatorLines
from ottla.broker.observe.observers import Observers
from ottla.broker.observe.recorder_start import new_recorder, records
from ottla.broker.observe.timeline.live import Timelines
from ottla.broker.observe.why.history import History
from ottla.broker.runtime.group_events import GroupEventLog, topic_configs
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import Settings
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC

if TYPE_CHECKING:
    from ottla.broker.measuring import Measuring
    from ottla.broker.observe.sentinels import Sentinels
    from ottla.broker.runtime.view import View


class Observing:
    """See the module.

    Args:
        emit: takes the coordinator's events, besides those who observe them anyway; then no line is logged about them.
        logs: whether there is a log.
        view, clock: what the broker is, and its clock, once it is started.

    Attributes:
        emit: is to be told of each event of the coordinator.
        measuring: what metrics are made of; None where nobody can ask for them.
        group_event_log: None where ``ottla.group.events.enable`` is off.
        sentinels: None until `watch`, and where they are off.
    """

    def __init__(
        self,
        settings: Settings,
        log: Any,
        emit: Emit,
        *,
        logs: bool,
        view: Callable[[], View],
        clock: Callable[[], Clock],
    ) -> None:
        self.settings, self.log = settings, log
        self.recorder = new_recorder(settings, partial(token_bytes, 32))
        self.measuring = _new_measuring(settings)
        self.history = History(
            lambda: {row.name: row.value for row in settings.describe()}, settings.ottla_history_memory_bytes
        )
        self.timelines = Timelines(self.history, settings.ottla_timeline_memory_bytes, view, clock)
        self.group_event_log = GroupEventLog(log) if settings.ottla_group_events_enable else None
        self.sentinels: Sentinels | None = None
        self._view = view
        self._group_events: GroupEvents | None = None
        self.emit = self._observers(emit, logs)

    def _observers(self, emit: Emit, logs: bool) -> Observers:
        """All who are told, in this order."""
        settings = self.settings
        observers: list[Emit] = []
        if logs and emit is no_op:
            observers.append(CoordinatorLines(self.log))
        if records(settings):
            observers.append(self.recorder)
        if self.group_event_log is not None:
            # Before the history, which forgets who goes.
            self._group_events = GroupEvents(self.history, self.group_event_log.put, self.recorder.hashes)
            observers.append(self._group_events)
            self.history.on_episode.append(self._group_events.on_episode)
        if settings.ottla_history_memory_bytes:
            observers += [self.history, self.timelines]
        elif self._group_events is not None:
            observers.append(self.history)  # it keeps nothing, but tells of each episode
        if self.measuring is not None:
            observers.append(self.measuring.counters)
            self.history.on_episode.append(self.measuring.counters.on_episode)
        if emit is not no_op:
            observers.append(emit)
        return Observers(observers, self.log, wants_requests=settings.ottla_sentinel_enable)

    def watch(self, clock: Clock) -> None:
        """Look after groups from now on, if that is wanted."""
        if not self.settings.ottla_sentinel_enable:
            return
        from ottla.broker.observe.sentinels import Sentinels

        recorder = self.recorder if records(self.settings) else no_op
        self.sentinels = Sentinels(self._view, self.settings, self.log, recorder)
        self.history.on_episode.append(self.sentinels.on_episode)
        if self._group_events is not None:
            self.sentinels.on_alarm.append(self._group_events.on_alarm)
        self.emit.add(self.sentinels)
        self.sentinels.start(clock)

    async def begin(self, topics: TopicManager, clock: Clock) -> None:
        """Tell of what becomes of topics; have the topic of group events, if it is wanted, and write to it from now on.

        It is there from the start: whoever begins to read before the first group comes must not take it for missing.

        Raises:
            EngineError: it could not be created.
        """
        topics.on_changed = partial(self._topic_changed, clock)
        if self.group_event_log is None:
            return
        settings = self.settings
        await topics.create_internal(
            GROUP_EVENTS_TOPIC, settings.ottla_group_events_topic_num_partitions, topic_configs(settings)
        )
        self.group_event_log.begin(
            topics.partition,
            topics.partition_count(GROUP_EVENTS_TOPIC),
            clock,
            max_batch_bytes=settings.message_max_bytes,
        )

    def _topic_changed(self, clock: Clock, topic: str, partitions_before: int, partitions: int) -> None:
        self.emit(
            TopicChanged(
                group_id="",
                cause=0,
                at_ms=clock.monotonic_ms(),
                wall_ms=clock.wall_ms(),
                topic=topic,
                partitions=partitions,
                partitions_before=partitions_before,
            )
        )


def _new_measuring(settings: Settings) -> Measuring | None:
    """What metrics are made of, where somebody can ask for them."""
    if not settings.ottla_http_listen:
        return None
    from ottla.broker.measuring import Measuring

    return Measuring(settings)
