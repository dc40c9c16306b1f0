"""One connection to a broker: requests out of our own codecs, answers as plain values."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import select
import socket
import struct
import time
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from tests.differential.real_kafka import TO_SASL
from tests.differential.users import login
from tests.support.requests import request

CLOSED = "closed"
SILENT = "silent"


class Sent(NamedTuple):
    """A request that is under way."""

    key: ApiKey
    version: int
    correlation_id: int


class Wire:
    """A connection with a client id, and at most one request under way.

    A client ``as alice@127.0.0.2`` comes from that address to the listener with SASL, which is at another port, and
    says that it is alice before it asks for anything.
    """

    _correlation = itertools.count(1)

    def __init__(self, port: int, client_id: str | None) -> None:
        self.client_id = client_id
        self.sent: Sent | None = None
        self.closed = False
        self.frames: list[bytes] = []
        self._buffer = b""
        self._owed = 0  # answers to a login
        user, _, source = (client_id or "").removeprefix("as ").partition("@")
        is_user = (client_id or "").startswith("as ")
        self._socket = socket.create_connection(
            ("127.0.0.1", port + TO_SASL if is_user else port), 5, (source, 0) if source else None
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_user:
            frames = login(user)
            self._owed = len(frames)
            self.raw(b"".join(frames))

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, key: ApiKey, version: int, message: Any) -> None:
        """Send a request of any version, also one that the codecs do not have (with the newest layout)."""
        entry = api(key)
        correlation_id = next(self._correlation)
        flexible = entry.request_header_version(version) == 2
        body = entry.request.layout(version).encode(message)
        self.sent = Sent(key, version, correlation_id)
        self.raw(frame_request(key, version, correlation_id, self.client_id, body, flexible=flexible))

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.closed = True

    def frame(self, timeout_s: float) -> bytes | None:
        """The next frame without its length, or None: see `closed` for whether more may come."""
        deadline = time.monotonic() + timeout_s
        while not self.has_answer:
            if not select.select([self._socket], [], [], max(deadline - time.monotonic(), 0))[0]:
                return None
            self._receive()
        return self.frames.pop(0) if self.frames else None

    @property
    def has_answer(self) -> bool:
        return bool(self.frames) or self.closed

    def _receive(self) -> None:
        """Take in what has come; where that is nothing, no more will."""
        try:
            data = self._socket.recv(1 << 20)
        except OSError:
            data = b""
        self.closed = self.closed or not data
        buffer = self._buffer + data
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
            if self._owed:
                assert buffer[8:10] == b"\0\0", f"{self.client_id} is not let in"
                self._owed -= 1
            else:
                self.frames.append(buffer[4:end])
            buffer = buffer[end:]
        self._buffer = buffer

    def ask(self, key: ApiKey, version: int, /, _timeout_s: float = 10.0, **fields: Any) -> Any:
        """Send a request with these fields, structs being dicts, and give what `answer` gives."""
        self.send(key, version, request(key, fields))
        return self.answer(_timeout_s)

    def answer(self, timeout_s: float) -> Any:
        """The answer to the request under way as a message, `CLOSED`, or `SILENT`."""
        assert self.sent is not None
        frame = self.frame(timeout_s)
        if frame is None:
            return CLOSED if self.closed else SILENT
        sent, self.sent = self.sent, None
        return decoded(sent, frame)

    def close(self) -> None:
        self._socket.close()


def decoded(sent: Sent, frame: bytes) -> Any:
    """The answer in a frame, as a message."""
    entry = api(sent.key)
    assert struct.unpack_from(">i", frame)[0] == sent.correlation_id, "an answer to another request"
    start = 4 + entry.response_header_version(sent.version)
    version = sent.version
    if sent.key is ApiKey.API_VERSIONS and frame[start : start + 2] == b"\0\x23":
        version = 0  # UNSUPPORTED_VERSION is told in the oldest form
    layout = entry.response.layout(version)
    message = layout.decode(frame, start)
    if sent.key is not ApiKey.API_VERSIONS and layout.encode(message) != frame[start:]:
        raise AssertionError(f"{sent.key.name} v{version} has bytes that its layout does not: {frame.hex()}")
    return message


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def plain(value: Any) -> Any:
    """A message as dicts, lists and scalars."""
    if isinstance(value, str | int | bytes | None):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if dataclasses.is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    return value
