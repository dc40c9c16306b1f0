"""Clients that ask for much and read nothing."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from ottla.protocol.apis import ApiKey
from tests.hostile.victim import Victim
from tests.support.client import Client, batch
from tests.support.requests import fetch_fields
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

MIB = 1 << 20
RECORDS = 12
EACH = 1_000_000


def filled(client: Client, each: int = EACH) -> str:
    topic = client.topic(max_message_bytes=str(each + MIB))
    for _ in range(RECORDS):
        assert client.produce(topic, batch(b"x" * each)).error_code == 0
    return topic


def ask(client: Client, topic: str) -> None:
    """Ask for all of it."""
    client.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_bytes=50 * MIB, partition_max_bytes=50 * MIB))


def deaf(port: int, buffer_bytes: int = 4096) -> Client:
    client = Client(port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    return client


def test_answers_that_nobody_reads_are_bounded_together(tmp_path) -> None:
    """Also where each of them is one batch, which is never made smaller."""
    settings = {"ottla.queued.max.response.bytes": 32 * MIB}
    with Victim(tmp_path / "data", settings=settings) as victim, ExitStack() as stack:
        honest = stack.enter_context(Client(victim.port))
        topic = filled(honest, 5 * MIB)
        pauses = stack.enter_context(deaf(victim.port))
        ask(pauses, topic)
        assert honest.fetch(topic, max_bytes=MIB).error_code == 0
        victim.forget_peak()
        before = victim.peak_bytes()
        with victim.calm() as felt:
            readers = [stack.enter_context(deaf(victim.port)) for _ in range(40)]
            for reader in readers:
                ask(reader, topic)
            for _ in range(20):
                assert honest.fetch(topic, max_bytes=MIB).error_code == 0
        assert victim.peak_bytes() - before < 200 * MIB
        assert "not read" in victim.log_text()
        assert felt.p50_ms < 200


def test_who_reads_late_is_answered_whole_and_in_order(tmp_path) -> None:
    with Victim(tmp_path / "data") as victim, Client(victim.port) as honest, Client(victim.port) as late:
        topic = filled(honest)
        for _ in range(2):
            ask(late, topic)
            late.start(ApiKey.API_VERSIONS, 0)
        assert honest.fetch(topic, max_bytes=MIB).error_code == 0
        late.raw(b"\xff\xff\xff\xff")  # what was asked before is answered all the same
        for _ in range(2):
            assert len(late.answer().responses[0].partitions[0].records) > RECORDS * EACH
            assert late.answer().error_code == 0
        assert late.is_closed()


def test_consumers_that_catch_up_together_are_given_less_and_all_served(tmp_path) -> None:
    """Each asks for more than a tenth of what there is room for, and nobody has read yet when the last one asks."""
    settings = {"ottla.queued.max.response.bytes": 40 * MIB}
    with Victim(tmp_path / "data", settings=settings) as victim, ExitStack() as stack:
        honest = stack.enter_context(Client(victim.port))
        topic = filled(honest)
        readers = [stack.enter_context(deaf(victim.port, 256 << 10)) for _ in range(10)]
        for reader in readers:
            ask(reader, topic)
        assert honest.fetch(topic, max_bytes=MIB).error_code == 0
        sizes = [len(reader.answer().responses[0].partitions[0].records) for reader in readers]
        assert sizes[0] > RECORDS * EACH
        assert min(sizes) >= EACH, "one batch always goes"
        assert "not read" not in victim.log_text()
        ask(honest, topic)
        assert len(honest.answer().responses[0].partitions[0].records) > RECORDS * EACH, "there is room again"


def test_an_open_request_keeps_nobody_who_does_not_read(tmp_path) -> None:
    settings = {"connections.max.idle.ms": 500}
    with Victim(tmp_path / "data", settings=settings) as victim, Client(victim.port) as honest:
        topic = filled(honest)
        with deaf(victim.port) as reader:
            ask(reader, topic)
            ask(reader, topic)
            wait_for(lambda: "were not read for 500 ms" in victim.log_text(), "it is closed")
