"""Clients that do anything at any time, a log that fails, a clock that jumps: nothing contradicts itself.

This is no model of good clients; it looks for states that cannot be left and for answers that get lost. A failure
names its seed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import pytest

from ottla.broker.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.core import invariants
from tests.core.world import Ctx, World
from tests.support.requests import (
    commit_fields,
    delete_offsets_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    offset_fetch_fields,
    request,
    subscribed,
    sync_fields,
)

SEEDS = range(400 if os.environ.get("OTTLA_TESTS") == "long" else 40)
STEPS = 250
FAILURES = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
]


@dataclass
class Person:
    """Somebody with an opinion about who it is."""

    name: str
    instance: str | None
    version: int
    group: str = "g"
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    open: list[Ctx] = field(default_factory=list)


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
            Person(f"p{number}", f"i{number % 3}" if number % 2 else None, self.random.choice(versions))
            for number in range(6)
        ]
        self.everything: list[Ctx] = []

    def step(self) -> None:
        person = self.random.choice(self.people)
        verbs = [self.join, self.join, self.sync, self.sync, self.heartbeat, self.heartbeat, self.commit]
        verbs += [self.leave, self.advance, self.advance, self.log, self.log, self.admin]
        self.random.choice(verbs)(person)
        if self.random.random() < 0.004:
            self.world.restart()
            self.everything.clear()
        for one in self.people:
            self.learn(one)
        invariants.check(self.world.coordinator, self.world.now_ms)
        self.world.check_log()

    def learn(self, person: Person) -> None:
        for ctx in [ctx for ctx in person.open if ctx.answer is not None]:
            person.open.remove(ctx)
            answer = ctx.answer
            if type(answer).__name__ != "JoinGroupResponse":
                continue
            if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                person.member_id = answer.member_id
            elif self.random.random() < 0.7:
                person.member_id = ""
            if not answer.error_code:
                person.generation = answer.generation_id
                person.protocol = answer.protocol_name

    def ask(self, person: Person, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
        ctx = self.world.send(person.name, key, version, fields)
        person.open.append(ctx)
        self.everything.append(ctx)

    def join(self, person: Person) -> None:
        names = self.random.sample(["range", "sticky", "roundrobin"], self.random.choice([1, 2, 3]))
        if "range" not in names and self.random.random() < 0.8:
            names.append("range")
        fields = join_fields(
            person.group,
            session_ms=self.random.choice([6_000, 10_000, 30_000]),
            rebalance_ms=self.random.choice([0, 5_000, 60_000]),
            member_id="" if self.random.random() < 0.1 else person.member_id,
            instance=person.instance,
            protocols=dict.fromkeys(names, subscribed("t")),
        )
        self.ask(person, ApiKey.JOIN_GROUP, person.version, fields)

    def sync(self, person: Person) -> None:
        fields = sync_fields(
            person.group,
            person.generation,
            person.member_id,
            [(other.member_id, other.name.encode()) for other in self.people],
            instance=person.instance if person.version >= 5 else None,
            protocol_name=person.protocol or "range",
        )
        self.ask(person, ApiKey.SYNC_GROUP, 5, fields)

    def heartbeat(self, person: Person) -> None:
        instance = person.instance if self.random.random() < 0.9 else "i9"
        fields = heartbeat_fields(person.group, person.generation, person.member_id, instance)
        self.world.coordinator.heartbeat(request(ApiKey.HEARTBEAT, fields), self.world.now_ms)

    def commit(self, person: Person) -> None:
        outside = self.random.random() < 0.3
        group = person.group if self.random.random() < 0.8 else "simple"
        place = self.random.choice(["t", "u"]), self.random.randrange(3), self.random.randrange(99)
        who = {} if outside else {"generation": person.generation, "member_id": person.member_id}
        self.ask(person, ApiKey.OFFSET_COMMIT, 8, commit_fields(group, [place], **who))

    def leave(self, person: Person) -> None:
        if self.random.random() < 0.6:
            return
        by_instance = person.instance is not None and self.random.random() < 0.5
        entry = ("", person.instance) if by_instance else (person.member_id, None)
        self.ask(person, ApiKey.LEAVE_GROUP, 5, leave_fields(person.group, entry))

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
                self.ask(person, ApiKey.DELETE_GROUPS, 2, {"groups_names": [group]})
            case 1:
                fields = delete_offsets_fields(group, [("u", self.random.randrange(3))])
                self.ask(person, ApiKey.OFFSET_DELETE, 0, fields)
            case 2:
                self.ask(person, ApiKey.OFFSET_FETCH, 8, offset_fetch_fields(group, stable=True))
            case _:
                self.world.coordinator.topic_deleted("t", self.world.now_ms, self.world.wall_ms)
                self.world.settle()

    def finish(self) -> None:
        """Nobody asks any more: everybody who counts is answered, and every member and group goes."""
        world = self.world
        world.hold = False
        world.settle()
        world.advance_to(world.now_ms + 2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
        invariants.check(world.coordinator, world.now_ms)
        world.check_log()
        assert world.coordinator.durable_state() == {}
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
