"""Connections under TLS on real event loops: what transports without TLS promise has to hold there, too."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from ottla.broker.context import RequestContext
from ottla.broker.net.answers import TLS_PIECE_BYTES
from ottla.broker.net.connection import READ_AHEAD_BYTES, Connection
from ottla.broker.net.large_frame import LARGE_BYTES
from ottla.broker.net.tls import SHUTDOWN_S, Contexts
from ottla.broker.settings import Settings
from ottla.protocol.framing import Gathered
from ottla.testing.authority import authority
from tests.clients.live import until
from tests.shell.host import UnboundedHost, framed

RECORD_BYTES = 16 << 10
LARGE = 3_000_001
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Host(UnboundedHost):
    """Answers a frame with its length and its end; ``park`` stays open, ``give`` is answered with many pieces."""

    def __init__(self) -> None:
        self.parked: list[RequestContext] = []
        self.connections: list[Connection] = []
        self.lost = asyncio.Event()
        self.was_unread = 0

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)

    def closed(self, connection: Connection) -> None:
        self.lost.set()

    def unread(self, connection: Connection) -> None:
        self.was_unread += 1

    def receive(self, frame: bytes, start: int, connection: Connection) -> bytes | Gathered | None:
        body = bytes(frame[start:])
        if body.startswith(b"park"):
            connection.open = RequestContext(connection, 0, 1, "", lambda response, correlation_id: response)
            self.parked.append(connection.open)
            return None
        if body.startswith(b"give"):
            size = int(body[4:])
            pieces = [bytes([at % 251]) * min(100_000, size - at) for at in range(0, size, 100_000)]
            return Gathered([struct.pack(">i", size), *pieces], 4 + size)
        return framed(f"{len(body)} {body[-3:]!r}".encode())


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(framed(*bodies))

    async def answer(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)


@asynccontextmanager
async def served(host: Host) -> AsyncIterator[Client]:
    """A TLS server with one client."""
    loop = asyncio.get_running_loop()
    contexts = Contexts(Settings(ssl_keystore_location=authority().serverfile), "SSL")
    server = await loop.create_server(
        lambda: Connection(host, loop), "127.0.0.1", 0, ssl=contexts.context, ssl_shutdown_timeout=SHUTDOWN_S
    )
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=authority().cafile)
    client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=trusting, limit=1 << 16))
    try:
        yield client
    finally:
        client.writer.transport.abort()
        for connection in host.connections:
            connection.kill()
        server.close()
        await asyncio.sleep(0)


@pytest.fixture(params=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Host, Client], Awaitable[None]]], None]:
    """Runs a story of a host and its client."""

    def run(story: Callable[[Host, Client], Awaitable[None]]) -> None:
        async def whole() -> None:
            host = Host()
            async with asyncio.timeout(20), served(host) as client:
                await story(host, client)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(whole())

    return run


def test_small_frames(run: Any) -> None:
    async def story(host: Host, client: Client) -> None:
        client.send(b"one", b"two")
        assert [await client.answer() for _ in range(2)] == [b"3 b'one'", b"3 b'two'"]
        assert host.connections[0].client_host == "/127.0.0.1"

    run(story)


@pytest.mark.parametrize("before", [0, 1, RECORD_BYTES - 7, RECORD_BYTES - 4, RECORD_BYTES - 1, LARGE_BYTES + 5])
def test_a_large_frame_that_begins_and_ends_within_a_record(run: Any, before: int) -> None:
    """The transport gets another protocol in the middle of a record, and the first one again."""
    body = bytes(range(256)) * (LARGE // 256) + b"end"

    async def story(host: Host, client: Client) -> None:
        client.send(b"x" * before + b"abc", body, b"after", body, b"last")
        sizes = [len(body), 5, len(body), 4]
        assert await client.answer() == f"{before + 3} b'abc'".encode()
        assert [int((await client.answer()).split()[0]) for _ in sizes] == sizes
        client.send(b"still")
        assert await client.answer() == b"5 b'ill'"

    run(story)


def test_large_frames_that_come_in_pieces_of_every_size(run: Any) -> None:
    async def story(host: Host, client: Client) -> None:
        whole = framed(b"a" * 200_000, b"b" * 50, b"c" * 300_000)
        step, at = 1, 0
        while at < len(whole):
            client.writer.write(whole[at : at + step])
            at, step = at + step, step * 3 % 20_011 + 1
            await asyncio.sleep(0)
        assert [await client.answer() for _ in range(3)] == [b"200000 b'aaa'", b"50 b'bbb'", b"300000 b'ccc'"]

    run(story)


def test_what_waits_decrypted_is_served_when_reading_goes_on(run: Any) -> None:
    """A connection that reads no more must get what TLS has read ahead, once it reads again."""
    frames = [b"%05d" % number + b"." * 995 for number in range(3_000)]

    async def story(host: Host, client: Client) -> None:
        client.send(b"park")
        client.writer.write(framed(*frames))
        await until(lambda: host.parked and host.connections[0].buffered_bytes >= READ_AHEAD_BYTES, "frames")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert host.connections[0].buffered_bytes < 2 * READ_AHEAD_BYTES + RECORD_BYTES, "it was not read on"
        host.parked[0].reply(framed(b"parked"))
        assert await client.answer() == b"parked"
        assert {await client.answer() for _ in frames} == {b"1000 b'...'"}

    run(story)


@pytest.mark.parametrize("size", [10, 70_000, 1_048_576, 40_000_000])
def test_answers_of_many_pieces(run: Any, size: int) -> None:
    async def story(host: Host, client: Client) -> None:
        client.send(b"give%d" % size, b"next")
        answer = await client.answer()
        assert len(answer) == size
        assert answer[::100_000] == bytes(at % 251 for at in range(0, size, 100_000))
        assert await client.answer() == b"4 b'ext'"

    run(story)


def test_an_answer_that_is_not_read_is_counted(run: Any) -> None:
    async def story(host: Host, client: Client) -> None:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(b"give40000000")
        await until(lambda: host.was_unread, "an answer that waits")
        for _ in range(50):
            await asyncio.sleep(0.001)
        connection = host.connections[0]
        # What the kernels on both sides hold is with the client already.
        assert 20_000_000 < connection.unread_bytes <= connection.kept_bytes < 40_000_000 + 4 * TLS_PIECE_BYTES
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await client.answer()) == 40_000_000
        assert connection.unread_bytes == 0

    run(story)


def test_the_end_of_tls_ends_both_directions(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """There is no half-closed connection: who waits for an answer and ends his side hears nothing more."""

    async def story(host: Host, client: Client) -> None:
        client.send(b"park")
        await until(lambda: host.parked, "a request")
        client.writer.close()
        async with asyncio.timeout(5):
            await host.lost.wait()
        assert host.parked[0].is_gone

    with caplog.at_level(logging.WARNING):
        run(story)
    assert caplog.messages == []


def test_a_client_that_goes_without_a_word(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story(host: Host, client: Client) -> None:
        client.send(b"park")
        await until(lambda: host.parked, "a request")
        client.writer.transport.abort()
        async with asyncio.timeout(5):
            await host.lost.wait()

    with caplog.at_level(logging.WARNING):
        run(story)
    assert caplog.messages == []


def test_who_does_not_end_tls_is_closed_all_the_same(run: Any) -> None:
    async def story(host: Host, client: Client) -> None:
        client.send(b"one")
        await client.answer()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        host.connections[0].close()
        async with asyncio.timeout(5):
            await host.lost.wait()

    run(story)


@pytest.mark.parametrize("loop", list(LOOPS))
def test_who_is_refused_hears_why(loop: str) -> None:
    """A client that is only cut off takes it for a network that fails, and comes again and again."""
    settings = Settings(
        ssl_keystore_location=authority().serverfile,
        ssl_truststore_location=authority().cafile,
        ssl_client_auth="required",
    )

    async def story() -> None:
        contexts = Contexts(settings, "SSL")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            trusting = ssl.create_default_context(cafile=authority().cafile)
            port = listening.getsockname()[1]
            client = asyncio.create_task(asyncio.open_connection("127.0.0.1", port, ssl=trusting))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
                await contexts.accept(accepted, asyncio.Protocol(), 5)
            reader, _ = await client
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                await reader.read()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())
