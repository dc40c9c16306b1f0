"""Produce requests of few bytes whose batches have to be looked at record by record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.core.topics.accept import accept, allowance
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.runtime.long_work import LongWork
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import MOST_RECORDS, ProducedBatch
from ottla.protocol.steps import NEXT_IN_LINE, Steps
from ottla.protocol.varints import encode_varint
from tests.hostile.bombs import keyed, longest_step, sealed
from tests.hostile.victim import Victim
from tests.support.client import Client, batch
from tests.support.requests import produce_fields


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as running:
        yield running


def produce_to_all(client: Client, topic: str, partitions: int, data: bytes) -> list[Any]:
    fields = produce_fields(topic, data)
    fields["topic_data"][0]["partition_data"] = [{"index": index, "records": data} for index in range(partitions)]
    return list(client.call(ApiKey.PRODUCE, 9, **fields).responses[0].partition_responses)


def many_headers(count: int) -> bytes:
    """A batch of one record, not compressed."""
    body = b"\x00\x00\x00\x02k\x02v" + encode_varint(count) + b"\x00\x01" * count
    return sealed(1, encode_varint(len(body)) + body, Codec.NONE)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "configs", [{"cleanup_policy": "compact"}, {"compression_type": "lz4", "max_message_bytes": "8000000"}]
)
def test_ten_bombs_in_a_request_delay_nobody(victim: Victim, configs: dict[str, str]) -> None:
    with Client(victim.port) as client:
        topic = client.topic(10, **configs)
        data = keyed(MOST_RECORDS)
        cpu_s = victim.cpu_s()
        with victim.calm() as felt:
            rows = produce_to_all(client, topic, 10, data)
        assert [row.error_code for row in rows] == [0, 0, *[ErrorCode.MESSAGE_TOO_LARGE] * 8]
        assert felt.longest_ms < 1_000
        assert victim.cpu_s() - cpu_s < 6
        assert client.produce(topic, batch(b"honest"), partition=9).error_code == 0


@pytest.mark.e2e
@pytest.mark.parametrize("configs", [{"cleanup_policy": "compact"}, {}])
def test_headers_of_records_count(victim: Victim, configs: dict[str, str]) -> None:
    """One record with hundreds of thousands of them, as it is, not compressed."""
    data = many_headers(400_000)
    with Client(victim.port) as client:
        topic = client.topic(4, **configs)
        cpu_s = victim.cpu_s()
        rows = produce_to_all(client, topic, 4, data)
        refused = ErrorCode.MESSAGE_TOO_LARGE if configs else 0
        assert [row.error_code for row in rows] == [0, 0, refused, refused]
        assert victim.cpu_s() - cpu_s < 3


@pytest.mark.parametrize("data", [keyed(MOST_RECORDS), many_headers(400_000)])
def test_no_step_of_a_walk_takes_long(data: bytes) -> None:
    steps = accept(data, 9, TopicConfig(compacted=True), int(time.time() * 1000), allowance(100 << 20))
    assert not isinstance(steps, ProducedBatch)
    longest_s, _ = longest_step(steps)
    assert longest_s < 0.03


@pytest.mark.e2e
def test_not_every_record_at_fault_is_named(victim: Victim) -> None:
    deltas = range(100_000)
    bodies = (b"\x00\x00" + encode_varint(index) + b"\x01\x02v\x00" for index in deltas)
    data = sealed(len(deltas), b"".join(encode_varint(len(body)) + body for body in bodies))
    with Client(victim.port) as client:
        rows = produce_to_all(client, client.topic(3, cleanup_policy="compact"), 3, data)
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD] * 3
    assert [len(row.record_errors) for row in rows] == [1_000, 0, 0]


@pytest.mark.e2e
def test_nothing_overtakes_a_batch_that_takes_long(victim: Victim) -> None:
    with Client(victim.port) as client:
        topic = client.topic(1, cleanup_policy="compact")
        large = keyed(100_000)
        for data in (large, batch(b"small")):
            client.start(ApiKey.PRODUCE, 9, **produce_fields(topic, data))
        told = [client.answer().responses[0].partition_responses[0] for _ in range(2)]
        assert [(row.error_code, row.base_offset) for row in told] == [(0, 0), (0, 100_000)]
        # And within a request, the partition named twice.
        fields = produce_fields(topic, large)
        fields["topic_data"][0]["partition_data"].append({"index": 0, "records": batch(b"small")})
        rows = client.call(ApiKey.PRODUCE, 9, **fields).responses[0].partition_responses
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 100_001), (0, 200_001)]


class _Asking:
    """A connection, and what it was answered."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.answered = asyncio.Event()
        self.ctx = RequestContext(self, 9, 1, "c", lambda response, correlation_id: response)  # type: ignore[arg-type]

    def finish(self, ctx: RequestContext, frame: Any) -> None:
        self.answers.append(frame)
        self.answered.set()

    def abort(self, reason: str) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        self.ctx.closed = True
        if self.ctx.on_close is not None:
            self.ctx.on_close()


class _Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append(event)


async def test_those_in_line_work_by_turns_and_who_is_gone_not_at_all() -> None:
    log, seen = _Told(), []
    work = LongWork("test", log)

    def steps(name: str, asking: _Asking, turns: int) -> Steps[None]:
        for turn in range(turns):
            seen.append(name)
            assert (yield partial(int, turn)) == turn
            yield None
            yield NEXT_IN_LINE
        asking.ctx.reply(name)

    people = {name: _Asking() for name in "abc"}
    for name, asking in people.items():
        work(steps(name, asking, 3), asking.ctx, lambda: "bug")
    people["b"].hang_up()
    await people["a"].answered.wait()
    await people["c"].answered.wait()
    assert seen == ["a", "c"] * 3
    assert [asking.answers for asking in people.values()] == [["a"], [], ["c"]]
    await work.stop()


@pytest.mark.parametrize("can_be_told", [True, False])
async def test_a_bug_is_answered_or_closes_and_the_next_in_line_is_served(can_be_told: bool) -> None:
    log = _Told()
    work = LongWork("test", log)

    def failing() -> Steps[None]:
        yield lambda: 1 // 0

    def fine(asking: _Asking) -> Steps[None]:
        yield None
        asking.ctx.reply("fine")

    first, second = _Asking(), _Asking()
    work(failing(), first.ctx, lambda: "bug" if can_be_told else 1 // 0)
    work(fine(second), second.ctx, lambda: "bug")
    await asyncio.wait_for(second.answered.wait(), 20)
    assert (first.answers, second.answers) == (["bug"] if can_be_told else [], ["fine"])
    assert first.ctx.closed is not can_be_told
    assert log.lines == ["Cannot do what takes long", *([] if can_be_told else ["Cannot say that it failed"])]
    await work.stop()
