"""What a broken or hostile client sends: the broker stays up, answers others, and its memory stays bounded."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from ottla.testing import BrokerProcess

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
        assert api_versions(before).error_code == 0
    with connected(broker) as after:
        assert api_versions(after).error_code == 0


def connected(broker: BrokerProcess) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", broker.port), timeout=10))


def request(key: ApiKey, version: int, message: object, correlation_id: int = 1) -> bytes:
    row = api(key)
    body = row.request.layout(version).encode(message)
    flexible = row.request_header_version(version) == 2
    return frame_request(key, version, correlation_id, "garbage", body, flexible=flexible)


def read_frame(peer: socket.socket) -> bytes:
    """The next frame, or b"" if the broker has closed the connection."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        try:
            chunk = peer.recv(65536)
        except ConnectionResetError:
            return b""
        if not chunk:
            assert not data, "the connection ended within a frame"
            return b""
        data += chunk
    return data[4:]


def api_versions(peer: socket.socket) -> ApiVersionsResponse:
    peer.sendall(request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
    return ApiVersionsResponse.layout(0).decode(read_frame(peer)[4:])


def is_closed(peer: socket.socket) -> bool:
    return read_frame(peer) == b""


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
            peer.sendall(struct.pack(">i", len(body)) + body)
            answer = MetadataResponse.layout(1).decode(read_frame(peer)[4:])
            assert "t" in {topic.name for topic in answer.topics}
        return
    with connected(broker) as peer:
        peer.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(peer)


@pytest.mark.parametrize("length", [0, -1, -(2**31), 2**31 - 1, 104_857_601])
def test_a_length_that_no_frame_may_have_closes_at_once(broker: BrokerProcess, length: int) -> None:
    with connected(broker) as peer:
        peer.sendall(struct.pack(">i", length))
        assert is_closed(peer)


def test_unknown_api_keys_and_versions_close_as_kafka_does(broker: BrokerProcess) -> None:
    for key, version in [(999, 0), (-1, 0), (3, 99), (3, -1), (11, 10), (0, 0), (0, 2), (17, 0), (24, 0), (4, 0)]:
        with connected(broker) as peer:
            body = struct.pack(">hhih", key, version, 1, -1) + b"\0" * 8
            peer.sendall(struct.pack(">i", len(body)) + body)
            assert is_closed(peer), (key, version)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerProcess) -> None:
    with connected(broker) as peer:
        body = struct.pack(">hhih", 18, 77, 42, -1) + b"\xff garbage that is not looked at"
        peer.sendall(struct.pack(">i", len(body)) + body)
        frame = read_frame(peer)
        answer = ApiVersionsResponse.layout(0).decode(frame, 4)
        assert struct.unpack(">i", frame[:4]) == (42,)
        assert answer.error_code == 35
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
        assert api_versions(peer).error_code == 0


def test_random_bytes(broker: BrokerProcess) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    for _ in range(150):
        with connected(broker) as peer:
            peer.settimeout(0.05)
            data = rng.randbytes(rng.randrange(1, 3000))
            if rng.random() < 0.7:
                data = struct.pack(">i", len(data)) + data
            try:
                peer.sendall(data)
                peer.recv(4096)
            except (TimeoutError, ConnectionError):
                pass  # half a frame waits for its rest; that is allowed


def test_every_api_truncated_and_with_flipped_bytes(broker: BrokerProcess) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    for key in ApiKey:
        row = api(key)
        for version in row.request.versions:
            whole = request(key, version, row.request())[4:]
            for _ in range(4):
                body = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
                for _ in range(rng.randrange(3)):
                    at = rng.randrange(len(body))
                    body[at] = rng.randrange(256)
                body[:4] = whole[:4][: len(body)]  # the API and version stay
                with connected(broker) as peer:
                    peer.settimeout(0.3)
                    peer.sendall(struct.pack(">i", len(body)) + bytes(body))
                    with suppress(TimeoutError, ConnectionError):
                        peer.recv(4096)


def test_a_client_that_sends_a_byte_at_a_time_is_served_and_holds_nobody_up(broker: BrokerProcess) -> None:
    frame = request(ApiKey.METADATA, 1, MetadataRequest(topics=[]), correlation_id=5)
    with connected(broker) as slow, connected(broker) as other:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame:
            slow.sendall(bytes([byte]))
            assert api_versions(other).error_code == 0
        assert struct.unpack(">i", read_frame(slow)[:4]) == (5,)


def test_announced_bytes_cost_nothing_until_they_come(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    peers = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(50)]
    try:
        for peer in peers:
            peer.sendall(struct.pack(">i", 100 * MEBIBYTE) + b"\0" * 1000)
        with connected(broker) as other:
            assert api_versions(other).error_code == 0
        assert broker.rss_bytes() - before < 20 * MEBIBYTE
    finally:
        for peer in peers:
            peer.close()


def test_a_client_that_never_reads_is_not_served_without_end(broker: BrokerProcess) -> None:
    """Answers pile up in the socket, then in the transport up to its high-water mark, and then requests wait."""
    batch = build_batch([Record(0, 0, None, b"x" * 500_000, ())])
    produce = ProduceRequest(
        acks=1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)]),
        ],
    )
    with connected(broker) as writer:
        writer.sendall(request(ApiKey.PRODUCE, 7, produce))
        assert read_frame(writer)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=50 * MEBIBYTE,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=MEBIBYTE)])],
    )
    frame = request(ApiKey.FETCH, 11, fetch)
    before = broker.rss_bytes()
    with connected(broker) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(1)
        sent = 0
        try:
            while sent < 4000:  # 4,000 × 500 kB would be two gigabytes of answers
                deaf.sendall(frame)
                sent += 1
        except TimeoutError:
            pass  # the broker has stopped reading: what it should do
        with connected(broker) as other:
            assert api_versions(other).error_code == 0
        assert broker.rss_bytes() - before < 60 * MEBIBYTE


def test_pipelined_requests_behind_an_open_one_are_read_ahead_with_a_bound(broker: BrokerProcess) -> None:
    fetch = FetchRequest(
        max_wait_ms=4_000,
        min_bytes=10 * MEBIBYTE,
        max_bytes=50 * MEBIBYTE,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1)])],
    )
    before = broker.rss_bytes()
    with connected(broker) as peer:
        peer.settimeout(0.5)
        peer.sendall(request(ApiKey.FETCH, 11, fetch))
        filler = request(ApiKey.METADATA, 1, MetadataRequest(topics=[]))
        try:
            for _ in range(200):
                peer.sendall(filler * 10_000)
        except TimeoutError:
            pass
        assert broker.rss_bytes() - before < 20 * MEBIBYTE


def test_a_connection_over_the_limit_waits_and_the_others_go_on() -> None:
    with BrokerProcess(settings={"max.connections": 5}) as small:
        peers = [socket.create_connection(("127.0.0.1", small.port), timeout=10) for _ in range(5)]
        for peer in peers:
            assert api_versions(peer).error_code == 0
        with closing(socket.create_connection(("127.0.0.1", small.port), timeout=0.2)) as sixth:
            sixth.sendall(request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
            with pytest.raises(TimeoutError):
                sixth.recv(1)
            assert api_versions(peers[0]).error_code == 0
            peers.pop().close()
            sixth.settimeout(10)
            assert read_frame(sixth), "the place of a closed connection was not given to the one that waits"
        for peer in peers:
            peer.close()


def test_an_idle_connection_is_closed_but_not_within_a_long_poll() -> None:
    settings = {"connections.max.idle.ms": 400}
    with BrokerProcess(settings=settings, topics={"t": 1}) as impatient:
        fetch = FetchRequest(
            max_wait_ms=1_500,
            min_bytes=1,
            max_bytes=MEBIBYTE,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1)])],
        )
        with closing(socket.create_connection(("127.0.0.1", impatient.port), timeout=10)) as waiting:
            waiting.sendall(request(ApiKey.FETCH, 11, fetch))
            with closing(socket.create_connection(("127.0.0.1", impatient.port), timeout=10)) as idle:
                assert is_closed(idle)
            assert read_frame(waiting), "a connection with an open request was closed"
            assert is_closed(waiting)


def test_one_log_line_for_each_broken_connection(broker: BrokerProcess) -> None:
    with BrokerProcess() as fresh:
        with closing(socket.create_connection(("127.0.0.1", fresh.port), timeout=10)) as peer:
            peer.sendall(struct.pack(">i", -1))
            assert is_closed(peer)
        lines = [line for line in fresh.log_text().splitlines() if "Closing connection" in line]
        assert len(lines) == 1
        assert "frame length -1" in lines[0]
