"""Garbage from broken or hostile clients: the broker stays up, answers others, and its memory stays bounded."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.testing import BrokerProcess
from tests.support.client import Client, batch
from tests.support.requests import fetch_fields, request

pytestmark = pytest.mark.e2e

SEED = 20261121
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(topics={"t": 1}) as process:
        yield process


@pytest.fixture(autouse=True)
def serves_others(broker: BrokerProcess) -> Iterator[None]:
    """Whatever a test does, a client that was connected before, and one that comes after, are served."""
    with connected(broker) as before:
        yield
        assert is_served(before)
    with connected(broker) as after:
        assert is_served(after)


def connected(broker: BrokerProcess) -> Client:
    return Client(broker.port, "garbage")


def is_served(peer: Client) -> bool:
    return peer.call(ApiKey.API_VERSIONS, 0).error_code == 0


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def hostile_bodies() -> list[tuple[str, bytes]]:
    header = struct.pack(">hhih", 3, 1, 7, -1)
    flexible = struct.pack(">hhih", 3, 9, 7, -1) + b"\0"
    return [
        ("array of 2^31-1", header + struct.pack(">i", 2**31 - 1)),
        ("array of -5", header + struct.pack(">i", -5) + struct.pack(">h", -1)),
        ("string of 2^15-1", header + struct.pack(">ih", 1, 2**15 - 1)),
        ("string of -1", header + struct.pack(">ih", 1, -1)),
        ("invalid UTF-8", header + struct.pack(">ih", 1, 4) + b"\xff\xfe\xc3\x28"),
        ("compact array of 2^32-2", flexible + b"\xff\xff\xff\xff\x0f"),
        ("endless varint", flexible + b"\x80" * 400_000),
        ("tags of 2^32-1", struct.pack(">hhih", 3, 9, 7, -1) + b"\xff\xff\xff\xff\x0f"),
        ("client id longer than the frame", struct.pack(">hhih", 3, 1, 7, 30_000) + b"abc"),
        ("client id that is no UTF-8", struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xff" + struct.pack(">i", 0)),
        ("header cut short", b"\0\x03\0"),
        ("nothing but a length", b"\0"),
    ]


@pytest.mark.parametrize(("name", "body"), hostile_bodies(), ids=[name for name, _ in hostile_bodies()])
def test_a_malformed_frame_closes_its_connection(broker: BrokerProcess, name: str, body: bytes) -> None:
    if name == "array of -5":
        # A negative count of a nullable array reads as null, which asks Metadata for every topic: Kafka's rule.
        with connected(broker) as peer:
            peer.raw(framed(body))
            answer = MetadataResponse.layout(1).decode(peer.next_frame().rest)
            assert "t" in {topic.name for topic in answer.topics}
        return
    with connected(broker) as peer:
        peer.raw(framed(body))
        assert peer.is_closed()


@pytest.mark.parametrize("length", [0, -1, -(2**31), 2**31 - 1, 104_857_601])
def test_a_length_that_no_frame_may_have_closes_at_once(broker: BrokerProcess, length: int) -> None:
    with connected(broker) as peer:
        peer.raw(struct.pack(">i", length))
        assert peer.is_closed()


def test_unknown_api_keys_and_versions_close_as_kafka_does(broker: BrokerProcess) -> None:
    for key, version in [(999, 0), (-1, 0), (3, 99), (3, -1), (11, 10), (0, 0), (0, 2), (38, 0), (24, 0), (4, 0)]:
        with connected(broker) as peer:
            body = struct.pack(">hhih", key, version, 1, -1) + b"\0" * 8
            peer.raw(framed(body))
            assert peer.is_closed(), (key, version)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerProcess) -> None:
    with connected(broker) as peer:
        body = struct.pack(">hhih", 18, 77, 42, -1) + b"\0\xff garbage that is not looked at"
        peer.raw(framed(body))
        frame = peer.next_frame()
        answer = ApiVersionsResponse.layout(0).decode(frame.rest)
        assert frame.correlation_id == 42
        assert answer.error_code == 35
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
        assert is_served(peer)


def test_random_bytes(broker: BrokerProcess) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    for _ in range(150):
        with connected(broker) as peer:
            peer.socket.settimeout(0.05)
            data = rng.randbytes(rng.randrange(1, 3000))
            # Half a frame waits for its rest; that is allowed.
            with suppress(TimeoutError, ConnectionError):
                peer.raw(framed(data) if rng.random() < 0.7 else data)
                peer.socket.recv(4096)


def test_every_api_truncated_and_with_flipped_bytes(broker: BrokerProcess) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    for key in ApiKey:
        row = api(key)
        for version in row.request.versions:
            for _ in range(4):
                with connected(broker) as peer:
                    whole = peer.frame(key, version, row.request())[4:]
                    body = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
                    for _ in range(rng.randrange(3)):
                        at = rng.randrange(len(body))
                        body[at] = rng.randrange(256)
                    body[:4] = whole[:4][: len(body)]  # the API and version stay
                    peer.socket.settimeout(0.3)
                    peer.raw(framed(bytes(body)))
                    with suppress(TimeoutError, ConnectionError):
                        peer.socket.recv(4096)


def test_a_client_that_sends_a_byte_at_a_time_is_served_and_holds_nobody_up(broker: BrokerProcess) -> None:
    with connected(broker) as slow, connected(broker) as other:
        for byte in slow.frame(ApiKey.METADATA, 1, request(ApiKey.METADATA, {"topics": []}), 5):
            slow.raw(bytes([byte]))
            assert is_served(other)
        assert slow.next_frame().correlation_id == 5


def test_announced_bytes_cost_nothing_until_they_come(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    with ExitStack() as peers:
        for _ in range(50):
            peers.enter_context(connected(broker)).raw(struct.pack(">i", 100 * MEBIBYTE) + b"\0" * 1000)
        with connected(broker) as other:
            assert is_served(other)
        assert broker.rss_bytes() - before < 20 * MEBIBYTE


def test_a_client_that_never_reads_is_not_served_without_end(broker: BrokerProcess) -> None:
    """Answers pile up in the socket, then in the transport up to its high-water mark, and then requests wait."""
    with connected(broker) as writer:
        assert writer.produce("t", batch(b"x" * 500_000), 7, acks=1).error_code == 0
    before = broker.rss_bytes()
    with connected(broker) as deaf:
        fields = fetch_fields("t", max_bytes=50 * MEBIBYTE, partition_max_bytes=MEBIBYTE)
        frame = deaf.frame(ApiKey.FETCH, 11, request(ApiKey.FETCH, fields))
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.socket.settimeout(1)
        # It times out where the broker has stopped reading: what it should do.
        with suppress(TimeoutError):
            for _ in range(4000):  # 4,000 × 500 kB would be two gigabytes of answers
                deaf.raw(frame)
        with connected(broker) as other:
            assert is_served(other)
        assert broker.rss_bytes() - before < 60 * MEBIBYTE


def test_pipelined_requests_behind_an_open_one_are_read_ahead_with_a_bound(broker: BrokerProcess) -> None:
    size = {"max_bytes": 50 * MEBIBYTE, "partition_max_bytes": 1}
    before = broker.rss_bytes()
    with connected(broker) as peer:
        peer.socket.settimeout(0.5)
        peer.start(ApiKey.FETCH, 11, **fetch_fields("t", 1, max_wait_ms=4_000, min_bytes=10 * MEBIBYTE, **size))
        filler = peer.frame(ApiKey.METADATA, 1, request(ApiKey.METADATA, {"topics": []}))
        with suppress(TimeoutError):
            for _ in range(200):
                peer.raw(filler * 10_000)
        assert broker.rss_bytes() - before < 20 * MEBIBYTE


def test_a_connection_over_the_limit_waits_and_the_others_go_on() -> None:
    with BrokerProcess(settings={"max.connections": 5}) as small, ExitStack() as closing:
        peers = [closing.enter_context(connected(small)) for _ in range(5)]
        assert all(map(is_served, peers))
        sixth = closing.enter_context(connected(small))
        sixth.start(ApiKey.API_VERSIONS, 0)
        assert sixth.is_silent(0.2)
        assert is_served(peers[0])
        peers.pop().close()
        assert sixth.answer().error_code == 0, "the place of a closed connection was not given to the one that waits"


def test_an_idle_connection_is_closed_but_not_within_a_long_poll() -> None:
    settings = {"connections.max.idle.ms": 400}
    with BrokerProcess(settings=settings, topics={"t": 1}) as impatient, connected(impatient) as waiting:
        waiting.start(ApiKey.FETCH, 11, **fetch_fields("t", max_wait_ms=1_500, min_bytes=1, partition_max_bytes=1))
        with connected(impatient) as idle:
            assert idle.is_closed()
        assert waiting.answer().error_code == 0, "a connection with an open request was closed"
        assert waiting.is_closed()


def test_one_log_line_for_each_broken_connection(broker: BrokerProcess) -> None:
    with BrokerProcess() as fresh:
        with connected(fresh) as peer:
            peer.raw(struct.pack(">i", -1))
            assert peer.is_closed()
        lines = [line for line in fresh.log_text().splitlines() if "Closing connection" in line]
        assert len(lines) == 1
        assert "frame length -1" in lines[0]
