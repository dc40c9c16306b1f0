"""A broker that knows SASL, and little else: no topics, no groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import skip_tags, split_request
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListGroupsResponse
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from ottla.protocol.sasl.exchange import AuthenticationFailed, ServerExchange
from ottla.protocol.schema import Message

SERVED = (
    ApiKey.API_VERSIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.LIST_GROUPS,
    ApiKey.METADATA,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.SASL_HANDSHAKE,
)


class SaslBroker:
    """Listens on this machine while it is entered.

    Args:
        exchanges: by mechanism, what makes the broker's end.
        lifetime_ms: that sessions are said to have; 0: any.

    Attributes:
        connections: what each has asked, in order.
        users: whose exchanges have been completed.
        held: while it is not set, ListGroups is not answered.
    """

    def __init__(self, exchanges: dict[str, Callable[[], ServerExchange]], lifetime_ms: int = 0) -> None:
        self.exchanges = exchanges
        self.lifetime_ms = lifetime_ms
        self.served = {key: api(key).request.versions for key in SERVED}
        self.connections: list[list[str]] = []
        self.users: list[str] = []
        self.held = asyncio.Event()
        self.held.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def options(self) -> dict[str, Any]:
        """Of a client that comes here, without who it is."""
        return {"bootstrap_servers": f"127.0.0.1:{self.port}", "security_protocol": "SASL_PLAINTEXT"}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: list[str] = []
        self.connections.append(asked)
        exchange: ServerExchange | None = None
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                number, version, correlation_id, _, position = split_request(frame)
                row = api(ApiKey(number))
                if row.request_header_version(version) == 2:
                    position = skip_tags(frame, position)
                request = row.request.layout(version).decode(frame, position)
                asked.append(row.key.name)
                if row.key is ApiKey.SASL_HANDSHAKE:
                    assert version == 1, "tokens without a header follow version 0"
                    make = self.exchanges.get(request.mechanism)
                    exchange = make() if make else None
                    code = ErrorCode.NONE if make else ErrorCode.UNSUPPORTED_SASL_MECHANISM
                    code = code if self.exchanges else ErrorCode.ILLEGAL_SASL_STATE
                    answer: Message = SaslHandshakeResponse(error_code=code, mechanisms=list(self.exchanges))
                elif row.key is ApiKey.SASL_AUTHENTICATE:
                    assert exchange is not None
                    answer = self._taken(exchange, request.auth_bytes)
                elif row.key is ApiKey.API_VERSIONS:
                    rows = [
                        ApiVersion(api_key=key, min_version=one.start, max_version=one.stop - 1)
                        for key, one in self.served.items()
                    ]
                    answer = ApiVersionsResponse(api_keys=rows)
                elif exchange is None or not exchange.is_complete:
                    return writer.close()
                elif row.key is ApiKey.METADATA:
                    answer = MetadataResponse(
                        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)]
                    )
                elif row.key is ApiKey.FIND_COORDINATOR:
                    found = Coordinator(key=request.coordinator_keys[0], node_id=1, host="127.0.0.1", port=self.port)
                    answer = FindCoordinatorResponse(coordinators=[found])
                else:
                    await self.held.wait()
                    answer = ListGroupsResponse()
                head = correlation_id.to_bytes(4, "big") + b"\0" * row.response_header_version(version)
                body = head + type(answer).layout(version).encode(answer)
                writer.write(len(body).to_bytes(4, "big") + body)
                if isinstance(answer, SaslAuthenticateResponse | SaslHandshakeResponse) and answer.error_code:
                    return writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _taken(self, exchange: ServerExchange, token: bytes) -> SaslAuthenticateResponse:
        try:
            challenge = exchange.take(token)
        except AuthenticationFailed as error:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=error.told)
        assert isinstance(challenge, bytes)
        if not exchange.is_complete:
            return SaslAuthenticateResponse(auth_bytes=challenge)
        self.users.append(exchange.name)
        return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=self.lifetime_ms)
