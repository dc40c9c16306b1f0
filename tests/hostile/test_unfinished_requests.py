"""Requests that are begun and not finished."""

from __future__ import annotations

import struct
from contextlib import ExitStack, suppress

import pytest

from ottla.protocol.apis import ApiKey
from tests.hostile.victim import Victim
from tests.support.client import Client, batch
from tests.support.peer import ConnectionClosed
from tests.support.requests import produce_fields, request
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

MIB = 1 << 20
MOST = 16 * MIB
SETTINGS = {"queued.max.request.bytes": MOST, "ottla.request.progress.timeout.ms": 1_000}
BEGINNING = struct.pack(">ihh", 2 * MIB, ApiKey.PRODUCE, 9)


def begin(client: Client, size: int) -> None:
    """Send the beginning of a Produce, as far as the broker takes it."""
    client.socket.settimeout(0.01)
    with suppress(TimeoutError, ConnectionError):
        client.raw(BEGINNING + bytes(size))
    client.socket.settimeout(20)


def is_written(port: int, topic: str) -> bool:
    """Whether a large Produce is served; if it is turned away, a client tries again."""
    with Client(port) as client, suppress(ConnectionClosed, ConnectionError):
        client.metadata(topic)
        return bool(client.produce(topic, batch(b"x" * 900_000)).error_code == 0)
    return False


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
            wait_for(lambda: is_written(victim.port, topic), "there is room again")
        assert victim.peak_bytes() - before < 2 * MOST + 20 * MIB
        assert felt.p99_ms < 500


def test_large_requests_of_many_that_finish_are_all_served() -> None:
    with Victim(settings=SETTINGS | {"queued.max.request.bytes": 2 * MIB}) as victim, ExitStack() as stack:
        clients = [stack.enter_context(Client(victim.port)) for _ in range(8)]
        topic = clients[0].topic()
        for client in clients:
            assert client.metadata(topic).topics[0].error_code == 0
        fields = request(ApiKey.PRODUCE, produce_fields(topic, batch(b"x" * 900_000)))
        frame = clients[0].frame(ApiKey.PRODUCE, 9, fields, 7)
        for at in range(0, len(frame), 300_000):
            for client in clients:
                client.raw(frame[at : at + 300_000])
        for client in clients:
            assert client.next_frame().correlation_id == 7
        assert clients[0].offset(topic).offset == len(clients)
