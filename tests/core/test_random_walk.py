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
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core import invariants
from tests.core.durable import durable_state
from tests.core.world import Ctx, World

SEEDS = range(400 if os.environ.get("OTTLA_TESTS") == "long" else 40)
STEPS = 250
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
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

    def ask(self, person: Person, api: str, request: Any, version: int) -> None:
        ctx = self.world.ask(person.name, api, request, version)
        person.open.append(ctx)
        self.everything.append(ctx)

    def join(self, person: Person) -> None:
        names = self.random.sample(["range", "sticky", "roundrobin"], self.random.choice([1, 2, 3]))
        if "range" not in names and self.random.random() < 0.8:
            names.append("range")
        request = JoinGroupRequest(
            group_id=person.group,
            session_timeout_ms=self.random.choice([6_000, 10_000, 30_000]),
            rebalance_timeout_ms=self.random.choice([0, 5_000, 60_000]),
            member_id="" if self.random.random() < 0.1 else person.member_id,
            group_instance_id=person.instance if person.version >= 5 else None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in names],
        )
        self.ask(person, "join", request, person.version)

    def sync(self, person: Person) -> None:
        everybody = [
            SyncGroupRequestAssignment(member_id=other.member_id, assignment=other.name.encode())
            for other in self.people
        ]
        request = SyncGroupRequest(
            group_id=person.group,
            generation_id=person.generation,
            member_id=person.member_id,
            group_instance_id=person.instance if person.version >= 5 else None,
            protocol_type="consumer",
            protocol_name=person.protocol or "range",
            assignments=everybody,
        )
        self.ask(person, "sync", request, 5)

    def heartbeat(self, person: Person) -> None:
        request = HeartbeatRequest(
            group_id=person.group,
            generation_id=person.generation,
            member_id=person.member_id,
            group_instance_id=person.instance if self.random.random() < 0.9 else "i9",
        )
        self.world.coordinator.heartbeat(request, self.world.now_ms)

    def commit(self, person: Person) -> None:
        outside = self.random.random() < 0.3
        request = OffsetCommitRequest(
            group_id=person.group if self.random.random() < 0.8 else "simple",
            generation_id_or_member_epoch=-1 if outside else person.generation,
            member_id="" if outside else person.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.random.choice(["t", "u"]),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=self.random.randrange(3), committed_offset=self.random.randrange(99)
                        )
                    ],
                )
            ],
        )
        self.ask(person, "commit_offsets", request, 8)

    def leave(self, person: Person) -> None:
        if self.random.random() < 0.6:
            return
        by_instance = person.instance is not None and self.random.random() < 0.5
        entry = MemberIdentity(
            member_id="" if by_instance else person.member_id,
            group_instance_id=person.instance if by_instance else None,
        )
        self.ask(person, "leave", LeaveGroupRequest(group_id=person.group, members=[entry]), 5)

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
                self.ask(person, "delete_groups", DeleteGroupsRequest(groups_names=[group]), 2)
            case 1:
                partition = OffsetDeleteRequestPartition(partition_index=self.random.randrange(3))
                topic = OffsetDeleteRequestTopic(name="u", partitions=[partition])
                self.ask(person, "delete_offsets", OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
            case 2:
                wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
                request = OffsetFetchRequest(groups=[wanted], require_stable=True)
                self.ask(person, "fetch_offsets", request, 8)
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
