"""Which connections belong to which members, and what the coordinator hears when one is lost."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.core.events import Disconnected
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.protocol.apis import ApiKey
from tests.core.world import World as CoreWorld
from tests.support.requests import join_fields, leave_fields, request


class Line:
    """A connection."""

    local_host, local_port = "127.0.0.1", 9092
    answer_room_bytes = 1 << 30

    def __init__(self, host: str, software: str = "") -> None:
        self.client_host = host
        self.client_software = software
        self.half_closed = False
        self.on_gone: Any = None

    def finish(self, ctx: RequestContext, frame: Any) -> None: ...
    def abort(self, reason: str) -> None: ...
    def go_on(self) -> None: ...
    def mute(self, hold: RequestContext) -> None: ...

    def close(self) -> None:
        tell, self.on_gone = self.on_gone, None
        if tell is not None:
            tell()


def context(line: Line, version: int) -> RequestContext:
    return RequestContext(line, version, 1, "c", lambda response, _: b"")


class World(CoreWorld):
    """Members join over connections."""

    def __init__(self) -> None:
        super().__init__(GroupConfig(), 1)
        self.load()
        self.members = MemberConnections(self.coordinator, lambda: (7, 1007))

    def join(
        self, line: Line, member_id: str = "", *, group_id: str = "g", version: int = 9, instance: str | None = None
    ) -> str:
        """Join; returns the member id that was issued, if one was."""
        fields = join_fields(group_id, member_id=member_id, instance=instance, session_ms=10_000, rebalance_ms=10_000)
        asked, ctx = request(ApiKey.JOIN_GROUP, fields), context(line, version)
        answer = self.coordinator.join(asked, ctx, 0, 0)
        self.members.joined(asked, ctx, answer)
        return answer.member_id if answer is not None else ""

    def add(self, line: Line, group_id: str = "g") -> str:
        """Join as clients do: with the id that was issued."""
        member_id = self.join(line, group_id=group_id)
        self.join(line, member_id, group_id=group_id)
        return member_id

    @property
    def lost(self) -> list[tuple[str, str, str]]:
        found = [event for event in self.events if isinstance(event, Disconnected)]
        assert all((event.at_ms, event.wall_ms, event.client_id) == (7, 1007, "c") for event in found)
        return [(event.group_id, event.member_id, event.client_host) for event in found]


@pytest.fixture
def world() -> World:
    return World()


def test_a_member_whose_connection_is_lost(world: World) -> None:
    line = Line("/a")
    member_id = world.add(line)
    assert not world.lost
    line.close()
    line.close()
    assert world.lost == [("g", member_id, "/a")]


def test_an_id_that_was_issued_and_not_used(world: World) -> None:
    line = Line("/a")
    member_id = world.join(line)
    line.close()
    assert world.lost == [("g", member_id, "/a")]


def test_all_members_and_groups_of_one_connection(world: World) -> None:
    line = Line("/a")
    first, second, other = world.add(line), world.add(line), world.add(line, "h")
    line.close()
    assert world.lost == [("g", first, "/a"), ("g", second, "/a"), ("h", other, "/a")]


def test_a_member_that_joined_again_over_another_connection(world: World) -> None:
    old, new = Line("/a"), Line("/b")
    member_id = world.add(old)
    world.join(new, member_id)
    old.close()
    assert not world.lost
    new.close()
    assert world.lost == [("g", member_id, "/b")]


@pytest.mark.parametrize(("version", "instance", "member_id"), [(3, None, "c-1"), (9, "i", "i-1")])
def test_members_that_do_not_know_their_id_yet(
    world: World, version: int, instance: str | None, member_id: str
) -> None:
    line = Line("/a")
    world.join(line, version=version, instance=instance)
    line.close()
    assert world.lost == [("g", member_id, "/a")]


def test_a_static_member_that_was_replaced(world: World) -> None:
    old, new = Line("/a"), Line("/b")
    world.join(old, instance="i")
    world.join(new, instance="i")
    old.close()
    new.close()
    assert world.lost == [("g", "i-1", "/a"), ("g", "i-2", "/b")]


def leave(world: World, line: Line, member_id: str) -> None:
    asked, ctx = request(ApiKey.LEAVE_GROUP, leave_fields("g", (member_id, None))), context(line, 5)
    world.members.leaving(asked, ctx)
    world.coordinator.leave(asked, ctx, 0, 0)


def test_a_member_from_before_a_start_that_is_closed(world: World) -> None:
    """It joined over no connection that is known: it leaves over one, if it is not removed by somebody else."""
    first, second = world.add(Line("/a")), world.add(Line("/a"))
    world.members = MemberConnections(world.coordinator, lambda: (7, 1007))
    own, other = Line("/a"), Line("/b")
    leave(world, own, first)
    leave(world, other, second)
    for line in (own, other):
        line.close()
    assert world.lost == [("g", first, "/a")]


def test_a_client_that_is_closed_after_it_left(world: World) -> None:
    line = Line("/a")
    member_id = world.add(line)
    leave(world, line, member_id)
    assert not world.lost
    line.close()
    assert world.lost == [("g", member_id, "/a")]


def test_a_client_that_left_and_came_back_over_the_same_connection(world: World) -> None:
    line = Line("/a")
    leave(world, line, world.add(line))
    member_id = world.add(line)
    line.close()
    assert world.lost == [("g", member_id, "/a")]


def test_who_was_refused_is_not_known(world: World) -> None:
    one, two = Line("/a"), Line("/b")
    member_id = world.add(one)
    world.join(two, "stranger")
    two.close()
    assert two.on_gone is None
    one.close()
    assert world.lost == [("g", member_id, "/a")]


def test_a_connection_does_not_remember_members_that_are_gone(world: World) -> None:
    line = Line("/a")
    for _ in range(1000):
        member_id = world.add(line)
        leave(world, line, member_id)
    assert len(world.members._connections) <= 128
    assert len(world.members._members[line]) <= 128


def test_a_broker_that_stops_misses_nobody(world: World) -> None:
    line = Line("/a")
    world.add(line)
    world.members.forget()
    line.close()
    assert not world.lost


def test_a_member_has_the_software_of_the_connection_that_it_joined_over_last() -> None:
    world, old, new = World(), Line("/a", "librdkafka 2.5.0"), Line("/a", "librdkafka 2.6.1")
    member_id = world.add(old)
    assert world.members.software_of("g", member_id) == "librdkafka 2.5.0"
    world.join(new, member_id)
    assert world.members.software_of("g", member_id) == "librdkafka 2.6.1"
    new.close()
    assert world.members.software_of("g", member_id) == ""
    assert world.members.software_of("g", "nobody") == ""


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_member_of_a_consumer_group_that_joins_while_its_connection_is_lost(world: World, is_closed: bool) -> None:
    line = Line("/a")
    says = {"rebalance_timeout_ms": 1000, "topic_partitions": [], "subscribed_topic_names": ["t"]}
    asked = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "member_id": "m", "member_epoch": 0, **says})
    ctx = context(line, 1)
    world.coordinator.consumer_heartbeat(asked, ctx, 0, 0)
    ctx.closed = is_closed  # while it waited for its turn
    world.members.beats(asked, ctx)
    assert world.lost == ([("g", "m", "/a")] if is_closed else [])
