"""One open request, as the rooms behind the dispatcher see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.protocol.framing import Gathered


class Transport(Protocol):
    """What a request needs from the connection that it came in on."""

    client_host: str
    local_host: str
    local_port: int

    def finish(self, ctx: RequestContext, frame: bytes | Gathered | None) -> None:
        """End the open request, with an answer or without, and go on to the next frame."""
        ...

    def abort(self, reason: str) -> None:
        """Log one line and close."""
        ...


class RequestContext:
    """Who asked, what and how to answer.

    Handlers return a response, or None and call `reply` later, once. The core treats a context as opaque but for
    ``api_version``, ``client_id`` and ``client_host``.

    Attributes:
        api_version: the version of the request; the answer is encoded in it.
        client_id: as the client sent it; the empty string for null.
        client_host: the client's address as Kafka prints it, ``/127.0.0.1``.
        closed: the connection is gone; an answer goes nowhere.
        on_close: called once if the connection closes while the request is open, to let go of what it holds. Group
            members are *not* removed then: Kafka cannot see a disconnect of a parked request either.
        overlaps: the request waits for the disk only, and the connection's next one, if it is a Produce too, may be
            served before it is answered.
    """

    __slots__ = (
        "_encode",
        "api_version",
        "client_id",
        "closed",
        "connection",
        "correlation_id",
        "on_close",
        "overlaps",
    )

    def __init__(
        self,
        connection: Transport,
        api_version: int,
        correlation_id: int,
        client_id: str,
        encode: Callable[[Any, int], bytes | Gathered],
    ) -> None:
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self.closed = False
        self.overlaps = False
        self.on_close: Callable[[], None] | None = None

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def local_address(self) -> tuple[str, int]:
        """Where the client reached us: the accepted socket's own host and port."""
        return self.connection.local_host, self.connection.local_port

    def encode(self, response: Any) -> bytes | Gathered:
        """The whole response frame."""
        return self._encode(response, self.correlation_id)

    def reply(self, response: Any) -> None:
        """Answer the request. Does nothing if the connection is gone."""
        if not self.closed:
            self.connection.finish(self, self._encode(response, self.correlation_id))

    def no_reply(self) -> None:
        """End the request without an answer (Produce with acks=0)."""
        if not self.closed:
            self.connection.finish(self, None)

    def close(self, reason: str) -> None:
        """Close the connection, as Kafka does where a request cannot be answered."""
        if not self.closed:
            self.connection.abort(reason)
