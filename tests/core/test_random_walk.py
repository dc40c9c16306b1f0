"""Clients that do anything at any time, a log that fails, a clock that jumps: nothing contradicts itself.

This is no model of good clients; it looks for states that cannot be left and for answers that get lost. A failure
names its seed.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any, Literal

import pytest

from ottla.broker.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.core import invariants
from tests.core.durable import durable_state
from tests.core.world import ENTRIES, Ctx, World
from tests.support.group_member import GroupMember
from tests.support.requests import (
    commit_fields,
    delete_offsets_fields,
    heartbeat_fields,
    leave_fields,
    offset_fetch_fields,
    request,
    subscribed,
)

SEEDS = range(400 if os.environ.get("OTTLA_TESTS") == "long" else 40)
STEPS = 250
FAILURES = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
]


class Person(GroupMember):
    """Somebody with an opinion about who it is."""

    def __init__(self, walk: Walk, name: str, instance: str | None, version: int) -> None:
        super().__init__(self._hand_over, "g", instance=instance if version >= 5 else None)
        self.walk = walk
        self.name = name
        self.version = version
        """Of JoinGroup; the members of the oldest know no instances."""
        self.open: list[Ctx] = []

    def _hand_over(self, key: ApiKey, version: int, request: Any) -> None:
        self.open.append(self.walk.world.ask(self.name, ENTRIES[key], request, version))


class Walk:
    """One seed's world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        persist: Literal["sync", "join"] = "join" if seed % 3 == 0 else "sync"
        self.world = World(
            GroupConfig(
                group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
                group_max_size=self.random.choice([2, 5, 1_000]),
                offsets_retention_ms=60_000,
                offsets_retention_check_interval_ms=30_000,
                group_generation_persist=persist,
            ),
            partition_count=2,
        )
        self.world.load()
        versions = [0, 3, 4, 5, 8, 9]
        self.people = [
            Person(self, f"p{number}", f"i{number % 3}" if number % 2 else None, self.random.choice(versions))
            for number in range(6)
        ]

    def step(self) -> None:
        person = self.random.choice(self.people)
        verbs = [self.join, self.join, self.sync, self.sync, self.heartbeat, self.heartbeat, self.commit]
        verbs += [self.leave, self.advance, self.advance, self.log, self.log, self.admin, self.hold]
        self.random.choice(verbs)(person)
        if self.random.random() < 0.004:
            self.world.restart()
        for one in self.people:
            self.learn(one)
        invariants.check(self.world.coordinator, self.world.now_ms)
        self.world.check_log()

    def learn(self, person: Person) -> None:
        for ctx in [ctx for ctx in person.open if ctx.answer is not None]:
            person.open.remove(ctx)
            if type(ctx.answer).__name__ != "JoinGroupResponse" or person.learn(ctx.answer):
                continue
            if ctx.answer.error_code != ErrorCode.MEMBER_ID_REQUIRED and self.random.random() < 0.7:
                person.member_id = ""

    def join(self, person: Person) -> None:
        names = self.random.sample(["range", "sticky", "roundrobin"], self.random.choice([1, 2, 3]))
        if "range" not in names and self.random.random() < 0.8:
            names.append("range")
        person.protocols = dict.fromkeys(names, subscribed("t"))
        person.session_ms = self.random.choice([6_000, 10_000, 30_000])
        person.rebalance_ms = self.random.choice([0, 5_000, 60_000])
        forgotten = {"member_id": ""} if self.random.random() < 0.1 else {}
        person.join(person.version, **forgotten)

    def sync(self, person: Person) -> None:
        person.sync([(other.member_id, other.name.encode()) for other in self.people])

    def heartbeat(self, person: Person) -> None:
        instance = person.instance if self.random.random() < 0.9 else "i9"
        fields = heartbeat_fields(person.group, person.generation, person.member_id, instance)
        self.world.coordinator.heartbeat(request(ApiKey.HEARTBEAT, fields), self.world.now_ms)

    def commit(self, person: Person) -> None:
        outside = self.random.random() < 0.3
        group = "g" if self.random.random() < 0.8 else "simple"
        place = self.random.choice(["t", "u"]), self.random.randrange(3), self.random.randrange(99)
        who = {} if outside else {"generation": person.generation, "member_id": person.member_id}
        person.ask(ApiKey.OFFSET_COMMIT, 8, commit_fields(group, [place], **who))

    def leave(self, person: Person) -> None:
        if self.random.random() < 0.6:
            return
        by_instance = person.instance is not None and self.random.random() < 0.5
        entry = ("", person.instance) if by_instance else (person.member_id, None)
        person.ask(ApiKey.LEAVE_GROUP, 5, leave_fields(person.group, entry))

    def advance(self, person: Person) -> None:
        self.world.advance_to(self.world.now_ms + self.random.choice([1, 500, 2_000, 7_000, 40_000]))

    def log(self, person: Person) -> None:
        world = self.world
        if not world.hold and self.random.random() < 0.2:
            world.hold = True
        elif world.held and self.random.random() < 0.6:
            world.complete(self.random.choice(FAILURES) if self.random.random() < 0.3 else ErrorCode.NONE)
            world.settle()
        elif self.random.random() < 0.3:
            world.hold = False
            world.settle()

    def admin(self, person: Person) -> None:
        group = self.random.choice(["g", "simple"])
        match self.random.randrange(4):
            case 0:
                person.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": [group]})
            case 1:
                fields = delete_offsets_fields(group, [("u", self.random.randrange(3))])
                person.ask(ApiKey.OFFSET_DELETE, 0, fields)
            case 2:
                person.ask(ApiKey.OFFSET_FETCH, 8, offset_fetch_fields(group, stable=True))
            case _:
                self.world.coordinator.topic_deleted("t", self.world.now_ms, self.world.wall_ms)
                self.world.settle()

    def hold(self, person: Person) -> None:
        """Hold the deadlines of the group, or let them go."""
        coordinator, now = self.world.coordinator, (self.world.now_ms, self.world.wall_ms)
        if "g" not in coordinator.holds:
            if self.random.random() < 0.3:
                coordinator.hold("g", *now)
        elif self.random.random() < 0.1:
            coordinator.hold("g", *now)
        else:
            coordinator.let_go("g", *now)

    def finish(self) -> None:
        """Nobody asks any more: everybody who counts is answered, and every member and group goes."""
        world = self.world
        while "g" in world.coordinator.holds:
            world.coordinator.let_go("g", world.now_ms, world.wall_ms)
        world.hold = False
        world.settle()
        world.advance_to(world.now_ms + 2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
        invariants.check(world.coordinator, world.now_ms)
        world.check_log()
        assert durable_state(world.coordinator) == {}
        assert not world.coordinator.groups
        assert {key.timer for key in world.coordinator.deadlines._due} == {"retention"}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_contradicts_itself(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()


def trace(seed: int) -> list[str]:
    walk = Walk(seed)
    for _ in range(100):
        walk.step()
    return [f"{event.group_id} {event.cause} {event.summary()}" for event in walk.world.events]


def test_one_seed_gives_one_trace() -> None:
    assert trace(1) == trace(1)
    assert trace(1) != trace(2)
