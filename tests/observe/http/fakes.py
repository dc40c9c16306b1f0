"""Parts of a broker that tests set as they like, and a clock that they move."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import (
    ClusterState,
    GroupBrief,
    GroupState,
    OffsetState,
    TopicState,
)
from ottla.observe.why.history import Pause
from ottla.observe.why.model import Episode, Fault
from ottla.observe.why.store import Cost
from tests.shell.host import Clock, Timer


class ManualClock(Clock):
    """A clock that moves when it is told to, in the year 2026."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000

    def wall_ms(self) -> int:
        return 1_767_225_600_000 + self.now_ms

    def pending(self) -> list[Timer]:
        """Those that wait."""
        return [one for one in self.timers if not one.cancelled]


class FakeHistory:
    """Episodes that a test puts in."""

    def __init__(self) -> None:
        self.on_episode: list[Callable[[Episode], None]] = []
        self.kept: list[Episode] = []

    async def each(
        self,
        group_id: str,
        pause: Pause,
        *,
        last: int | None = None,
        since_ms: int | None = None,
        generation: int | None = None,
    ) -> AsyncIterator[Episode]:
        found = [one for one in self.kept if one.group_id == group_id]
        for one in found if last is None else found[-last:]:
            yield one
            await pause()

    def faults(self, group_id: str) -> list[Fault]:
        return []

    def knows(self, group_id: str) -> bool:
        return any(one.group_id == group_id for one in self.kept)

    def explain(self, episode: Episode) -> Episode:
        return replace(episode, headline=f"explained: {episode.cause}")

    async def costs(self, since_ms: int, pause: Pause, *, most: int) -> list[Cost]:
        costs: dict[str, Cost] = {}
        for one in self.kept:
            if max(one.started_ms, one.last_ms) >= since_ms:
                costs.setdefault(one.group_id, Cost(one.group_id)).add(one)
        felt = [cost for cost in costs.values() if cost.stood_ms or cost.refused]
        return sorted(felt, key=lambda cost: -cost.stood_ms)[:most]

    def end(self, episode: Episode) -> None:
        """Keep an episode that has ended, and tell of it."""
        self.kept.append(episode)
        self.ended(episode)

    def ended(self, episode: Episode) -> None:
        """Tell of an episode."""
        for follower in self.on_episode:
            follower(episode)


class FakeSentinels:
    """Alarms that a test puts in."""

    def __init__(self) -> None:
        self.standing: list[Alarm] = []
        self.ended: list[Alarm] = []

    def active(self) -> list[Alarm]:
        return self.standing

    def recent(self) -> list[Alarm]:
        return self.ended


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.debug, self.info, self.warning, self.error = map(self._level, ("debug", "info", "warning", "error"))

    def _level(self, name: str) -> Callable[..., None]:
        return lambda event, **fields: self.told.append((name, event, fields))

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Level and event of each."""
        return [(level, event) for level, event, _ in self.told]

    def of(self, level: str) -> list[tuple[str, dict[str, Any]]]:
        """Event and fields of those of a level."""
        return [(event, fields) for at, event, fields in self.told if at == level]


class ShownView:
    """A view of groups, their offsets and topics that a test puts in."""

    started_ms = 0

    def __init__(self) -> None:
        self.groups: dict[str, GroupState] = {}
        self.committed: dict[str, list[OffsetState]] = {}
        self.all_topics: dict[str, TopicState] = {}

    def cluster(self) -> ClusterState:
        states = Counter(group.state for group in self.groups.values())
        counts = len(self.all_topics), len(self.groups)
        return ClusterState(1, "cluster", "0.1.0", "127.0.0.1:9092", self.started_ms, now_ms(), 24, *counts, states)

    def topics(self) -> Iterator[TopicState]:
        return iter(self.all_topics.values())

    def topic(self, name: str) -> TopicState | None:
        return self.all_topics.get(name)

    def group_ids(self) -> list[str]:
        return list(self.groups)

    def brief(self, group_id: str) -> GroupBrief | None:
        group = self.groups.get(group_id)
        if group is None:
            return None
        rows = self.committed.get(group_id, [])
        lag = sum(row.lag or 0 for row in rows) if rows else None
        topics = sorted({row.topic for row in rows} | {one for member in group.members for one in member.topics or []})
        counts = group.generation, len(group.members)
        return GroupBrief(group_id, group.state, *counts, group.protocol_name, lag, topics, group.state_since_ms)

    def group(self, group_id: str) -> GroupState | None:
        return self.groups.get(group_id)

    def offsets(self, group_id: str) -> list[OffsetState]:
        return self.committed.get(group_id, [])


class FakeView(ShownView):
    """A view of groups that are alike; it counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.broken = False

    def put(self, group_id: str, state: str = "Stable", lag: int = 0) -> None:
        """Have a group, or another state of it."""
        self.groups[group_id] = GroupState(group_id, 0, state, 1, "consumer", "range", 0, [], [], "", 0, [])
        self.committed[group_id] = [OffsetState("orders", 0, 1, 0, "", 0, 1 + lag, lag, None, None)]

    def brief(self, group_id: str) -> GroupBrief | None:
        if self.broken:
            raise RuntimeError("a bug")
        self.asked.append(group_id)
        return super().brief(group_id)


def now_ms() -> int:
    """Unix time."""
    return time.time_ns() // 1_000_000
