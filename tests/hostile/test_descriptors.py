"""Connections that take up all descriptors: what is kept for others, and who waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ottla.protocol.apis import ApiKey
from tests.hostile.victim import Victim
from tests.support.client import Client, batch

pytestmark = pytest.mark.e2e


@contextmanager
def idle(port: int, count: int, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0)))
            for _ in range(count)
        ]


def is_served(client: Client) -> bool:
    return client.call(ApiKey.API_VERSIONS, 0).error_code == 0


def test_idle_connections_leave_descriptors_for_the_log(tmp_path) -> None:
    limits = ("-Sn 200", "-Hn 320")
    with (
        Victim(tmp_path / "data", ulimit=limits, settings={"log.segment.bytes": 20_000}) as victim,
        Client(victim.port) as honest,
    ):
        topics = [honest.topic(4) for _ in range(3)]
        with victim.calm() as felt, idle(victim.port, 400):
            for _ in range(6):
                for topic in topics:
                    for partition in range(4):
                        assert honest.produce(topic, batch(b"x" * 15_000), partition=partition).error_code == 0
        assert honest.fetch(topics[0]).error_code == 0
        assert victim.is_running
        text = victim.log_text()
    assert text.count("Fewer connections than max.connections") == 1
    assert text.count("Accepting no connections for now") == 1
    assert felt.p99_ms < 500


def test_over_max_connections_others_wait_until_one_is_closed() -> None:
    with Victim(settings={"max.connections": 3}) as victim, Client(victim.port) as first, Client(victim.port) as second:
        assert is_served(first) and is_served(second)
        with idle(victim.port, 1), Client(victim.port) as waits:
            waits.start(ApiKey.API_VERSIONS, 0)
            assert waits.is_silent(0.2)
            assert is_served(first)
            second.socket.close()
            assert waits.answer().error_code == 0


def test_one_address_has_so_many_connections_and_its_override_another_number() -> None:
    settings = {"max.connections.per.ip": 2, "max.connections.per.ip.overrides": "127.0.0.3:1, localhost:3"}
    with Victim(settings=settings) as victim:
        for address, most in (("127.0.0.2", 2), ("127.0.0.3", 1), ("127.0.0.1", 3)):
            with idle(victim.port, most, address) as kept:
                for _ in range(2):
                    with socket.create_connection(("127.0.0.1", victim.port), 10, source_address=(address, 0)) as more:
                        assert more.recv(1) == b""
                kept[0].close()
                while True:  # until the broker has seen it
                    with socket.create_connection(("127.0.0.1", victim.port), 10, source_address=(address, 0)) as more:
                        more.settimeout(0.1)
                        try:
                            assert more.recv(1) == b""
                        except TimeoutError:
                            break
        assert victim.log_text().count("Too many connections of an address") == 1
