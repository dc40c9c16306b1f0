"""One open request, as the rooms behind the dispatcher see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.core.security.session import Session
from ottla.protocol.errors import AnswerTooLarge
from ottla.protocol.framing import Gathered
from ottla.protocol.steps import Steps


class Transport(Protocol):
    """The connection of a request, as far as the request needs it.

    Attributes:
        client_software: the client's library and its version, as it said with ApiVersions; empty if it did not.
        half_closed: the client sends nothing more.
        session: who the client is.
        on_gone: called once if the client closes its side, or the connection is lost.
    """

    client_host: str
    client_port: int
    client_software: str
    local_host: str
    local_port: int
    half_closed: bool
    session: Session
    on_gone: Callable[[], None] | None

    @property
    def answer_room_bytes(self) -> int:
        """How large an answer may be that can be smaller."""
        ...

    def finish(self, ctx: RequestContext, frame: bytes | Gathered | None) -> None:
        """End the open request, with an answer or without, and go on to the next frame."""
        ...

    def abort(self, reason: str) -> None:
        """Log one line and close."""
        ...

    def go_on(self) -> None:
        """Look whether the next frame may be served: the open request overlaps now."""
        ...

    def mute(self, hold: RequestContext) -> None:
        """Read and serve nothing more until ``hold`` is finished."""
        ...


class Meter(Protocol):
    """Counts what clients use, and makes those wait who exceed a quota; see `ottla.broker.runtime.metering`.

    Attributes:
        nanoseconds: the clock for how long requests take.
    """

    nanoseconds: Callable[[], int]

    def most_fetched(self, ctx: MeteredContext) -> int:
        """The most bytes that a client may be given at once without having to wait."""
        ...

    def fetched(self, ctx: MeteredContext, response: Any) -> int:
        """Count what a Fetch is about to be answered with; returns the milliseconds that the client must wait.

        A client that must is given nothing, and has not had it.
        """
        ...

    def mutates(self, ctx: MeteredContext, partitions: int, *, strict: bool, waits: bool = True) -> bool:
        """Count partitions that are to be created or deleted; with ``strict``, whether they may be.

        With ``waits`` a client that exceeds its quota must wait.
        """
        ...

    def reply(self, ctx: MeteredContext, response: Any) -> None:
        """Answer, and make the client wait if it must."""
        ...

    def reply_in_steps(self, ctx: MeteredContext, response: Any) -> Steps[None]:
        """The same, with turns for others."""
        ...

    def no_reply(self, ctx: MeteredContext) -> None:
        """End a request without an answer, and make the client wait if it must."""
        ...


class RequestContext:
    """The sender of a request, and the way to answer it.

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
        is_long: the request names so much that it was decoded in steps; its bytes are held while it is open.
        encoded: an OffsetCommit as it came, without its header; empty for other requests.
        meter: counts what the client uses, where there are quotas.
        api: the name of the API, as ``OffsetCommit``.
        mutes: nothing at all is read from the connection meanwhile.
    """

    meter: Meter | None = None
    mutes = False

    __slots__ = (
        "_encode",
        "api",
        "api_version",
        "client_id",
        "closed",
        "connection",
        "correlation_id",
        "encoded",
        "is_long",
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
        api: str = "",
    ) -> None:
        self.connection = connection
        self.api = api
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self.closed = False
        self.overlaps = self.is_long = False
        self.encoded = b""
        self.on_close: Callable[[], None] | None = None

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def client_port(self) -> int:
        return self.connection.client_port

    @property
    def session(self) -> Session:
        """Who sent it."""
        return self.connection.session

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there any more to hear the answer, as far as can be seen."""
        return self.closed or self.connection.half_closed

    def watch(self, encode: Callable[[Any, int], bytes | Gathered]) -> Callable[[Any, int], bytes | Gathered]:
        """Let the answer be encoded by somebody who wants to see it; returns who would have done it."""
        before, self._encode = self._encode, encode
        return before

    def encode(self, response: Any) -> bytes | Gathered:
        """The whole response frame."""
        return self._encode(response, self.correlation_id)

    def reply(self, response: Any) -> None:
        """Answer the request. Does nothing if the connection is gone, and closes it if the answer is too large."""
        if not self.closed:
            try:
                frame = self._encode(response, self.correlation_id)
            except AnswerTooLarge as error:
                self.close(str(error))
            else:
                self.connection.finish(self, frame)

    def encode_in_steps(self, response: Any) -> Steps[bytes | Gathered]:
        """The same as `encode`, with turns for others where that can be."""
        in_steps = getattr(self._encode, "in_steps", None)
        if in_steps is None:
            return self.encode(response)
        frame: bytes | Gathered = yield from in_steps(response, self.correlation_id)
        return frame

    def reply_in_steps(self, response: Any) -> Steps[None]:
        """The same as `reply`, with turns for others while a large answer is encoded."""
        if not self.closed:
            try:
                yield from self._reply_in_steps(response)
            except AnswerTooLarge as error:
                self.close(str(error))

    def _reply_in_steps(self, response: Any) -> Steps[None]:
        frame = yield from self.encode_in_steps(response)
        if not self.closed:
            self.connection.finish(self, frame)

    def no_reply(self) -> None:
        """End the request without an answer (Produce with acks=0)."""
        if not self.closed:
            self.connection.finish(self, None)

    def let_overlap(self) -> None:
        """From now on the request waits for the disk only; see ``overlaps``. Does nothing if it is answered."""
        if not self.closed:
            self.overlaps = True
            self.connection.go_on()

    def close(self, reason: str) -> None:
        """Close the connection, as Kafka does where a request cannot be answered."""
        if not self.closed:
            self.connection.abort(reason)


class MeteredContext(RequestContext):
    """A request of a broker with quotas: its end goes through the meter, and it is served by itself.

    Attributes:
        api_key: of the request; size_bytes: of it, without the length prefix.
        began_ns: when it began to be served; spent_ns: how long that took, once it is known.
        owed_ms: how long the client must wait for what was counted so far.
        charged: the time that it took was counted.
    """

    __slots__ = ("api_key", "began_ns", "charged", "meter", "owed_ms", "size_bytes", "spent_ns")

    def __init__(
        self,
        connection: Transport,
        start: tuple[int, int, int],
        client_id: str,
        encode: Callable[[Any, int], bytes | Gathered],
        meter: Meter,
        began_ns: int,
        size_bytes: int,
        api: str = "",
    ) -> None:
        self.api_key, api_version, correlation_id = start
        super().__init__(connection, api_version, correlation_id, client_id, encode, api)
        self.meter: Meter = meter
        self.began_ns = began_ns
        self.size_bytes = size_bytes
        self.spent_ns: int | None = None
        self.owed_ms = 0
        self.charged = False

    @property
    def overlaps(self) -> bool:
        """One request at a time: the next one may have to wait."""
        return False

    @overlaps.setter
    def overlaps(self, value: bool) -> None:
        pass

    def reply(self, response: Any) -> None:
        if not self.closed:
            try:
                self.meter.reply(self, response)
            except AnswerTooLarge as error:
                self.close(str(error))

    def _reply_in_steps(self, response: Any) -> Steps[None]:
        return self.meter.reply_in_steps(self, response)

    def no_reply(self) -> None:
        if not self.closed:
            self.meter.no_reply(self)


class Mute(RequestContext):
    """Stands for the time that a client must wait, where an open request would stand."""

    __slots__ = ()
    mutes = True

    def __init__(self, connection: Transport) -> None:
        super().__init__(connection, 0, 0, "", _unanswered)


def _unanswered(response: Any, correlation_id: int) -> bytes:
    raise RuntimeError("nobody asked")
