"""The dispatcher: routes, the error boundary, and requests that repeat."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import MeteredContext, RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.protocol import structs
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import AnswerTooLarge, MalformedFrame, UnsupportedVersion
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from tests.shell.host import Log, answers
from tests.support.peer import request_frame
from tests.support.requests import consumer_heartbeat_fields, heartbeat_fields, request
from tests.support.rules import OPEN


class Groups:
    """Answers heartbeats with the next of the given codes, or raises it."""

    def __init__(self) -> None:
        self.asked: list[HeartbeatRequest] = []
        self.answers: list[Any] = []

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> int:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    def beat(self, request: ConsumerGroupHeartbeatRequest, ctx: Any, now_ms: int) -> Any:
        return self.answers.pop(0)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, ctx: Any, now_ms: int, wall_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(member_epoch=9)

    def describe_groups(
        self, request: DescribeGroupsRequest, ctx: Any, now_ms: int, wall_ms: int
    ) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=group_id) for group_id in request.groups])

    def join(self, request: JoinGroupRequest, ctx: Any) -> None:
        raise LookupError("a bug of ours")


def enter(entry: Any, request: Any, ctx: Any) -> Any:
    return entry(request, ctx, 0, 0)


class World:
    """A dispatcher for one connection."""

    def __init__(self, codec: Any) -> None:
        self.groups = Groups()
        self.log = Log()
        self.peer = SimpleNamespace(
            open=None, client_id="", client_id_bytes=b"", repeat=None, prepared=None, client_host="/h"
        )
        services = SimpleNamespace(
            cluster=SimpleNamespace(has_others=False),
            host=SimpleNamespace(enter=enter, turns=SimpleNamespace(serve=lambda serve, ctx, failed: serve())),
            groups=self.groups,
            clock=SimpleNamespace(monotonic_ms=lambda: 0),
            **OPEN,
        )
        self.dispatcher = Dispatcher(services, self.log, codec)

    def receive(self, data: bytes, start: int = 0) -> Any:
        return self.dispatcher.receive(data, start, self.peer)

    def heartbeat(self, correlation_id: int, version: int = 4, **changed: Any) -> tuple[int, int]:
        """Send one; the correlation id and the error code of its answer."""
        return answer(self.receive(heartbeat(correlation_id, version, **changed)), version)


@pytest.fixture(params=["fused", "construct"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def heartbeat(correlation_id: int, version: int = 4, client_id: str | None = "c", **changed: Any) -> bytes:
    asked = request(ApiKey.HEARTBEAT, heartbeat_fields("g", 1, "m") | changed)
    return request_frame(ApiKey.HEARTBEAT, version, asked, correlation_id, client_id)[4:]


def answer(frame: bytes, version: int = 4) -> tuple[int, int]:
    """Correlation id and error code."""
    ((correlation_id, told),) = answers(frame, ApiKey.HEARTBEAT, version)
    return correlation_id, told.error_code


def test_a_repeated_heartbeat_is_served_again_under_its_own_correlation_id(world: World) -> None:
    for correlation_id in (7, 8, -1, 2**31 - 1):
        assert world.heartbeat(correlation_id) == (correlation_id, 0)
        assert world.peer.open is None
    assert len(world.groups.asked) == 4
    assert world.groups.asked[0] is world.groups.asked[3], "the decoded request is used again"


@pytest.mark.parametrize("before", [[], [0]], ids=["first", "repeated"])
def test_an_answer_that_cannot_be_encoded(world: World, before: list[int]) -> None:
    """It is a bug of ours like any other. Without an answer the next one would be taken for this one's."""
    world.groups.answers = [*before, 40_000, 0]
    told = [world.heartbeat(number) for number in range(len(before) + 2)]
    assert told[-2:] == [(len(before), -1), (len(before) + 1, 0)]
    assert world.log.events == ["request failed"] and world.peer.open is None


def test_a_repeated_heartbeat_behind_a_length_prefix(world: World) -> None:
    for correlation_id in (1, 2):
        frame = world.receive(b"\0\0\0\x63" + heartbeat(correlation_id), 4)
        assert answer(frame) == (correlation_id, 0)


def test_another_answer_to_the_same_heartbeat(world: World) -> None:
    world.groups.answers = [0, 27, 27, 0, 25]
    assert [world.heartbeat(number) for number in range(5)] == [(0, 0), (1, 27), (2, 27), (3, 0), (4, 25)]


@pytest.mark.parametrize(
    "change", [{"generation_id": 2}, {"member_id": "n"}, {"group_id": "h"}, {"group_instance_id": "i"}]
)
def test_whatever_differs_is_decoded_anew(world: World, change: dict[str, Any]) -> None:
    world.heartbeat(1)
    world.heartbeat(2, **change)
    [(name, value)] = change.items()
    assert getattr(world.groups.asked[1], name) == value
    assert getattr(world.groups.asked[0], name) != value


def test_the_same_body_in_another_version_or_from_another_client_id(world: World) -> None:
    world.heartbeat(1, version=0)
    frame = world.receive(heartbeat(2, version=1))
    assert answer(frame, 1) == (2, 0)
    assert len(frame) == 14, "version 1 has a throttle time, version 0 has none"
    world.heartbeat(3, version=1, client_id="another")
    assert world.peer.client_id == "another"
    world.heartbeat(4, version=1, client_id=None)
    assert world.peer.client_id == ""


def test_a_client_id_that_is_cut_off_ends_the_connection(world: World) -> None:
    for known in (b"", b"c", b"cc"):
        world.peer.client_id_bytes = known
        with pytest.raises(MalformedFrame):
            world.receive(struct.pack(">hhih", 16, 1, 7, 128) + known)


def test_a_bug_in_a_repeated_request_is_answered(world: World) -> None:
    world.groups.answers = [0, RuntimeError("a bug of ours"), 0]
    assert [world.heartbeat(number) for number in range(3)] == [(0, 0), (1, -1), (2, 0)]
    assert world.log.events == ["request failed"]
    assert world.peer.open is None


def test_a_repeated_request_for_which_there_is_no_short_way_any_more(world: World) -> None:
    """What a member has to do is found when it says the same again. Its request is served like a new one."""
    short = ConsumerGroupHeartbeatResponse(member_epoch=5)
    world.groups.answers = [short, short, None, None, short]
    asked = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, consumer_heartbeat_fields("g", "m", 5))
    frames = [request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, asked, number, "c")[4:] for number in range(4)]
    told = [answers(world.receive(frame), ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)[0] for frame in frames]
    assert [(number, response.member_epoch) for number, response in told] == [(0, 5), (1, 5), (2, 9), (3, 5)]


def test_a_bug_is_answered_in_the_shape_of_the_api(world: World) -> None:
    frame = request_frame(ApiKey.JOIN_GROUP, 5, JoinGroupRequest(group_id="g"), 3, None)
    ((_, response),) = answers(world.receive(frame[4:]), ApiKey.JOIN_GROUP, 5)
    assert response.error_code == -1
    assert world.log.events == ["request failed"]


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structs, "MAX_ANSWER_BYTES", 1_000)
    monkeypatch.setattr(DescribeGroupsResponse, "_layouts", {})


@pytest.mark.usefixtures("short_answers")
def test_an_answer_that_is_too_large_ends_the_connection(world: World) -> None:
    def described(count: int) -> bytes:
        return request_frame(ApiKey.DESCRIBE_GROUPS, 4, DescribeGroupsRequest(groups=["g"] * count), 3, None)[4:]

    assert world.receive(described(10))
    with pytest.raises(AnswerTooLarge, match="DescribeGroupsResponse of more than 1000 bytes"):
        world.receive(described(1_000))
    assert world.log.events == []


@pytest.mark.usefixtures("short_answers")
@pytest.mark.parametrize("metered", [False, True])
def test_an_answer_that_comes_later_and_is_too_large(metered: bool) -> None:
    """The coordinator answers whoever waits, one after the other: it must not fail because of one."""
    ended: list[str | None] = []
    connection: Any = SimpleNamespace(abort=ended.append, finish=lambda ctx, frame: ended.append(None))
    encode = DescribeGroupsResponse.layout(4).response_encoder(header_tags=False)
    for count in (1, 1_000):
        meter: Any = SimpleNamespace(reply=lambda ctx, response: connection.finish(ctx, ctx.encode(response)))
        ctx = (
            MeteredContext(connection, (15, 4, 3), "c", encode, meter, 0, 100)
            if metered
            else RequestContext(connection, 4, 3, "c", encode)
        )
        ctx.reply(DescribeGroupsResponse(groups=[DescribedGroup(group_id="g")] * count))
    assert ended[0] is None
    assert str(ended[1]).startswith("DescribeGroupsResponse of more than 1000 bytes")


def test_long_requests_are_not_kept(world: World) -> None:
    world.heartbeat(1, group_id="g" * 5_000)
    assert world.peer.repeat is None


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (12, 5), (12, -1), (0, 2), (38, 1)])
def test_what_is_not_served_breaks_the_protocol(world: World, key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        world.receive(struct.pack(">hhih", key, version, 1, -1))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x0c\0\x04",
        heartbeat(1)[:-10],
        struct.pack(">hhih", 12, 4, 1, 99) + b"x",
        struct.pack(">hhih", 18, 99, 1, -1),  # versions of ApiVersions to come have tags in their headers, too
        struct.pack(">hhih", 18, 99, 1, -1) + b"\1\7\5x",
    ],
)
def test_a_frame_that_is_cut_breaks_the_protocol(world: World, frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        world.receive(frame)
