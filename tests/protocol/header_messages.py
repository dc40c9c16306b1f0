"""The headers as messages: the reference for what `ottla.protocol.headers` reads and writes by hand."""

from ottla.protocol.schema import Int16, Int32, Message, String, message, wire


@message(versions=range(3), flexible_from=2)
class RequestHeader(Message):
    """The header of every request. Version 0 was for one inter-broker API of old and has no client id."""

    request_api_key: int = wire(Int16)
    request_api_version: int = wire(Int16)
    correlation_id: int = wire(Int32)
    client_id: str | None = wire(String, since=1, nullable_since=1, default=None, never_compact=True)


@message(versions=range(2), flexible_from=1)
class ResponseHeader(Message):
    """The header of every response: the request's correlation id."""

    correlation_id: int = wire(Int32)
