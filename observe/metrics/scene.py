"""The sources of metrics, and one look at them for all sets of a scrape, within the bounds of the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.runtime.audit import Audit
from ottla.broker.settings import Settings
from ottla.observe.metrics.counters import Counters
from ottla.observe.metrics.histogram import Durations
from ottla.observe.metrics.requests import Requests
from ottla.observe.recorder import Recorder
from ottla.observe.snapshot import ClusterState, GroupState, OffsetState, TopicState
from ottla.observe.view import View
from ottla.observe.why.history import Running

if TYPE_CHECKING:
    from ottla.observe.sentinels.board import Board


@dataclass
class Sources:
    """Everything that metrics are made of. What is None is left out.

    Attributes:
        address: host and port that clients are told.
        nanoseconds: a clock.
        authentications: how many there were, by what came of them, listener and mechanism.
        running: gives the rebalances that run.
        certificates_end: when the certificate of each listener with TLS ends, in Unix milliseconds.
    """

    view: View
    requests: Requests
    counters: Counters
    nanoseconds: Callable[[], int]
    settings: Settings
    connections_opened: Callable[[], int]
    authentications: Callable[[], Mapping[tuple[str, str, str], float]]
    address: tuple[str, int]
    syncs: Durations
    recorder: Recorder | None
    sentinels: Board | None
    audit: Audit
    certificates_end: Callable[[], Mapping[str, int]] = dict
    running: Callable[[], Iterable[Running]] = tuple


@dataclass
class GroupScene:
    """A group and its offsets."""

    state: GroupState
    offsets: list[OffsetState]

    @property
    def topics_unknown(self) -> set[str]:
        """Topics of which the group has offsets whose lag is not known here: there is no sum for them."""
        return {one.topic for one in self.offsets if one.has_unknown_end}


@dataclass
class Scene:
    """See the module. What was there first is shown first, so that series do not come and go.

    Attributes:
        partition_count: of partitions that this node leads.
        topics: those of users first.
        left_out: how many groups, partitions and pairs of both were left out.
        alarms: how many stand, by sentinel.
        recorder_bytes: what the flight recorder holds.
        collect_ns: how long the last scrape took.
    """

    cluster: ClusterState
    collect_ns: int = 0
    partition_count: int = 0
    topics: list[TopicState] = field(default_factory=list)
    groups: list[GroupScene] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    alarms: Mapping[str, int] = field(default_factory=dict)
    recorder_bytes: int = 0


TURN = 25
"""Groups, or topics, that are looked at before something else may happen."""


def looking(scene: Scene, sources: Sources) -> Iterator[None]:
    """Complete a scene, with pauses: a broker with thousands of groups has something else to do meanwhile."""
    sources.counters.running(sources.running())
    yield from _look_at_topics(scene, sources.view, sources.settings)
    yield from _look_at_groups(scene, sources.view, sources.settings)
    if sources.sentinels is not None:
        scene.alarms = sources.sentinels.active_by_sentinel()
    if sources.recorder is not None:
        scene.recorder_bytes = sources.recorder.memory_bytes


def _look_at_topics(scene: Scene, view: View, settings: Settings) -> Iterator[None]:
    found: list[TopicState] = []
    for topic in view.topics():
        found.append(topic)
        if not len(found) % TURN:
            yield
    room, left_out = settings.ottla_metrics_max_partitions, 0
    for topic in sorted(found, key=lambda one: one.is_internal):
        count = len(topic.led)
        scene.partition_count += count
        if count <= room:
            room -= count
            scene.topics.append(topic)
        else:
            left_out += count
    scene.left_out["partitions"] = left_out


def _look_at_groups(scene: Scene, view: View, settings: Settings) -> Iterator[None]:
    group_ids = view.group_ids()
    shown = group_ids[: settings.ottla_metrics_max_groups]
    room, left_out = settings.ottla_metrics_max_group_partitions, 0
    for number, group_id in enumerate(shown, 1):
        if not number % TURN:
            yield
        state = view.group(group_id)
        if state is None:
            continue
        offsets = view.offsets(group_id)
        if len(offsets) <= room:
            room -= len(offsets)
        else:
            left_out += len(offsets)
            offsets = []
        scene.groups.append(GroupScene(state, offsets))
    scene.left_out["groups"] = len(group_ids) - len(shown)
    scene.left_out["group_partitions"] = left_out
