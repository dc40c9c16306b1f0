"""A connection to another node: one request at a time goes out as a frame, and its answer comes back."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.framing import check_length
from ottla.protocol.headers import frame_request, skip_tags
from ottla.protocol.sasl.exchange import AuthenticationFailed, ClientExchange

MAX_ANSWER_BYTES = 64 << 20
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2
SESSION_SHARE = 0.85
"""The share of a session after which a connection is not used any more."""


class Login(NamedTuple):
    """Who this node is to the others, and how it knows them.

    Attributes:
        tls: checks the certificate of the other node, and may show this one's; None: no TLS.
        server_name: what that certificate has to be for; empty: the host that is connected to.
        mechanism: of SASL; empty: none.
        exchange: makes the exchange of one connection.
    """

    tls: ssl.SSLContext | None = None
    server_name: str = ""
    mechanism: str = ""
    exchange: Callable[[], ClientExchange] | None = None


OPEN = Login()
"""Neither TLS nor SASL."""


class Peer:
    """See the module. Made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self._good_until = math.inf  # by the clock of the event loop

    @property
    def is_open(self) -> bool:
        """Whether it is of use: the other node has not closed it, as far as is known, nor will for its age."""
        is_old = self._good_until < asyncio.get_running_loop().time()
        return not (is_old or self._writer.is_closing() or self._reader.at_eof())

    async def ask(self, key: ApiKey, version: int, body: bytes) -> bytes:
        """Send a request, and give the body of its answer. Whoever gives up waiting has to close the connection.

        Raises:
            OSError, EOFError: it broke before the answer came.
            MalformedFrame: what came is no answer to this.
        """
        self._correlation_id += 1
        row = api(key)
        flexible = row.request_header_version(version) == 2
        frame = frame_request(key, version, self._correlation_id, self._client_id, body, flexible=flexible)
        self._writer.write(frame)
        await self._writer.drain()
        size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
        check_length(size, MAX_ANSWER_BYTES, min_frame_bytes=4)
        answer = await self._reader.readexactly(size)
        if int.from_bytes(answer[:4], "big", signed=True) != self._correlation_id:
            raise MalformedFrame("an answer to another request")
        return answer[skip_tags(answer, 4) if row.response_header_version(version) else 4 :]

    async def authenticate(self, mechanism: str, exchange: ClientExchange) -> None:
        """Go through an exchange of SASL.

        Raises:
            AuthenticationFailed: the other node does not accept it, or is not to be trusted.
        """
        chosen = await self._say(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=mechanism)
        if chosen.error_code:
            raise AuthenticationFailed(f"SASL with {mechanism}: {ErrorCode(chosen.error_code).text}")
        token: bytes | None = exchange.first()
        while token is not None:
            answer = await self._say(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, auth_bytes=token)
            if answer.error_code:
                raise AuthenticationFailed(answer.error_message or ErrorCode(answer.error_code).text)
            if answer.session_lifetime_ms:
                self._good_until = asyncio.get_running_loop().time() + SESSION_SHARE * answer.session_lifetime_ms / 1000
            # A challenge of SCRAM takes milliseconds of CPU.
            token = await asyncio.to_thread(exchange.answer, answer.auth_bytes)

    async def _say(self, key: ApiKey, version: int, **fields: object) -> Any:
        row = api(key)
        body = await self.ask(key, version, row.request.layout(version).encode(row.request(**fields)))
        return row.response.layout(version).decode(body)

    def close(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()


async def connect(host: str, port: int, client_id: str, login: Login = OPEN) -> Peer:
    """Connect to another node, and tell it who this one is.

    Raises:
        OSError, EOFError: it cannot be reached, hangs up, or shows a certificate that is not trusted.
        AuthenticationFailed, MalformedFrame: as of `Peer`.
    """
    name = login.server_name or host if login.tls else None
    reader, writer = await asyncio.open_connection(host, port, ssl=login.tls, server_hostname=name)
    peer = Peer(reader, writer, client_id)
    try:
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # Nobody listens there, and the port is of the range from which this end got its own.
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        if login.exchange is not None:
            await peer.authenticate(login.mechanism, login.exchange())
    except BaseException:
        peer.close()
        raise
    return peer
