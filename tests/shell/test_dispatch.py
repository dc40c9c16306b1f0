"""The dispatcher: routes, the error boundary, and requests that repeat."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import MeteredContext, RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.protocol import structs
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import AnswerTooLarge, MalformedFrame, UnsupportedVersion
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from tests.shell.host import Log


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

    def describe_groups(
        self, request: DescribeGroupsRequest, ctx: Any, now_ms: int, wall_ms: int
    ) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=group_id) for group_id in request.groups])

    def join(self, request: JoinGroupRequest, ctx: Any) -> None:
        raise LookupError("a bug of ours")


def enter(entry: Any, request: Any, ctx: Any) -> Any:
    return entry(request, ctx, 0, 0)


@pytest.fixture
def groups() -> Groups:
    return Groups()


@pytest.fixture(params=["fused", "construct"])
def dispatcher(request: pytest.FixtureRequest, groups: Groups, log: Log) -> Dispatcher:
    services = SimpleNamespace(
        host=SimpleNamespace(enter=enter), groups=groups, clock=SimpleNamespace(monotonic_ms=lambda: 0)
    )
    return Dispatcher(services, log, request.param)


@pytest.fixture
def peer() -> Any:
    return SimpleNamespace(open=None, client_id="", client_id_bytes=b"", repeat=None, client_host="/h")


def heartbeat(correlation_id: int, version: int = 4, client_id: str | None = "c", **fields: Any) -> bytes:
    request = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
    for name, value in fields.items():
        setattr(request, name, value)
    body = HeartbeatRequest.layout(version).encode(request)
    return frame_request(12, version, correlation_id, client_id, body, flexible=version >= 4)[4:]


def answer(frame: bytes, version: int = 4) -> tuple[int, int]:
    """Correlation id and error code."""
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert size == len(frame) - 4
    response = HeartbeatResponse.layout(version).decode(frame, 9 if version >= 4 else 8)
    return correlation_id, response.error_code


def test_a_repeated_heartbeat_is_served_again_under_its_own_correlation_id(
    dispatcher: Dispatcher, groups: Groups, peer: Any
) -> None:
    for correlation_id in (7, 8, -1, 2**31 - 1):
        frame = dispatcher.receive(heartbeat(correlation_id), 0, peer)
        assert frame is not None
        assert answer(frame) == (correlation_id, 0)
        assert peer.open is None
    assert len(groups.asked) == 4
    assert groups.asked[0] is groups.asked[3], "the decoded request is used again"


@pytest.mark.parametrize("before", [[], [0]], ids=["first", "repeated"])
def test_an_answer_that_cannot_be_encoded(
    dispatcher: Dispatcher, groups: Groups, log: Log, peer: Any, before: list[int]
) -> None:
    """It is a bug of ours like any other. Without an answer the next one would be taken for this one's."""
    groups.answers = [*before, 40_000, 0]
    frames = [dispatcher.receive(heartbeat(number), 0, peer) for number in range(len(before) + 2)]
    assert [answer(frame) for frame in frames if frame][-2:] == [(len(before), -1), (len(before) + 1, 0)]
    assert log.events == ["request failed"] and peer.open is None


def test_a_repeated_heartbeat_behind_a_length_prefix(dispatcher: Dispatcher, peer: Any) -> None:
    for correlation_id in (1, 2):
        frame = dispatcher.receive(b"\0\0\0\x63" + heartbeat(correlation_id), 4, peer)
        assert frame is not None
        assert answer(frame) == (correlation_id, 0)


def test_another_answer_to_the_same_heartbeat(dispatcher: Dispatcher, groups: Groups, peer: Any) -> None:
    groups.answers = [0, 27, 27, 0, 25]
    frames = [dispatcher.receive(heartbeat(n), 0, peer) for n in range(5)]
    assert [answer(frame) for frame in frames if frame] == [(0, 0), (1, 27), (2, 27), (3, 0), (4, 25)]


@pytest.mark.parametrize(
    "change", [{"generation_id": 2}, {"member_id": "n"}, {"group_id": "h"}, {"group_instance_id": "i"}]
)
def test_whatever_differs_is_decoded_anew(
    dispatcher: Dispatcher, groups: Groups, peer: Any, change: dict[str, Any]
) -> None:
    dispatcher.receive(heartbeat(1), 0, peer)
    dispatcher.receive(heartbeat(2, **change), 0, peer)
    [(name, value)] = change.items()
    assert getattr(groups.asked[1], name) == value
    assert getattr(groups.asked[0], name) != value


def test_the_same_body_in_another_version_or_from_another_client_id(
    dispatcher: Dispatcher, groups: Groups, peer: Any
) -> None:
    dispatcher.receive(heartbeat(1, version=0), 0, peer)
    frame = dispatcher.receive(heartbeat(2, version=1), 0, peer)
    assert frame is not None
    assert answer(frame, 1) == (2, 0)
    assert len(frame) == 14, "version 1 has a throttle time, version 0 has none"
    dispatcher.receive(heartbeat(3, version=1, client_id="another"), 0, peer)
    assert peer.client_id == "another"
    dispatcher.receive(heartbeat(4, version=1, client_id=None), 0, peer)
    assert peer.client_id == ""


def test_a_client_id_that_is_cut_off_ends_the_connection(dispatcher: Dispatcher, peer: Any) -> None:
    for known in (b"", b"c", b"cc"):
        peer.client_id_bytes = known
        with pytest.raises(MalformedFrame):
            dispatcher.receive(struct.pack(">hhih", 16, 1, 7, 128) + known, 0, peer)


def test_a_bug_in_a_repeated_request_is_answered(dispatcher: Dispatcher, groups: Groups, log: Log, peer: Any) -> None:
    groups.answers = [0, RuntimeError("a bug of ours"), 0]
    frames = [dispatcher.receive(heartbeat(n), 0, peer) for n in range(3)]
    assert [answer(frame) for frame in frames if frame] == [(0, 0), (1, -1), (2, 0)]
    assert log.events == ["request failed"]
    assert peer.open is None


def test_a_bug_is_answered_in_the_shape_of_the_api(dispatcher: Dispatcher, log: Log, peer: Any) -> None:
    body = JoinGroupRequest.layout(5).encode(JoinGroupRequest(group_id="g"))
    frame = dispatcher.receive(frame_request(11, 5, 3, None, body, flexible=False)[4:], 0, peer)
    assert frame is not None
    response = api(ApiKey.JOIN_GROUP).response.layout(5).decode(frame, 8)
    assert response.error_code == -1
    assert log.events == ["request failed"]


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structs, "MAX_ANSWER_BYTES", 1_000)
    monkeypatch.setattr(DescribeGroupsResponse, "_layouts", {})


@pytest.mark.usefixtures("short_answers")
def test_an_answer_that_is_too_large_ends_the_connection(dispatcher: Dispatcher, log: Log, peer: Any) -> None:
    def described(count: int) -> bytes:
        body = DescribeGroupsRequest.layout(4).encode(DescribeGroupsRequest(groups=["g"] * count))
        return frame_request(15, 4, 3, None, body, flexible=False)[4:]

    assert dispatcher.receive(described(10), 0, peer)
    with pytest.raises(AnswerTooLarge, match="DescribeGroupsResponse of more than 1000 bytes"):
        dispatcher.receive(described(1_000), 0, peer)
    assert log.events == []


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


def test_long_requests_are_not_kept(dispatcher: Dispatcher, peer: Any) -> None:
    dispatcher.receive(heartbeat(1, group_id="g" * 5_000), 0, peer)
    assert peer.repeat is None


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (12, 5), (12, -1), (0, 2), (17, 1)])
def test_what_is_not_served_breaks_the_protocol(dispatcher: Dispatcher, peer: Any, key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        dispatcher.receive(struct.pack(">hhih", key, version, 1, -1), 0, peer)


@pytest.mark.parametrize("frame", [b"", b"\0\x0c\0\x04", heartbeat(1)[:-10], struct.pack(">hhih", 12, 4, 1, 99) + b"x"])
def test_a_frame_that_is_cut_breaks_the_protocol(dispatcher: Dispatcher, peer: Any, frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        dispatcher.receive(frame, 0, peer)
