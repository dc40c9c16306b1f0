"""SaslAuthenticate (key 36): one token of the exchange that SaslHandshake has chosen. KIP-152, KIP-368."""

from __future__ import annotations

from ottla.protocol.schema import Bytes, Int16, Int64, Message, Words, message, wire


@message(versions=range(3), flexible_from=2)
class SaslAuthenticateRequest(Message):
    """The client's token."""

    auth_bytes: bytes = wire(Bytes)


@message(versions=range(3), flexible_from=2)
class SaslAuthenticateResponse(Message):
    """The broker's token; once the exchange is complete, when the client has to authenticate again (0: never)."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    auth_bytes: bytes = wire(Bytes)
    session_lifetime_ms: int = wire(Int64, since=1)
