"""A sample of the fuzzer, seconds long; ``make fuzz`` goes on for longer, over brokers of other settings as well."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.hostile import fuzz, fuzz_guest
from tests.hostile.fuzz_case import MOST_BYTES, Case
from tests.hostile.fuzz_guest import Fault, Guest, due_of
from tests.hostile.fuzz_requests import CALLS, Known, Writer, body_of, weight
from tests.support.requests import request


@pytest.mark.e2e
@pytest.mark.slow
def test_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fuzz, fuzz_guest):  # other tests run beside this one
        monkeypatch.setattr(module, "LATE_S", 4.0)
    told = fuzz.play(seed=11, seconds=5, rounds=1, warm_up_s=1)
    assert told.faults == []
    assert told.cases > 20 and sum(told.counts.values()) > 500 and len(told.counts) > 40, told.line()


def test_plausible_requests_can_be_sent_and_read() -> None:
    """Of every API and version; what is mutated can still be sent, but for bytes that are no text."""
    rng, unreadable = Random(5), 0
    writer = Writer(rng, Known())
    for key, version in CALLS:
        message = writer.request(key, version)
        body_of(key, version, message)
        for _ in range(3):
            writer.mutate(message, version)
        try:
            api(key).request.layout(version).decode(body_of(key, version, message))
        except MalformedFrame:
            unreadable += 1
        except struct.error:
            continue  # a version with short lengths has no place for it
    assert unreadable < len(CALLS) / 10


def test_what_is_repeated_within_what_is_repeated_is_not_made() -> None:
    """A thousand topics with a thousand names of 32 KB each are 32 GB."""
    message = DescribeConfigsRequest()
    names = DescribeConfigsResource(configuration_keys=["x" * 32_767] * 1_000)
    message.resources = [names] * 1_000
    assert weight(message) > 32_767_000_000
    assert weight(request(ApiKey.HEARTBEAT, {"group_id": "g" * 100})) in range(100, 110)

    case = Case((0, None), 1, 1, SimpleNamespace(), Counter(), 1000)  # type: ignore[arg-type]
    case.message = lambda key, version: message  # type: ignore[method-assign]
    assert len(case.frame(SimpleNamespace(client_id=None))) < 2 * MOST_BYTES  # type: ignore[arg-type]


def test_the_same_seed_writes_the_same() -> None:
    def written(seed: int) -> list[bytes]:
        writer = Writer(Random(seed), Known())
        return [body_of(key, version, writer.request(key, version)) for key, version in CALLS if key > ApiKey.FETCH]

    assert written(1) == written(1) != written(2)


def frame_of(key: ApiKey, version: int, **fields: Any) -> bytes:
    row = api(key)
    body = row.request.layout(version).encode(request(key, fields))
    return frame_request(key, version, 7, None, body, flexible=row.request_header_version(version) == 2)


def test_what_is_due_is_read_from_the_bytes() -> None:
    assert due_of(frame_of(ApiKey.PRODUCE, 9, acks=0)[4:]).is_silent
    assert not due_of(frame_of(ApiKey.PRODUCE, 9, acks=1)[4:]).is_silent
    assert due_of(frame_of(ApiKey.JOIN_GROUP, 7)[4:]).may_park
    assert due_of(frame_of(ApiKey.HEARTBEAT, 4)[4:])[:3] == (ApiKey.HEARTBEAT, 4, 7)
    assert due_of(b"\0\x0c\0\x63" + bytes(6)).key is None, "a version that is not served"
    assert due_of(b"\0\x12\0\x63" + bytes(6)).key is ApiKey.API_VERSIONS, "which is answered in any version"


class Scripted:
    """A socket that receives these bytes, and then nothing."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    def settimeout(self, seconds: float) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, size: int) -> bytes:
        if not self.chunks:
            raise TimeoutError
        return self.chunks.pop(0)


def guest(*chunks: bytes, elapsed_s: float = 0.0, sent: bytes = b"") -> Guest:
    """A guest that has sent something, a heartbeat unless it is said, and to whom this comes."""
    made = Guest.__new__(Guest)
    made.socket = Scripted(*chunks)  # type: ignore[assignment]
    made.watch = SimpleNamespace(elapsed_s=lambda: elapsed_s, again=lambda: None)  # type: ignore[assignment]
    made.counts, made.due, made.throttled_s, made.longest_s = Counter(), [], 0.0, 0.0
    made._buffer = made._unread = b""
    made.throw(sent or frame_of(ApiKey.HEARTBEAT, 3))
    return made


def heartbeat_answer(error_code: int, correlation_id: int = 7, rest: bytes = b"") -> bytes:
    body = struct.pack(">iih", correlation_id, 0, error_code) + rest
    return struct.pack(">i", len(body)) + body


def test_a_good_answer() -> None:
    assert guest(heartbeat_answer(27)).settle()[0].error_code == 27


@pytest.mark.parametrize(
    ("chunks", "elapsed_s", "says"),
    [
        ([], 1.5, "no answer after 1.5 s"),
        ([heartbeat_answer(0)], 1.5, "took 1.50 s"),
        ([heartbeat_answer(-1)], 0, "answered with error -1"),
        ([heartbeat_answer(999)], 0, "answered with error 999"),
        ([heartbeat_answer(0, correlation_id=8)], 0, "an answer to 8"),
        ([heartbeat_answer(0, rest=b"x")], 0, "cannot be read"),
        ([heartbeat_answer(0)[:-1] + b""], 1.5, "no answer"),
    ],
)
def test_what_a_guest_does_not_put_up_with(chunks: list[bytes], elapsed_s: float, says: str) -> None:
    with pytest.raises(Fault, match=says):
        guest(*chunks, elapsed_s=elapsed_s).settle()


def test_only_of_a_large_request_the_records_may_be_too_large() -> None:
    row = DeletableGroupResult(group_id="g", error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    body = struct.pack(">i", 7) + DeleteGroupsResponse.layout(1).encode(DeleteGroupsResponse(results=[row]))
    answer = struct.pack(">i", len(body)) + body
    small, large = (frame_of(ApiKey.DELETE_GROUPS, 1, groups_names=["g" * size]) for size in (1_000, 32_767))
    assert guest(answer, sent=large).settle()[0].results == [row]
    with pytest.raises(Fault, match="DELETE_GROUPS v1 is answered with error -1"):
        guest(answer, sent=small).settle()
