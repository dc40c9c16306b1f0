"""A connection's conversation, by hand: negotiation with its quirks, order, versions, timeouts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ottla.clients.errors import KafkaConnectionError, KafkaError, KafkaTimeout, UnsupportedByBroker
from ottla.clients.wire import NEVER_THROTTLED, Conversation, choose_version
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, FrameTooLarge, MalformedFrame
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import skip_tags, split_request
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import Message


class Peer:
    """The broker's end, without a socket: reads what the conversation wrote and frames answers."""

    def __init__(self, **options: Any) -> None:
        self.conversation = Conversation("me", ("name", "1"), **options)
        self.reader = FrameReader()
        self.ready = 0

        self.got: list[Any] = []

    def hello(self) -> Peer:
        self.conversation.hello(0, 1000, self._on_ready)
        return self

    def send(self, request: Message | None = None) -> None:
        """Send a request, a heartbeat unless told, whose outcome comes to ``got``."""
        self.conversation.send(request or HeartbeatRequest(), 0, 1000, self.got.append)

    def asked(self) -> tuple[int, int]:
        """The version and the correlation id of the one request that was written."""
        [(_, version, correlation_id, _)] = self.read()
        return version, correlation_id

    def _on_ready(self) -> None:
        self.ready += 1

    def read(self) -> list[tuple[int, int, int, Any]]:
        """The requests that were written: API key, version, correlation id, request."""
        self.reader.feed(self.conversation.take_output())
        requests = []
        while (frame := self.reader.next()) is not None:
            key, version, correlation_id, client_id, position = split_request(frame)
            assert client_id == b"me"
            row = api(ApiKey(key))
            if row.request_header_version(version) == 2:
                position = skip_tags(frame, position)
            requests.append((key, version, correlation_id, row.request.layout(version).decode(frame, position)))
        return requests

    def answer(self, correlation_id: int, answer: Message, version: int, *, tags: bool = False, now: float = 0) -> None:
        body = (
            correlation_id.to_bytes(4, "big") + (b"\x00" if tags else b"") + type(answer).layout(version).encode(answer)
        )
        self.raw(body, now)

    def raw(self, body: bytes, now: float = 0) -> None:
        self.conversation.receive(len(body).to_bytes(4, "big") + body, now)

    def served(self, **ranges: tuple[int, int]) -> Peer:
        """Greet with these ranges, by API name."""
        version, correlation_id = self.hello().asked()
        keys = [
            ApiVersion(api_key=ApiKey[name.upper()], min_version=low, max_version=high)
            for name, (low, high) in ranges.items()
        ]
        self.answer(correlation_id, ApiVersionsResponse(api_keys=keys), version)
        return self


def greeting(**ranges: tuple[int, int]) -> Peer:
    return Peer().served(**ranges)


# the beginning


def test_the_newest_version_is_tried_first() -> None:
    peer = Peer().hello()
    [(key, version, correlation_id, request)] = peer.read()
    assert (key, version) == (ApiKey.API_VERSIONS, 4)
    assert request == ApiVersionsRequest(client_software_name="name", client_software_version="1")
    row = ApiVersion(api_key=12, min_version=0, max_version=4)
    peer.answer(correlation_id, ApiVersionsResponse(api_keys=[row]), 4)  # the header has no tags though the body has
    assert (peer.ready, peer.conversation.ready, peer.conversation.served) == (1, True, {12: (0, 4)})


@pytest.mark.parametrize(
    ("range_told", "next_version"),
    [((0, 3), 3), ((0, 2), 2), ((0, 0), 0), (None, 0), ((0, 4), 0), ((0, -1), 0)],
    ids=["3", "2", "0", "none", "not lower", "nonsense"],
)
def test_an_older_broker(range_told: tuple[int, int] | None, next_version: int) -> None:
    peer = Peer().hello()
    _, correlation_id = peer.asked()
    keys = [] if range_told is None else [ApiVersion(api_key=18, min_version=range_told[0], max_version=range_told[1])]
    peer.answer(correlation_id, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), 0)
    assert peer.ready == 0
    [(key, version, correlation_id, _)] = peer.read()
    assert (key, version) == (ApiKey.API_VERSIONS, next_version)
    row = ApiVersion(api_key=3, min_version=0, max_version=1)
    peer.answer(correlation_id, ApiVersionsResponse(api_keys=[row]), next_version)
    assert peer.conversation.served == {3: (0, 1)}


def test_a_refusal_that_cannot_be_read_falls_back_to_version_0() -> None:
    """As librdkafka's mock cluster writes it."""
    peer = Peer().hello()
    _, correlation_id = peer.asked()
    peer.raw(correlation_id.to_bytes(4, "big") + bytes.fromhex("0023 01 0012 0000 0002 00000000"))
    assert peer.asked()[0] == 0


def test_a_broker_that_refuses_version_0_too() -> None:
    peer = Peer().hello()
    for _ in range(2):
        _, correlation_id = peer.asked()
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if peer.conversation._hello_version:
            peer.answer(correlation_id, refusal, 0)
    with pytest.raises(KafkaError, match="unsupported version"):
        peer.answer(correlation_id, refusal, 0)
    assert not peer.ready


def test_another_error_ends_it() -> None:
    peer = Peer().hello()
    version, correlation_id = peer.asked()
    with pytest.raises(KafkaError, match="invalid request"):
        peer.answer(correlation_id, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST), version)


# versions


def test_the_newest_in_common() -> None:
    peer = greeting(heartbeat=(0, 3), metadata=(1, 99), produce=(0, 99))
    assert peer.conversation.version(HeartbeatRequest) == 3
    assert peer.conversation.version(MetadataRequest) == 13
    assert peer.conversation.version(HeartbeatRequest, high=1) == 1
    assert peer.conversation.version(ProduceRequest) == 12, "later versions name topics by id only"


@pytest.mark.parametrize(
    ("served", "low", "high", "message"),
    [
        (None, 0, 99, "the broker does not serve HEARTBEAT"),
        ((5, 9), 0, 99, "the broker serves 5 to 9, this call needs 0 to 4"),
        ((0, 2), 3, 99, "the broker serves 0 to 2, this call needs 3 to 4"),
        ((2, 4), 0, 1, "the broker serves 2 to 4, this call needs 0 to 1"),
    ],
)
def test_none_in_common(served: tuple[int, int] | None, low: int, high: int, message: str) -> None:
    with pytest.raises(UnsupportedByBroker, match=message):
        choose_version(api(ApiKey.HEARTBEAT), served, low, high)


def test_a_call_without_a_version_writes_nothing() -> None:
    peer = greeting(metadata=(0, 1))
    with pytest.raises(UnsupportedByBroker):
        peer.send()
    assert peer.read() == []


# requests and answers


def test_answers_go_to_the_requests_in_order() -> None:
    peer = greeting(heartbeat=(0, 4), metadata=(0, 1))
    for group in ("a", "b"):
        peer.send(HeartbeatRequest(group_id=group))
    peer.send(MetadataRequest(topics=None))
    sent = peer.read()
    assert [(key, version) for key, version, _, _ in sent] == [(12, 4), (12, 4), (3, 1)]
    assert [request.group_id for _, _, _, request in sent[:2]] == ["a", "b"]
    peer.answer(sent[0][2], HeartbeatResponse(error_code=27), 4, tags=True)
    peer.answer(sent[1][2], HeartbeatResponse(), 4, tags=True)
    assert [answer.error_code for answer in peer.got] == [27, 0]
    peer.answer(sent[2][2], MetadataResponse(controller_id=7), 1)
    assert peer.got[2].controller_id == 7
    assert peer.conversation.open_requests == 0


def test_bytes_may_come_one_by_one() -> None:
    peer = greeting(heartbeat=(0, 0))
    peer.send()
    _, correlation_id = peer.asked()
    body = correlation_id.to_bytes(4, "big") + HeartbeatResponse.layout(0).encode(HeartbeatResponse(error_code=22))
    for byte in len(body).to_bytes(4, "big") + body:
        assert peer.got == []
        peer.conversation.receive(bytes([byte]), 0)
    assert [answer.error_code for answer in peer.got] == [22]


def test_an_answer_out_of_order_is_the_end() -> None:
    peer = greeting(heartbeat=(0, 0))
    for _ in range(2):
        peer.send()
    first, second = peer.read()
    with pytest.raises(MalformedFrame, match=f"correlation id {second[2]}, expected {first[2]}"):
        peer.answer(second[2], HeartbeatResponse(), 0)
    peer.conversation.lost(KafkaConnectionError("gone"))
    assert [type(outcome) for outcome in peer.got] == [KafkaError, KafkaConnectionError]


@pytest.mark.parametrize("body", [b"\x00", b"\x00\x00\x00\x02\x00"], ids=["no header", "cut off"])
def test_an_unreadable_answer_is_the_end(body: bytes) -> None:
    peer = greeting(heartbeat=(0, 0))
    peer.send()
    with pytest.raises(MalformedFrame):
        peer.raw(body)
    assert "unreadable answer" in str(peer.got[0])


def test_an_answer_to_nothing_is_the_end() -> None:
    with pytest.raises(MalformedFrame, match="nothing was asked"):
        greeting(heartbeat=(0, 0)).raw(b"\x00\x00\x00\x09")


def test_an_answer_that_announces_too_much_is_the_end() -> None:
    peer = Peer(max_frame_bytes=1000)
    with pytest.raises(FrameTooLarge):
        peer.conversation.receive((1001).to_bytes(4, "big"), 0)


def test_a_request_that_is_not_answered_waits_for_nothing() -> None:
    peer = greeting(produce=(3, 9), heartbeat=(0, 0))
    peer.conversation.send(ProduceRequest(acks=0), 0, 1000, peer.got.append, answered=False)
    assert (peer.got, peer.conversation.open_requests) == ([None], 0)
    peer.send()
    produce, heartbeat = peer.read()
    assert produce[0] == ApiKey.PRODUCE
    peer.answer(heartbeat[2], HeartbeatResponse(error_code=25), 0)
    assert peer.got[1].error_code == 25


def test_timeouts() -> None:
    peer = greeting(heartbeat=(0, 0))
    assert peer.conversation.next_deadline_ms() is None
    peer.conversation.send(HeartbeatRequest(), 100, 1000, peer.got.append)
    peer.conversation.send(HeartbeatRequest(), 200, 300, peer.got.append)
    assert peer.conversation.next_deadline_ms() == 500
    peer.conversation.advance(499)
    with pytest.raises(KafkaTimeout, match="HEARTBEAT"):
        peer.conversation.advance(500)
    error = KafkaTimeout("late")
    peer.conversation.lost(error)
    assert peer.got == [error, error]
    assert peer.conversation.next_deadline_ms() is None


def test_a_throttled_client_knows_until_when() -> None:
    peer = greeting(heartbeat=(1, 1))
    peer.send()
    _, correlation_id = peer.asked()
    peer.answer(correlation_id, HeartbeatResponse(throttle_time_ms=70), 1, now=30)
    assert peer.conversation.throttled_until_ms == 100


def test_which_answers_throttle_is_known() -> None:
    without = {key for key in ApiKey if "throttle_time_ms" not in {one.name for one in fields(api(key).response)}}
    assert without == NEVER_THROTTLED


def test_correlation_ids_stay_positive() -> None:
    peer = greeting(heartbeat=(0, 0))
    peer.conversation._correlation_id = 0x7FFFFFFF
    peer.send()
    assert peer.read()[0][2] == 0


def test_what_only_ottla_knows_is_not_asked_of_an_apache_kafka() -> None:
    """It would log an error with a stack trace. Whoever finalizes metadata.version is one (KIP-584)."""
    assert greeting().conversation.version(DescribeGroupHistoryRequest) == 0
    peer = Peer().hello()
    version, correlation_id = peer.asked()
    feature = FinalizedFeatureKey(name="metadata.version", max_version_level=30, min_version_level=1)
    peer.answer(correlation_id, ApiVersionsResponse(finalized_features_epoch=1, finalized_features=[feature]), version)
    with pytest.raises(UnsupportedByBroker, match="only Ottla knows DESCRIBE_GROUP_HISTORY"):
        peer.conversation.version(DescribeGroupHistoryRequest)
