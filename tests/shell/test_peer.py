"""A connection to another node, over sockets: who this one is, and answers that are none."""

import asyncio
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest

from ottla.broker.net.peer import SESSION_SHARE, Login, connect
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedFrame, ProtocolError
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.plain import PLAIN, PlainClient, PlainServer
from tests.clients.sasl_broker import SaslBroker

HOST = "127.0.0.1"


def login(password="secret", mechanism=PLAIN):
    return Login(mechanism=mechanism, exchange=lambda: PlainClient("node", password))


def plain():
    return PlainServer(lambda name, password: password == "secret", lambda *asked: False)


async def list_groups(peer, version):
    body = ListGroupsRequest.layout(version).encode(ListGroupsRequest())
    return ListGroupsResponse.layout(version).decode(await peer.ask(ApiKey.LIST_GROUPS, version, body)).groups


@asynccontextmanager
async def node(answer):
    """A peer that answers every frame with these bytes, and then hangs up."""

    async def serve(reader, writer):
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("version", [2, 3])
async def test_it_says_who_it_is_and_asks(version):
    async with SaslBroker({PLAIN: plain}) as broker:
        peer = await connect(HOST, broker.port, "ottla-node-1", login())
        assert [await list_groups(peer, version) for _ in range(2)] == [[], []]
        assert peer.is_open
        peer.close()
        assert not peer.is_open
    assert broker.users == ["node"]
    assert broker.connections == [["SASL_HANDSHAKE", "SASL_AUTHENTICATE", "LIST_GROUPS", "LIST_GROUPS"]]


@pytest.mark.parametrize("wrong", [login("wrong"), login(mechanism="SCRAM-SHA-256")])
async def test_who_is_not_accepted_is_told_why(wrong):
    async with SaslBroker({PLAIN: plain}) as broker:
        with pytest.raises(AuthenticationFailed, match=r"Invalid username|SCRAM-SHA-256"):
            await connect(HOST, broker.port, "ottla-node-1", wrong)


async def test_a_session_is_not_used_until_its_end(monkeypatch):
    async with SaslBroker({PLAIN: plain}, lifetime_ms=60_000) as broker:
        peer = await connect(HOST, broker.port, "ottla-node-1", login())
        loop = asyncio.get_running_loop()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now + 59 * SESSION_SHARE)
        assert peer.is_open
        monkeypatch.setattr(loop, "time", lambda: now + 61 * SESSION_SHARE)
        assert not peer.is_open
        monkeypatch.undo()
        peer.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", EOFError),
        (b"\0\0\0\x10\0\0\0\1", EOFError),
        (b"\0\0\0\4\0\0\0\2", MalformedFrame),
        (b"\x7f\xff\xff\xff", ProtocolError),
        (b"\xff\xff\xff\xff", ProtocolError),
    ],
)
async def test_what_is_no_answer(answer, error):
    async with node(answer) as port:
        peer = await connect(HOST, port, "ottla-node-1")
        with pytest.raises(error):
            await list_groups(peer, 2)
        peer.close()


async def test_it_does_not_talk_to_itself(monkeypatch):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        own = taken.getsockname()
    # Where nobody listens at the port that this end happens to get, the kernel connects it to itself.
    monkeypatch.setattr(asyncio, "open_connection", partial(asyncio.open_connection, local_addr=own))
    with pytest.raises(ConnectionRefusedError, match="nobody listens"):
        await connect(*own, "ottla-node-1")


async def test_it_sees_that_the_other_end_has_gone():
    async with node(b"\0\0\0\5\0\0\0\1\0") as port:
        peer = await connect(HOST, port, "ottla-node-1")
        await peer.ask(ApiKey.LIST_GROUPS, 2, b"")
        async with asyncio.timeout(5):
            while peer.is_open:  # noqa: ASYNC110 - the kernel tells, in its own time
                await asyncio.sleep(0.001)
        peer.close()
