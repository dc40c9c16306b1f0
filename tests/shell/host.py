"""The surroundings of connections in tests: a listener that bounds nothing, a transport, a loop, a clock and a log."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.broker.net.connection import Connection
from ottla.protocol.apis import ApiKey, api


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


class Transport:
    """Keeps what a connection writes."""

    def __init__(self, address: str = "10.0.0.7") -> None:
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False
        self.address = address

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def take(self) -> bytes:
        """What was written since the last time."""
        written = self.written
        self.writes.clear()
        return written

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self.writes += pieces

    def get_extra_info(self, name: str) -> Any:
        return {"peername": (self.address, 5000), "sockname": ("127.0.0.1", 9092)}.get(name)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.close()


class Loop:
    """Runs what is called soon when told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class Timer:
    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms, self.callback, self.cancelled = when_ms, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Is told the time; timers go off in their order."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: list[Timer] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    wall_ms = monotonic_ms

    @property
    def real(self) -> Clock:
        return self

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when_ms, callback))
        return self.timers[-1]

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while due := [timer for timer in self.timers if timer.when_ms <= end_ms]:
            timer = min(due, key=lambda timer: timer.when_ms)
            self.timers.remove(timer)
            if not timer.cancelled:
                self.now_ms = max(self.now_ms, timer.when_ms)
                timer.callback()
        self.now_ms = end_ms


class Sockets(Loop):
    """The loop of one connection, between what hosts it and its transport."""

    def __init__(self, host: UnboundedHost, transport: Transport | None = None) -> None:
        super().__init__()
        self.transport = transport or Transport()
        self.connection = Connection(host, self)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, *bodies: bytes) -> None:
        """The client sends frames with these bodies."""
        self.connection.data_received(framed(*bodies))


class Log:
    """Keeps the lines that it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    debug = info = error = warning


def answers(data: bytes, key: ApiKey, version: int) -> list[tuple[int, Any]]:
    """Correlation ids and answers to requests of one kind, out of what was written."""
    found = []
    row = api(key)
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        assert len(data) >= 4 + size, "an answer that is cut off"
        body = data[8 + row.response_header_version(version) : 4 + size]
        found.append((correlation_id, row.response.layout(version).decode(body)))
        data = data[4 + size :]
    return found


class UnboundedHost:
    """What a connection needs from its listener but ``receive``; a rejection is a fault."""

    max_request_bytes = 64 << 20
    least_request_bytes = 1
    answer_room_bytes = 1 << 30
    is_full = False

    def most_request_bytes(self, api_key: int) -> int:
        return self.max_request_bytes

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def rejected(self, connection: Connection, reason: str) -> None:
        raise AssertionError(reason)

    def holds(self, connection: Connection, held_bytes: int) -> bool:
        return True

    def unread(self, connection: Connection) -> None: ...

    reads_again = unread

    def room_for(self, connection: Connection, held_bytes: int, more_bytes: int) -> bool:
        return True
