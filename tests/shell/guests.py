"""A listener that asks who comes, and its clients, on a clock that is told the time."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.broker.net.connection import Connection
from ottla.broker.net.guests import Guests, Lobby
from ottla.broker.runtime.audit import Audit
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.sasl.exchange import AuthenticationFailed, Derivation, ServerExchange
from ottla.protocol.sasl.plain import PlainServer
from tests.shell.host import Clock, Log, Loop, Transport, UnboundedHost, answers
from tests.support.requests import request

PLAIN, STEPS = "PLAIN", "STEPS"
DELAY_MS, TIMEOUT_MS, MOST = 100, 10_000, 16
SECRET = "s3cret"
SERVED = b"\0\0\0\x01!"


class Steps(ServerExchange):
    """A mechanism for tests: it is told what to do, and completes for a name."""

    def take(self, token: bytes) -> bytes | Derivation:
        match token.split(b" "):
            case [b"more"]:
                return b"go on"
            case [b"derive", name]:
                return lambda: self.take(name) and name if name == b"break" else name
            case [b"break"]:
                raise ValueError(SECRET)
            case [b"until", name, ends_ms]:
                self.ends_ms = int(ends_ms)
                return self.resume(name)
            case [b"refuse", name]:
                self.name = name.decode()
                self.shown = {"kid": f"{self.name}'s"}
                raise AuthenticationFailed("told", "for the log")
        return self.resume(token)

    def resume(self, result: Any) -> bytes:
        self.name = result.decode()
        return self._completed()


class Offered:
    """The mechanisms of a listener."""

    principal_type = "User"
    names = (PLAIN, STEPS)
    most_ms = 0

    def exchange(self, mechanism: str) -> ServerExchange:
        if mechanism == STEPS:
            return Steps(STEPS)
        return PlainServer(lambda user, password: password == SECRET, lambda user, password, result: False)

    def max_reauth_ms(self, mechanism: str) -> int:
        return self.most_ms


class Work:
    """Derivations that wait until the test does them."""

    def __init__(self, guests: Guests) -> None:
        self.waiting: list[tuple[Derivation, Callable[[Any], None]]] = []
        guests.derive = self.derive  # type: ignore[method-assign]

    def derive(self, work: Derivation, then: Callable[[Any], None]) -> Callable[[], object]:
        one = work, then
        self.waiting.append(one)
        return lambda: one in self.waiting and self.waiting.remove(one)

    def do(self) -> None:
        work, then = self.waiting.pop(0)
        try:
            result, error = work(), None
        except Exception as raised:
            result, error = None, raised
        then(SimpleNamespace(cancelled=lambda: False, exception=lambda: error, result=lambda: result))


class World(UnboundedHost):
    """One listener, and what comes by it."""

    def __init__(self, **settings: Any) -> None:
        self.clock, self.log, self.loop = Clock(), Log(), Loop()
        self.clock.now_ms = 1_000_000
        self.served: list[bytes] = []
        self.rejections: list[str] = []
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.mechanisms = Offered()
        self.audit = Audit(
            self.log, self.clock.wall_ms, lambda ms, then: self.clock.call_at(self.clock.now_ms + ms, then)
        )
        given = Settings(connection_failed_authentication_delay_ms=DELAY_MS, **settings)
        self.guests = Guests(
            given, self.clock, self.audit, self.versions, MOST, wall_ms=self.clock.wall_ms, count=self.count
        )
        self.work = Work(self.guests)
        self.lobby = Lobby(self, self.guests, "SASL", self.mechanisms, 1000)

    def versions(self, version: int, correlation_id: int, frame: bytes, position: int, peer: Connection) -> bytes:
        code = 0 if version in api(ApiKey.API_VERSIONS).request.versions else 35
        return struct.pack(">iihi", 10, correlation_id, code, 0)

    def count(self, what: str, listener: str, mechanism: str, by: float = 1) -> None:
        self.counts[what, listener, mechanism] += by

    def receive(self, frame: bytes, start: int, connection: Connection) -> bytes:
        self.served.append(frame[start:])
        return SERVED

    def rejected(self, connection: Connection, reason: str) -> None:
        self.rejections.append(reason)

    def connect(self) -> Client:
        return Client(self)


class Client:
    def __init__(self, world: World) -> None:
        self.world = world
        self.transport = Transport()
        self.connection = Connection(world.lobby, world.loop)  # type: ignore[arg-type]
        world.lobby.enter(self.connection)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, *frames: bytes) -> bytes:
        """Send frames in one piece; gives what is written at once."""
        self.connection.data_received(b"".join(frames))
        self.world.loop.run()
        return self.transport.take()

    def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        ((_, answer),) = answers(self.send(asked(key, version, **fields)), key, version)
        return answer

    def handshake(self, mechanism: str = STEPS, version: int = 1) -> Any:
        return self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)

    def log_in(self, token: bytes = b"alice", mechanism: str = STEPS) -> Any:
        assert self.handshake(mechanism).error_code == 0
        return self.token(token)

    def advance(self, by_ms: int) -> bytes:
        self.world.clock.advance(by_ms)
        self.world.loop.run()
        return self.transport.take()

    @property
    def is_closed(self) -> bool:
        return self.transport.closed

    def lose(self) -> None:
        self.connection.connection_lost(None)


def asked(key: ApiKey, version: int, **fields: Any) -> bytes:
    row = api(key)
    flexible = row.request_header_version(version) == 2
    body = row.request.layout(version).encode(request(key, fields))
    return frame_request(key, version, 7, "c", body, flexible=flexible)


VERSIONS = frame_request(ApiKey.API_VERSIONS, 0, 7, "c", b"", flexible=False)
NEWER_VERSIONS = frame_request(ApiKey.API_VERSIONS, 99, 7, "c", b"?", flexible=True)
METADATA = asked(ApiKey.METADATA, 4, topics=None)


def fails_later(client: Client, answer: bytes = b"") -> None:
    """The connection is closed after the delay, with the answer or without one."""
    assert not client.is_closed and not client.transport.reading
    assert client.advance(DELAY_MS - 1) == b"" and not client.is_closed
    assert client.advance(1) == answer and client.is_closed


def fails_at_once(client: Client) -> None:
    assert client.advance(0) == b"" and client.is_closed
