"""SaslHandshake (key 17): choose the mechanism by which a client authenticates. KIP-43, KIP-152."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Message, String, message, wire


@message(versions=range(2))
class SaslHandshakeRequest(Message):
    """A mechanism. After version 0 its tokens are frames without a header; after 1 they are in SaslAuthenticate."""

    mechanism: str = wire(String)


@message(versions=range(2))
class SaslHandshakeResponse(Message):
    """The mechanisms that there are, whether or not the one that was asked for is among them."""

    error_code: int = wire(Int16)
    mechanisms: list[str] = wire(ArrayOf(String))
