"""Pitfalls 1 to 10: connections and framing."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.broker.handlers.api_versions import table
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker, BrokerProcess
from tests.pitfalls.conftest import Connect
from tests.support.client import Client, batch
from tests.support.requests import fetch_fields, produce_fields, request
from tests.support.waiting import seconds_of
from tests.wire.requests import World

MEBIBYTE = 1 << 20
A_LENGTH = struct.Struct(">i")


@pytest.fixture(scope="module")
def world(broker: Broker) -> Iterator[World]:
    with Client(broker.port) as client:
        yield World(client)


def is_served(client: Client) -> bool:
    return client.call(ApiKey.API_VERSIONS, 0).error_code == 0


def test_pitfall_01_answers_come_in_the_order_of_their_requests(client: Client, topic: str) -> None:
    client.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_wait_ms=200, min_bytes=1))
    client.start(ApiKey.API_VERSIONS, 0)
    client.start(ApiKey.FETCH, 12, **fetch_fields(topic))
    client.start(ApiKey.METADATA, 12, topics=[])
    assert client.is_silent(0.1), "nothing overtakes the fetch that waits"
    for _ in range(4):
        client.answer()


def test_pitfall_02_clients_send_ahead_and_the_broker_reads_ahead_but_not_without_bound(client: Client) -> None:
    topic = client.topic()
    for _ in range(1000):
        client.start(ApiKey.API_VERSIONS, 0)
    for _ in range(1000):
        assert client.answer().error_code == 0

    client.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_wait_ms=400, min_bytes=1))
    large = produce_fields("nobody-has-it", batch(b"x" * MEBIBYTE))
    sender = threading.Thread(target=lambda: [client.start(ApiKey.PRODUCE, 9, **large) for _ in range(32)], daemon=True)
    sender.start()
    sender.join(0.2)
    assert sender.is_alive(), "32 MiB were taken behind a request that waits"
    assert client.answer().responses, "the fetch"
    for _ in range(32):
        while not client.opened:
            time.sleep(0.001)
        row = client.answer().responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sender.join()


def test_pitfall_03_what_waits_on_one_connection_holds_up_no_other(connect: Connect, group: str) -> None:
    fetcher, joiner, other = connect(), connect(), connect()
    topic = other.topic()
    joined = other.stable(group)
    joiner.start_enter(group)  # waits until the other member has joined again
    fetcher.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_wait_ms=5000, min_bytes=1))
    assert seconds_of(lambda: other.metadata(topic)) < 1
    other.await_rebalance(group, joined)
    assert joiner.is_silent(0.05)
    assert fetcher.is_silent(0.05)
    assert seconds_of(lambda: other.produce(topic)) < 1
    assert fetcher.answer().responses[0].partitions[0].records
    other.start_join(group, member_id=joined.member_id)
    assert joiner.answer().generation_id == other.answer().generation_id == 2


def test_pitfall_04_a_produce_with_acks_0_is_never_answered(connect: Connect) -> None:
    client = connect()
    topic = client.topic()
    client.raw(client.frame(ApiKey.PRODUCE, 9, request(ApiKey.PRODUCE, produce_fields(topic, batch(), acks=0))))
    assert is_served(client), "the next answer is that of the next request"
    assert client.offset(topic).offset == 1
    assert client.produce(topic, acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    failing = request(ApiKey.PRODUCE, produce_fields("nobody-has-it", batch(), acks=0))
    client.raw(client.frame(ApiKey.PRODUCE, 9, failing))
    assert client.is_closed(), "the only way to tell of an error"


@pytest.mark.parametrize("length", [0, -1, -(2**31), 104_857_601, 2**31 - 1])
def test_pitfall_05_lengths_that_no_frame_has_close_at_once(client: Client, length: int) -> None:
    client.raw(A_LENGTH.pack(length))
    assert client.is_closed()


def test_pitfall_06_frames_in_pieces_hold_up_nobody_and_no_memory() -> None:
    with BrokerProcess() as process, Client(process.port) as other:
        assert is_served(other)
        before = process.rss_bytes()
        slow = [Client(process.port) for _ in range(20)]
        for client in slow:
            client.raw(A_LENGTH.pack(90 * MEBIBYTE) + b"\0\0\0\7")
        assert seconds_of(lambda: is_served(other)) < 1
        assert process.rss_bytes() - before < 60 * MEBIBYTE, "announced are 1,800 MiB"
        with Client(process.port) as drop_by_drop:
            for byte in drop_by_drop.frame(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, {}), 7):
                drop_by_drop.raw(bytes([byte]))
            assert drop_by_drop.next_frame().correlation_id == 7
        for client in slow:
            client.socket.close()


def test_pitfall_07_who_waits_for_an_answer_is_not_idle() -> None:
    with Broker({"connections.max.idle.ms": 200}) as broker, Client(broker.port) as idle, Client(broker.port) as waits:
        topic = waits.topic()
        waits.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_wait_ms=900, min_bytes=1))
        assert is_served(idle)
        assert 0.1 < seconds_of(idle.is_closed) < 0.8
        assert waits.answer().responses[0].partitions[0].error_code == 0


def test_pitfall_08_no_request_kills_the_broker(connect: Connect) -> None:
    before = connect()
    assert is_served(before)
    for frame in (
        struct.pack(">hhihs", 999, 0, 1, 4, b"kfak"),
        struct.pack(">hhih", ApiKey.METADATA, 99, 1, -1) + b"\0\0\0\0",
        struct.pack(">hhih", ApiKey.METADATA, 1, 1, -1) + b"\x7f\xff\xff\xff",
        b"\0",
        b"\xff" * 100,
    ):
        client = connect()
        client.raw(A_LENGTH.pack(len(frame)) + frame)
        assert client.is_closed()
    assert is_served(before)
    assert is_served(connect())


@pytest.mark.parametrize("how", ["half-close", "reset"])
def test_pitfall_09_a_member_whose_connection_goes_stays_a_member(connect: Connect, group: str, how: str) -> None:
    client, goes = connect(), connect()
    joined = client.stable(group)
    member_id = goes.start_enter(group)
    assert goes.is_silent(0.05)
    if how == "half-close":
        goes.socket.shutdown(socket.SHUT_WR)
    else:
        goes.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        goes.socket.close()
    client.await_rebalance(group, joined)
    again = client.join(group, member_id=joined.member_id)
    assert {member.member_id for member in again.members} == {joined.member_id, member_id}
    assert member_id in {member.member_id for member in client.describe(group).members}


FIRST_WITH_THROTTLE = {
    ApiKey.PRODUCE: 1, ApiKey.FETCH: 1, ApiKey.LIST_OFFSETS: 2, ApiKey.METADATA: 3, ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3, ApiKey.FIND_COORDINATOR: 1, ApiKey.JOIN_GROUP: 2, ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1, ApiKey.SYNC_GROUP: 1, ApiKey.DESCRIBE_GROUPS: 1, ApiKey.LIST_GROUPS: 1,
    ApiKey.API_VERSIONS: 1, ApiKey.CREATE_TOPICS: 2, ApiKey.DELETE_TOPICS: 1, ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
}  # fmt: skip
"""Where it is not there from version 0 on."""
PLACE = {ApiKey.PRODUCE: -1, ApiKey.API_VERSIONS: -1, ApiKey.OFFSET_DELETE: 1}
"""Where it is not the first field."""
WITHOUT = {ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.mark.parametrize("key", [ApiKey(row.api_key) for row in table()], ids=lambda key: key.name)
def test_pitfall_10_throttle_time_stands_where_the_version_has_it_and_is_0(
    client: Client, world: World, key: ApiKey
) -> None:
    for row in table():
        for version in range(row.min_version, row.max_version + 1) if row.api_key == key else ():
            if version not in api(key).response.versions:
                continue
            fields = [f.name for f in api(key).response.__wire__ if f.present(version) and not f.tagged(version)]
            has_it = key not in WITHOUT and version >= FIRST_WITH_THROTTLE.get(key, 0)
            assert ("throttle_time_ms" in fields) is has_it, version
            if has_it:
                assert fields[PLACE.get(key, 0)] == "throttle_time_ms", version
                assert client.ask(key, version, world.minimal(key, version)).throttle_time_ms == 0
