"""Requests that are begun and not finished."""

from __future__ import annotations

import struct
from contextlib import ExitStack

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.hostile.victim import Victim
from tests.pitfalls.client import Client, batch, produce_fields
from tests.wire.peer import ConnectionClosed

pytestmark = pytest.mark.e2e

MIB = 1 << 20
MOST = 16 * MIB
SETTINGS = {"queued.max.request.bytes": MOST, "ottla.request.progress.timeout.ms": 1_000}
BEGINNING = struct.pack(">ihh", 2 * MIB, ApiKey.PRODUCE, 9)


def begin(client: Client, size: int) -> None:
    """Send the beginning of a Produce, as far as the broker takes it."""
    client.socket.settimeout(0.01)
    try:
        client.raw(BEGINNING + bytes(size))
    except (TimeoutError, ConnectionError):
        pass
    client.socket.settimeout(20)


@pytest.mark.parametrize(("count", "size"), [(150, MIB), (600, 200_000)], ids=["large", "many"])
def test_requests_that_are_not_finished_are_bounded_together(count: int, size: int) -> None:
    with Victim(settings=SETTINGS) as victim, ExitStack() as stack:
        honest = stack.enter_context(Client(victim.port))
        topic = honest.topic()
        assert honest.produce(topic, batch(b"x" * 900_000)).error_code == 0
        victim.forget_peak()
        before = victim.peak_bytes()
        with victim.calm() as felt:
            for _ in range(count):
                begin(stack.enter_context(Client(victim.port)), size)
            assert honest.produce(topic).error_code == 0, "it comes whole"
            assert honest.produce(topic, batch(b"x" * 900_000)).error_code == 0, "within the timeout"
        assert victim.peak_bytes() - before < 2 * MOST + 20 * MIB
        assert felt.p99_ms < 500
        text = victim.log_text()
    assert "did not grow" in text


def test_large_requests_of_many_that_finish_are_all_served() -> None:
    with Victim(settings=SETTINGS | {"queued.max.request.bytes": 2 * MIB}) as victim, ExitStack() as stack:
        clients = [stack.enter_context(Client(victim.port)) for _ in range(8)]
        topic = clients[0].topic()
        frames = []
        for client in clients:
            assert client.metadata(topic).topics[0].error_code == 0
            message = client.frame  # as it is sent
            from tests.wire.requests import request

            fields = produce_fields(topic, batch(b"x" * 900_000))
            frames.append(message(ApiKey.PRODUCE, 9, request(ApiKey.PRODUCE, fields), 7))
        for begin_at in range(0, len(frames[0]), 300_000):
            for client, frame in zip(clients, frames, strict=True):
                client.raw(frame[begin_at : begin_at + 300_000])
        for client in clients:
            try:
                assert client.next_frame().correlation_id == 7
            except ConnectionClosed:
                raise AssertionError(victim.log_text()) from None
        assert ErrorCode.NONE == 0
