"""Clients that do anything at any time: what the history believes of a group is what the coordinator knows.

And whatever it makes of that can be told: every index is one of a member, every time lies within the episode.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.broker.core.events import FaultFired
from ottla.observe.why.causes import Cause
from ottla.observe.why.history import History
from ottla.observe.why.interference import MOST_TOLD, REACH_MS
from ottla.observe.why.model import Episode
from tests.core.test_random_walk import Walk

STEPS = 300


APIS = ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit"]


class Watched(Walk):
    """A walk that is followed. A coordinator that starts anew has a history of its own, as another process has."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.chance = Random(seed)
        self.history = History()
        self.told = 0
        self.ended: list[Episode] = []
        self.history.on_episode.append(self.ended.append)
        restart = self.world.restart

        def anew() -> None:
            self.follow()
            self.history = History()
            self.history.on_episode.append(self.ended.append)
            restart()

        self.world.restart = anew  # type: ignore[method-assign]
        self.world.check_log = lambda: None  # type: ignore[method-assign]

    def step(self) -> None:
        super().step()
        if self.chance.random() < 0.2:
            person = self.chance.choice(self.people)
            about: dict[str, Any] = {"group_id": "g", "cause": 0, "client_id": person.name, "fault": "deaf"}
            about |= {"at_ms": self.world.now_ms, "wall_ms": self.world.wall_ms, "member_id": person.member_id}
            api, done = self.chance.choice(APIS), self.chance.choice(["dropped the answer", "restarted the broker"])
            self.world.events.append(FaultFired(**about, api=api, done=done))

    def follow(self) -> None:
        events = self.world.events
        for event in events[self.told :]:
            self.history(event)
        self.told = len(events)

    def compare(self) -> None:
        groups = self.world.coordinator.groups
        for group_id, tracker in self.history._accounts.items():
            group = groups.get(group_id)
            assert set(tracker.members) == (set(group.members) if group is not None else set())
            if group is None:
                continue
            assert tracker.leader_id == group.leader_id
            assert (tracker.run is not None) == (group.state in ("PreparingRebalance", "CompletingRebalance"))
            if group.members:
                assert tracker.generation == group.generation
                assert tracker.state == group.state
            for member in group.members.values():
                known = tracker.members[member.member_id]
                if group.state == "Stable":
                    assert known.assignment == member.assignment
                assert known.session_timeout_ms == member.session_timeout_ms
                assert known.rebalance_timeout_ms == member.rebalance_timeout_ms


def check(episode: Episode) -> None:
    members = range(-1, len(episode.members))
    assert episode.cause in set(Cause)
    assert episode.culprit in members
    assert episode.triggers
    assert 0 <= sum(part.blamed_ms for part in episode.members) <= episode.stood_ms
    for trigger in episode.triggers:
        assert trigger.cause in set(Cause)
        assert trigger.member in members
        assert 0 <= trigger.at_ms <= max(episode.duration_ms, 0) or episode.duration_ms < 0
    opened = 0
    for wait in episode.waits:
        assert opened <= wait.opened_ms
        opened = wait.opened_ms
        assert set(wait.last) | set(wait.absent) <= set(members[1:])
        if episode.duration_ms >= 0:
            assert wait.opened_ms <= wait.closed_ms <= episode.duration_ms
    assert len(episode.faults) <= MOST_TOLD
    for fault in episode.faults:
        assert fault.first_ms <= fault.last_ms
        assert episode.started_ms - fault.last_ms <= REACH_MS
    for pause in episode.pauses:
        assert not pause.until_ms or pause.from_ms <= pause.until_ms
    for part in episode.members:
        assert part.came_ms <= max(episode.duration_ms, part.came_ms if episode.duration_ms < 0 else 0)
    assert len({part.member_id for part in episode.members}) == len(episode.members) or episode.kind == "refusal"
    for move in episode.moves:
        assert move.owner_before in members
        assert move.owner_after in members
    assert episode.headline.endswith(".")
    assert all(text.endswith((".", "?")) for text in episode.sentences)


LONG = [pytest.param(seed, marks=pytest.mark.slow) for seed in (6, *range(8, 24))]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 7, *LONG])
def test_a_walk(seed: int) -> None:
    walk = Watched(seed)
    for _ in range(STEPS):
        walk.step()
        walk.follow()
        walk.compare()
    for group_id in walk.history.group_ids():
        episodes = walk.history.episodes(group_id)
        for one in episodes:
            check(one)
        numbers = [one.number for one in episodes if one.outcome != "running"]
        assert numbers == sorted(set(numbers))
    for one in walk.ended:
        check(walk.history.explain(one))
    assert len(walk.ended) > 5


def test_nothing_of_a_walk_is_unknown() -> None:
    """All is seen from the start, so that nothing has to be told as unknown."""
    causes: set[str] = set()
    for seed in range(100, 106):
        walk = Watched(seed)
        for _ in range(STEPS):
            walk.step()
            walk.follow()
        causes |= {one.cause for one in walk.ended}
    assert "unknown" not in causes
    assert len(causes) > 10
