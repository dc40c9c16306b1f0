"""One connection's conversation, sans-I/O: bytes in, answers out; requests in, bytes out; time as an argument.

A conversation begins with ApiVersions. The client asks at the newest version it knows. A broker that is older answers
in the form of version 0 with UNSUPPORTED_VERSION, whatever the request's version was (KIP-511); if that answer names
the range for ApiVersions itself, the next try is the newest version in both, else version 0. Afterwards every request
goes out at the newest version that both sides know.

Answers come in the order of the requests. An answer whose correlation id is not that of the oldest request open is a
broken peer, and ends the connection.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast

from ottla.clients.errors import KafkaError, KafkaTimeout, OptionError, UnsupportedByBroker, error_code, error_of
from ottla.protocol.apis import Api, ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame, ProtocolError
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import frame_request, skip_tags
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.primitives import ArrayLeaf, Fixed, Leaf, Sized
from ottla.protocol.schema import Message
from ottla.protocol.structs import StructLeaf

NEWEST: dict[ApiKey, int] = {
    # Later versions name topics by id only. Names are enough for a client, and every broker takes these versions.
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
"""Versions above which this client does not go, though their wire form is known."""

KRAFT = "metadata.version"
"""A feature that every Apache Kafka without ZooKeeper has finalized (KIP-584), and Ottla has not."""

_KEYS = {f"ottla.protocol.messages.{key.module}": key for key in ApiKey}
"""API keys by the module of their messages."""
NEVER_THROTTLED = frozenset(
    {
        ApiKey.DESCRIBE_GROUP_HISTORY,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.WORKBENCH,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""The APIs whose answers have no ``throttle_time_ms``."""


def api_of(request: type[Message]) -> Api:
    """The table row of a request class."""
    return api(_KEYS[request.__module__])


def choose_version(row: Api, served: tuple[int, int] | None, low: int = 0, high: int = 1 << 15) -> int:
    """The newest version of an API that both sides know.

    Args:
        served: the broker's range, None if it does not serve the API.
        low, high: the range that the caller can use.

    Raises:
        UnsupportedByBroker: there is none.
    """
    ours_low = max(row.request.versions.start, low)
    ours_high = min(row.request.versions.stop - 1, NEWEST.get(row.key, 1 << 15), high)
    if served is None and row.key.is_private:
        served = 0, ours_high  # never advertised; a broker that does not know it closes the connection
    if served is None:
        raise UnsupportedByBroker(f"the broker does not serve {row.key.name}")
    version = min(ours_high, served[1])
    if version < max(ours_low, served[0]):
        raise UnsupportedByBroker(
            f"no version of {row.key.name} in common: the broker serves {served[0]} to {served[1]}, "
            f"this call needs {ours_low} to {ours_high}"
        )
    return version


@dataclass(slots=True, eq=False)
class InFlight:
    """A request that awaits its answer; ``done`` is called once, with the answer or with the error."""

    row: Api
    version: int
    correlation_id: int
    deadline_ms: float
    done: Callable[[Any], None]


class Conversation:
    """The state of one connection.

    The owner writes what `hello`, `send` and `take_output` give, feeds what it reads to `receive`, and calls
    `advance` when `next_deadline_ms` is reached. An exception out of `receive` or `advance` means: close, and tell
    `lost`.

    Args:
        client_id: sent with every request.
        software: name and version for ApiVersions (KIP-511).
        max_frame_bytes: the longest answer accepted.

    Attributes:
        served: by API key the broker's lowest and highest version.
        features: by name the level to which the cluster has finalized a feature (KIP-584).
    """

    def __init__(
        self, client_id: str, software: tuple[str, str] = ("ottla", "0"), max_frame_bytes: int = 256 << 20
    ) -> None:
        self.client_id = client_id
        self.software = software
        self.ready = False
        self.served: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.throttled_until_ms = 0.0
        self._frames = FrameReader(max_frame_bytes)
        self._open: deque[InFlight] = deque()
        self._correlation_id = 0
        self._output: list[bytes] = []
        self._on_ready: Callable[[], None] = lambda: None
        self._hello_version = 0
        self._hello_deadline_ms = 0.0

    @property
    def open_requests(self) -> int:
        return len(self._open)

    @property
    def last_deadline_ms(self) -> float:
        """When the last of the open requests must have been answered; 0 while there is none."""
        return max((request.deadline_ms for request in self._open), default=0.0)

    def take_output(self) -> bytes:
        """The bytes to write, once."""
        output, self._output = b"".join(self._output), []
        return output

    def hello(self, now_ms: float, timeout_ms: float, on_ready: Callable[[], None]) -> None:
        """Begin; ``on_ready`` is called when the broker's versions are known."""
        self._on_ready = on_ready
        self._hello_deadline_ms = now_ms + timeout_ms
        self._hello(ApiVersionsRequest.versions.stop - 1)

    def _hello(self, version: int) -> None:
        self._hello_version = version
        name, release = self.software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=release)
        self._put(api(ApiKey.API_VERSIONS), version, request, self._hello_deadline_ms, self._greeted)

    def version(self, request: type[Message], low: int = 0, high: int = 1 << 15) -> int:
        """The version at which a request of this class would go out.

        Raises:
            UnsupportedByBroker: there is none in common.
        """
        row = api_of(request)
        if row.key.is_private and KRAFT in self.features:
            # It would close the connection and log an error.
            raise UnsupportedByBroker(f"the broker is Apache Kafka, and only Ottla knows {row.key.name}")
        return choose_version(row, self.served.get(row.key), low, high)

    def send(
        self,
        request: Message,
        now_ms: float,
        timeout_ms: float,
        done: Callable[[Any], None],
        *,
        low: int = 0,
        high: int = 1 << 15,
        answered: bool = True,
    ) -> None:
        """Queue a request for writing.

        Args:
            done: called with the answer, or with the `KafkaError` that took its place.
            answered: False for acks=0: the broker will not answer, and ``done`` is called with None at once.

        Raises:
            UnsupportedByBroker: no version in common.
            OptionError: a value in the request cannot be sent.
        """
        version = self.version(type(request), low, high)
        row = api_of(type(request))
        if not answered:
            self._write(row, version, request)
            done(None)
            return
        self._put(row, version, request, now_ms + timeout_ms, done)

    def _put(self, row: Api, version: int, request: Message, deadline_ms: float, done: Callable[[Any], None]) -> None:
        correlation_id = self._write(row, version, request)
        self._open.append(InFlight(row, version, correlation_id, deadline_ms, done))

    def _write(self, row: Api, version: int, request: Message) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        layout = type(request).layout(version)
        try:
            body = layout.encode(request)
        except (struct.error, AttributeError, TypeError, UnicodeEncodeError):
            if wrong := _misfit(layout.leaf, request, row.key.name):
                raise OptionError(f"{wrong} ({row.key.name})") from None
            raise
        self._output.append(
            frame_request(row.key, version, self._correlation_id, self.client_id, body, flexible=layout.flexible)
        )
        return self._correlation_id

    def receive(self, data: bytes | memoryview, now_ms: float) -> None:
        """Take received bytes and call ``done`` of every request that they answer.

        Raises:
            ProtocolError: the bytes are no answer to what was asked: close the connection.
            KafkaError: the broker refuses to tell its versions.
        """
        if not (self.ready or self._frames.buffered_bytes) and data[:4] == b"HTTP":
            raise MalformedFrame("it speaks HTTP, not Kafka's protocol (is it another port of the broker?)")
        self._frames.feed(data)
        while (frame := self._frames.next()) is not None:
            if not self._open:
                raise MalformedFrame("an answer though nothing was asked")
            # Taken off before it is decoded: what follows it on the wire is lost anyway when that fails.
            request = self._open.popleft()
            try:
                answer = self._decode(request, cast(bytes, frame))  # nothing is put into this reader
            except ProtocolError as error:
                request.done(KafkaError(f"{request.row.key.name}: unreadable answer: {error}"))
                raise
            if request.row.key not in NEVER_THROTTLED and answer.throttle_time_ms:
                self.throttled_until_ms = max(self.throttled_until_ms, now_ms + answer.throttle_time_ms)
            request.done(answer)

    def _decode(self, request: InFlight, frame: bytes) -> Any:
        if len(frame) < 4:
            raise MalformedFrame(f"a frame of {len(frame)} bytes is too short for an answer")
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != request.correlation_id:
            raise MalformedFrame(f"correlation id {correlation_id}, expected {request.correlation_id}")
        position = 4
        if request.row.response_header_version(request.version):
            position = skip_tags(frame, position)
        if request.row.key is ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED:
            return _refusal(frame)
        return request.row.response.layout(request.version).decode(frame, position)

    def _greeted(self, answer: Any) -> None:
        if not isinstance(answer, ApiVersionsResponse):
            return
        asked = self._hello_version
        if error_code(answer.error_code) is ErrorCode.UNSUPPORTED_VERSION and asked > 0:
            ranges = {row.api_key: row.max_version for row in answer.api_keys}
            version = ranges.get(ApiKey.API_VERSIONS, 0)
            self._hello(version if 0 <= version < asked else 0)
            return
        if answer.error_code:
            raise error_of(answer.error_code, "ask for the broker's versions")
        self.served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}
        self.ready = True
        self._on_ready()

    def next_deadline_ms(self) -> float | None:
        """When `advance` must be called; None while nothing is open."""
        return min((request.deadline_ms for request in self._open), default=None)

    def advance(self, now_ms: float) -> None:
        """Check for requests that have waited too long.

        Raises:
            KafkaTimeout: one has. Its answer may still come and would be taken for the next one's: close.
        """
        for request in self._open:
            if request.deadline_ms <= now_ms:
                raise KafkaTimeout(f"no answer to {request.row.key.name} in the time allowed")

    def lost(self, error: KafkaError) -> None:
        """The connection is gone: every open request ends with ``error``."""
        self.ready = False
        open_requests, self._open = self._open, deque()
        for request in open_requests:
            request.done(error)


def _misfit(leaf: Leaf, value: Any, name: str) -> str:
    """The first value of a request that its field cannot hold, and what that holds; nothing if all fit."""
    if isinstance(leaf, StructLeaf) and value is not None:
        tagged = [(field.name, one) for field, one in leaf.tagged]
        parts = [(one, getattr(value, part), part) for part, one in [*leaf.fields, *tagged]]
    elif isinstance(leaf, ArrayLeaf) and isinstance(value, list):
        parts = [(leaf.item, one, name) for one in value]
    else:
        try:
            leaf.build(value, BytesIO(), None, name)
        except Exception:
            return f"{name}={value!r}: allowed is {_words(leaf)}"
        return ""
    return next(filter(None, (_misfit(*part) for part in parts)), "")


def _words(leaf: Leaf) -> str:
    match leaf:
        case Sized():
            words = f"{'a text' if leaf.text else 'bytes'}{', or None' if leaf.nullable else ''}"
        case Fixed(code="d"):
            words = "a number"
        case Fixed(code="?"):
            words = "True or False"
        case Fixed():
            words = f"an integer of {8 * leaf.minimum} bits"
        case _:
            words = "a list" if isinstance(leaf, ArrayLeaf) else "a UUID"
    return words


_UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def _refusal(frame: bytes) -> ApiVersionsResponse:
    """The answer to a version of ApiVersions that the broker does not know: of version 0, whatever was asked.

    Not every peer writes it so (librdkafka's mock cluster does not); one that cannot be read names no range.
    """
    try:
        answer: ApiVersionsResponse = ApiVersionsResponse.layout(0).decode(frame, 4)
    except MalformedFrame:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return answer
