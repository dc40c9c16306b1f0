"""Requests by API and error, measured around the dispatcher."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.observe.metrics.dispatcher import SAMPLED, MeasuredDispatcher
from ottla.observe.metrics.histogram import BOUNDS_SECONDS, Durations
from ottla.observe.metrics.requests import Requests, error_finder
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.message_parts import PartitionOutcome
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from tests.support.rules import OPEN


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class Groups:
    """Heartbeats are answered with the next code; joins are parked, or fail."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.codes: list[int] = []
        self.parked: list[RequestContext] = []
        self.fails = False

    def heartbeat(self, request: Any, now_ms: int) -> int:
        self.clock.now_ns += 1_000
        return self.codes.pop(0) if self.codes else 0

    def join(self, request: Any, ctx: RequestContext) -> JoinGroupResponse | None:
        if self.fails:
            raise LookupError("a bug of ours")
        if request.member_id == "stranger":
            return JoinGroupResponse(error_code=25)
        self.parked.append(ctx)
        return None

    def describe_groups(self, request: Any, ctx: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse()


class Peer(SimpleNamespace):
    def finish(self, ctx: Any, frame: Any) -> None:
        self.finished.append(frame)
        self.open = None


class Served:
    """A dispatcher that is measured, its parts, and one connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.groups = Groups(self.clock)
        self.requests = Requests(self.clock)
        services = SimpleNamespace(
            cluster=SimpleNamespace(has_others=False),
            host=SimpleNamespace(enter=lambda entry, request, ctx: entry(request, ctx)),
            groups=self.groups,
            members=SimpleNamespace(joined=lambda request, ctx, answer: None),
            clock=SimpleNamespace(monotonic_ms=lambda: 0),
            topics=SimpleNamespace(group_configs={}),
            **OPEN,
        )
        log = SimpleNamespace(error=lambda *args, **fields: None)
        self.dispatcher = MeasuredDispatcher(services, log, "fused", self.requests)
        self.peer = Peer(
            open=None, client_id="", client_id_bytes=b"", repeat=None, prepared=None, client_host="/h", finished=[]
        )

    def receive(self, *frames: bytes) -> Any:
        """The answer to the last, if it is there at once."""
        for one in frames:
            answer = self.dispatcher.receive(one, 0, self.peer)
        return answer

    def beat(self, times: int) -> None:
        self.receive(*map(heartbeat, range(times)))


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def frame(request: Any, version: int, correlation_id: int = 1) -> bytes:
    key = next(one for one in ApiKey if api(one).request is type(request))
    body = type(request).layout(version).encode(request)
    flexible = version >= type(request).flexible_from
    return frame_request(key, version, correlation_id, "c", body, flexible=flexible)[4:]


def heartbeat(correlation_id: int) -> bytes:
    return frame(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4, correlation_id)


def join(member_id: str = "m") -> bytes:
    return frame(JoinGroupRequest(group_id="g", member_id=member_id, session_timeout_ms=9), 5)


def counted(requests: Requests) -> dict[str, dict[str, int]]:
    return {served.api: {k: v for k, v in served.by_error().items() if v} for served in requests.served()}


GRANTED = [([], count, {"NONE": count}) for count in (1, SAMPLED - 1, SAMPLED, SAMPLED + 1, 3 * SAMPLED + 5)]
AGAIN = [25] * 5, 5, {"UNKNOWN_MEMBER_ID": 5}
MIXED = [0, 27, 27, 0, 25], SAMPLED, {"NONE": SAMPLED - 3, "REBALANCE_IN_PROGRESS": 2, "UNKNOWN_MEMBER_ID": 1}


@pytest.mark.parametrize(("codes", "count", "answers"), [*GRANTED, AGAIN, MIXED])
def test_every_heartbeat_is_counted_by_its_answer(
    served: Served, codes: list[int], count: int, answers: dict[str, int]
) -> None:
    served.groups.codes = codes.copy()
    served.beat(count)
    assert counted(served.requests) == {"Heartbeat": answers}


def test_one_heartbeat_in_some_is_timed_and_stands_for_them(served: Served) -> None:
    served.beat(2 * SAMPLED + 1)
    (one,) = served.requests.served()
    # The first one is timed by itself, as it does not repeat another.
    assert sum(one.durations.counts) == 2 * SAMPLED + 1
    assert one.durations.total_ns == (2 * SAMPLED + 1) * 1_000


def test_a_repeated_heartbeat_that_meets_a_bug_is_counted_as_what_the_client_hears(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.beat(3)
    monkeypatch.setattr(served.groups, "heartbeat", None)
    served.receive(heartbeat(4))
    assert counted(served.requests) == {"Heartbeat": {"NONE": 3, "UNKNOWN_SERVER_ERROR": 1}}


def test_no_count_goes_down_for_who_looks_from_another_thread(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(*ignored: object) -> None:
        seen.append(counted(served.requests).get("Heartbeat", {}).get("NONE", 0))

    ask, add = served.groups.heartbeat, Durations.add
    monkeypatch.setattr(served.groups, "heartbeat", lambda *request: (look(), ask(*request))[1])
    monkeypatch.setattr(Durations, "add", lambda self, *took: (look(), add(self, *took))[1])
    served.groups.codes = [27, 0, 0, 27, 0]
    for correlation_id in range(7):
        served.receive(heartbeat(correlation_id))
        look()
    assert seen == sorted(seen)
    assert counted(served.requests) == {"Heartbeat": {"NONE": 5, "REBALANCE_IN_PROGRESS": 2}}


def test_a_heartbeat_that_is_too_long_to_be_kept_is_counted(served: Served) -> None:
    request = HeartbeatRequest(group_id="g" * 2_000, member_id="m", generation_id=1)
    for correlation_id in range(3):
        served.receive(frame(request, 4, correlation_id))
    assert served.peer.repeat is None
    assert counted(served.requests) == {"Heartbeat": {"NONE": 3}}


def test_a_parked_request_takes_until_its_answer(served: Served) -> None:
    assert served.receive(join()) is None
    assert counted(served.requests) == {"JoinGroup": {}}
    served.clock.now_ns += 3_000_000_000
    served.groups.parked[0].reply(JoinGroupResponse(error_code=27))
    assert counted(served.requests) == {"JoinGroup": {"REBALANCE_IN_PROGRESS": 1}}
    (one,) = served.requests.served()
    assert one.durations.total_ns == 3_000_000_000


def test_an_answer_given_at_once_is_counted_once(served: Served) -> None:
    assert served.receive(join("stranger")) is not None
    assert counted(served.requests) == {"JoinGroup": {"UNKNOWN_MEMBER_ID": 1}}


def test_a_bug_is_counted_as_what_the_client_hears(served: Served) -> None:
    served.groups.fails = True
    assert served.receive(join()) is not None
    assert counted(served.requests) == {"JoinGroup": {"UNKNOWN_SERVER_ERROR": 1}}


def test_versions_of_an_api_are_counted_together(served: Served) -> None:
    for version in range(3):
        request = DescribeGroupsRequest(groups=["g"])
        served.receive(frame(request, version))
    served.receive(heartbeat(1))
    served.receive(frame(HeartbeatRequest(group_id="g"), 3))
    assert counted(served.requests) == {"DescribeGroups": {"NONE": 3}, "Heartbeat": {"NONE": 2}}


def test_what_an_unknown_version_of_api_versions_hears_is_counted(served: Served) -> None:
    header = struct.pack(">hhih", 18, 99, 1, 1) + b"c\0"
    served.receive(header)
    assert counted(served.requests) == {"ApiVersions": {"UNSUPPORTED_VERSION": 1}}


def test_work_in_a_task_is_timed_until_its_answer(clock: Clock) -> None:
    requests = Requests(clock)

    async def handle(request: Any, ctx: RequestContext, services: Any) -> HeartbeatResponse:
        clock.now_ns += 7_000
        return HeartbeatResponse(error_code=3)

    measured = requests.wrap("Metadata", handle, HeartbeatResponse)
    peer = Peer(finished=[])
    ctx = RequestContext(peer, 0, 1, "c", lambda response, correlation_id: b"frame")
    work = measured(None, ctx, None)
    assert counted(requests) == {"Metadata": {}}
    ctx.reply(asyncio.run(work))
    assert peer.finished == [b"frame"]
    assert counted(requests) == {"Metadata": {"UNKNOWN_TOPIC_OR_PARTITION": 1}}


def test_a_produce_that_nobody_waits_for_is_over_when_it_was_handled(clock: Clock) -> None:
    requests = Requests(clock)
    measured = requests.wrap("Produce", lambda request, ctx, services: None, HeartbeatResponse)
    ctx = RequestContext(Peer(finished=[]), 0, 1, "c", lambda response, correlation_id: b"")
    measured(SimpleNamespace(acks=0), ctx, None)
    measured(SimpleNamespace(acks=1), ctx, None)
    assert counted(requests) == {"Produce": {"NONE": 1}}


def test_without_a_measure_the_handlers_are_those_that_there_are(served: Served) -> None:
    from ottla.broker.handlers import heartbeat as module

    plain = Dispatcher(served.dispatcher.services, served.dispatcher.log)
    plain.receive(heartbeat(1), 0, served.peer)
    (route,) = plain.routes.values()
    assert route.handle is module.handle
    assert served.peer.repeat.handle is module.repeat


def test_errors_are_found_where_an_answer_lists_them() -> None:
    find = error_finder(OffsetCommitResponse)
    rows = [PartitionOutcome(partition_index=index, error_code=code) for index, code in ((0, 0), (1, 22))]
    assert find(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(partitions=rows)])) == 22
    assert find(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(partitions=rows[:1])])) == 0
    assert find(OffsetCommitResponse()) == 0


def test_every_response_can_be_looked_through() -> None:
    for key in ApiKey:
        response = api(key).response
        assert error_finder(response)(response()) == 0


def test_durations_fall_between_their_bounds() -> None:
    durations = Durations()
    for nanoseconds in (-5, 0, 2**14 - 1, 2**14, 2**16, 10**9, 10**12):
        durations.add(nanoseconds)
    buckets = dict(durations.buckets())
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets["+Inf"] == 7 == sum(durations.counts)
    assert buckets[f"{2**14 / 1e9:.9g}"] == 3
    assert buckets[f"{2**16 / 1e9:.9g}"] == 4
    assert buckets[f"{2**30 / 1e9:.9g}"] == 6
    assert len(buckets) == len(BOUNDS_SECONDS) + 1
