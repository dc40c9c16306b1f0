"""One connection to a broker that trusts nobody: frames are read one by one, and answers to their last byte."""

from __future__ import annotations

import itertools
import socket
import struct
from typing import Any, NamedTuple, Self

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request

PATIENCE_S = 20
"""Longest time for an answer that need not wait for anything."""


class ConnectionClosed(ConnectionError):
    """The broker has closed the connection where an answer was due."""


class Frame(NamedTuple):
    """A response frame, taken apart up to its body."""

    correlation_id: int
    rest: bytes


class Peer:
    """Sends requests and reads answers; does one thing at a time and remembers what is open."""

    _correlation_ids = itertools.count(1000)

    def __init__(self, port: int, client_id: str | None = "peer") -> None:
        self.client_id = client_id
        self.opened: list[tuple[ApiKey, int, int]] = []
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Sending

    def ask(self, key: ApiKey, version: int, message: Any) -> Any:
        """Send a request and read its answer.

        Raises:
            ConnectionClosed: there is none.
        """
        self.send(key, version, message)
        return self.answer()

    def send(self, key: ApiKey, version: int, message: Any) -> int:
        """Send a request; its answer is due behind those of earlier ones. Gives the correlation id."""
        correlation_id = next(self._correlation_ids)
        self.raw(self.frame(key, version, message, correlation_id))
        self.opened.append((key, version, correlation_id))
        return correlation_id

    def frame(self, key: ApiKey, version: int, message: Any, correlation_id: int = 1) -> bytes:
        """A request as it is sent."""
        return request_frame(key, version, message, correlation_id, self.client_id)

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    # Receiving

    def answer(self) -> Any:
        """The answer to the request that waits longest, checked to be exactly of its version.

        Raises:
            ConnectionClosed: there is none.
        """
        key, version, correlation_id = self.opened.pop(0)
        frame = self.next_frame()
        assert frame.correlation_id == correlation_id, "an answer to another request"
        row = api(key)
        return decoded(row.response, version, row.response_header_version(version), frame.rest)

    def next_frame(self) -> Frame:
        """The next frame that comes.

        Raises:
            ConnectionClosed: none does.
        """
        size = struct.unpack(">i", self._take(4))[0]
        data = self._take(size)
        return Frame(struct.unpack_from(">i", data)[0], data[4:])

    def is_closed(self) -> bool:
        """True if the broker closes the connection now, without another byte."""
        try:
            self._take(1)
        except ConnectionClosed:
            return True
        return False

    def is_silent(self, for_s: float) -> bool:
        """True if nothing arrives for a while, and the connection stays open."""
        if self._buffer:
            return False
        self.socket.settimeout(for_s)
        try:
            self._buffer = self.socket.recv(65536)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                chunk = self.socket.recv(1 << 20)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionClosed
            self._buffer += chunk
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def request_frame(key: ApiKey, version: int, message: Any, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its header and its length."""
    row = api(key)
    flexible = row.request_header_version(version) == 2
    body = row.request.layout(version).encode(message)
    return frame_request(key, version, correlation_id, client_id, body, flexible=flexible)


def decoded(message: Any, version: int, header_version: int, rest: bytes) -> Any:
    """A response out of what follows the correlation id: every byte belongs to it, and it says the same encoded anew.

    Null and empty are told apart by the second half: a field that the version does not let be null has no such bytes.
    """
    if header_version:
        assert rest[:1] == b"\0", "the tags of the response header"
    body = rest[header_version:]
    layout = message.layout(version)
    told = layout.decode(body)
    assert layout.encode(told) == body, "bytes that do not belong to this version"
    return told
