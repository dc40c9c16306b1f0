"""The keys of an issuer: when they are fetched, and from where. Time is the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.security.tokens import Rules
from ottla.broker.runtime.jwks import MAX_BYTES, Issuer, Pace, issuer_of
from ottla.broker.setting_sources import load
from ottla.broker.settings import BadSetting, Settings
from ottla.protocol.sasl.oauthbearer import InvalidToken
from tests.core.security.issuer_keys import NOW_MS, jwk, jwks, private, token

OLD, NEW = private("ES256"), private("ES256", 1)


class Timer:
    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class World:
    """A clock, a log, and an issuer that serves what it is told to."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timer: Timer | None = None
        self.over = asyncio.Event()
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.text: str | Exception = jwks(jwk(OLD, kid="old"))
        self.fetched = 0
        rules = Rules(("ottla",), "https://issuer")
        self.issuer = Issuer(self.fetch, rules, Pace(3_600_000, 100, 350), self, self)

    @property
    def real(self) -> World:
        return self

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return NOW_MS

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        self.timer = Timer(when_ms, callback)
        self.over.set()  # as what comes of a fetch is a timer for the next
        return self.timer

    async def fetch_over(self) -> None:
        """Wait until what has begun since the last call is over."""
        await self.over.wait()
        self.over.clear()

    def log(self, event: str, **fields: Any) -> None:
        self.logged.append((event, fields))

    debug = info = warning = error = log

    def fetch(self) -> str:
        self.fetched += 1
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    def admits(self, key: Any, kid: str) -> bool:
        try:
            return self.issuer.verify(token(key, headers={"kid": kid})).name == "alice"
        except InvalidToken:
            return False


async def test_keys_are_fetched_once_an_hour() -> None:
    world = World()
    await world.issuer.start()
    await world.fetch_over()
    assert world.admits(OLD, "old") and not world.admits(OLD, "x")
    world.text = jwks(jwk(NEW, kid="new"))
    timer = world.timer
    assert timer is not None and timer.callback is not None
    assert timer.when_ms - world.now_ms == 3_600_000
    world.issuer.stop()
    assert timer.callback is None


async def test_a_failure_is_tried_again_soon_and_told_once() -> None:
    world = World()
    world.text = OSError("nobody listens there")
    await world.issuer.start()
    await world.fetch_over()
    passed = []
    for _ in range(4):
        timer = world.timer
        assert timer is not None and timer.callback is not None
        passed.append(timer.when_ms - world.now_ms)
        world.now_ms = timer.when_ms
        world.fetched = 0
        timer.callback()
        await world.fetch_over()
    assert passed == [100, 200, 350, 350]
    assert [event for event, _ in world.logged] == ["the keys of the issuer of tokens cannot be fetched"]
    # No token is valid meanwhile, and that is told once a minute.
    assert [world.admits(OLD, "old") for _ in range(3)] == [False] * 3
    world.now_ms += 60_000
    assert not world.admits(OLD, "old")
    told = [fields for event, fields in world.logged if "no token" in event]
    assert told == [{"why": "nobody listens there"}] * 2


async def test_old_keys_are_good_while_new_ones_cannot_be_had() -> None:
    world = World()
    await world.issuer.start()
    await world.fetch_over()
    for text in (OSError("down"), "nonsense", '{"keys": []}'):
        world.text = text
        world.now_ms += 20_000
        assert not world.admits(NEW, f"asked for while it is {text!r}")
        await world.fetch_over()
        assert world.admits(OLD, "old")
    world.text = jwks(jwk(NEW, kid="new"))
    world.now_ms += 20_000
    assert not world.admits(NEW, "new")
    await world.fetch_over()
    assert world.admits(NEW, "new") and not world.admits(OLD, "old")
    assert world.logged[-1] == ("the keys of the issuer of tokens are here again", {"keys": 1})


class Misses:
    """Counts the fetches that unknown keys bring about."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def after(self, pause_ms: int, kid: str) -> bool:
        """Whether a token that names such a key, so long after, has the issuer asked."""
        self.world.now_ms += pause_ms
        before, fetched = self.world.timer, self.world.fetched
        assert not self.world.admits(OLD, kid)
        if before is not None and before.callback is None:  # a fetch has begun: it called the timer off
            await self.world.fetch_over()
        return self.world.fetched > fetched


async def test_unknown_keys_have_the_issuer_asked_now_and_then() -> None:
    world = World()
    await world.issuer.start()
    await world.fetch_over()
    misses = Misses(world)
    assert not await misses.after(9_999, "a")  # it was asked a moment ago
    assert await misses.after(1, "a")
    assert not any([await misses.after(90, f"b{number}") for number in range(100)])
    assert await misses.after(1_000, "b0")
    assert not await misses.after(9_999, "a")
    assert await misses.after(1, "a")
    assert await misses.after(10_000, "a")  # the same again: the issuer may show a key later than it signs with it


# -------------------------------------------------------------------------------------------------- as settings have it


def settings(url: str, **more: str) -> Settings:
    given = {"jwks.endpoint.url": url, "expected.audience": "ottla", "expected.issuer": "https://issuer"} | more
    return load({f"sasl.oauthbearer.{key}": value for key, value in given.items() if value}).settings


async def admitted(settings: Settings) -> bool:
    world = World()
    world.issuer = issuer_of(settings, "CLIENTS", world, world)
    await world.issuer.start()
    world.issuer.stop()
    return world.admits(OLD, "old")


async def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys of the issuer.json"
    path.write_text(jwks(jwk(OLD, kid="old")))
    assert await admitted(settings(path.as_uri()))
    assert not await admitted(settings((tmp_path / "none.json").as_uri()))
    path.write_text(jwks(jwk(OLD, kid="old")) + " " * MAX_BYTES)
    assert not await admitted(settings(path.as_uri()))


@pytest.fixture
def http() -> Iterator[tuple[str, dict[str, tuple[int, dict[str, str], str]]]]:
    """The address of a server on this machine, and what it answers by path: status, headers, text."""
    answers: dict[str, tuple[int, dict[str, str], str]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, text = answers[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    thread.join()
    server.server_close()


async def test_keys_of_a_server(http: tuple[str, dict[str, tuple[int, dict[str, str], str]]]) -> None:
    url, answers = http
    keys = jwks(jwk(OLD, kid="old"))
    answers["/keys"] = 200, {}, keys
    answers["/moved"] = 302, {"Location": "/keys"}, ""
    answers["/elsewhere"] = 302, {"Location": url.replace("127.0.0.1", "localhost") + "/keys"}, ""
    answers["/gone"] = 404, {}, keys
    answers["/long"] = 200, {}, keys + " " * MAX_BYTES
    got = [await admitted(settings(url + path)) for path in answers]
    assert got == [True, True, False, False, False]


@pytest.mark.parametrize(
    "given, words",
    [
        (settings(""), "needs the keys of the issuer"),
        (settings("http://example.org/keys"), "https:"),
        (settings("ftp://localhost/keys"), "https:"),
        (settings("https:///keys"), "https:"),
        (settings("file://host/keys"), "https:"),
        (settings("https://issuer/keys", **{"expected.audience": ""}), "allow.unverified.audience=true"),
        (settings("https://issuer/keys", **{"expected.issuer": ""}), "allow.unverified.issuer=true"),
    ],
)
def test_settings_that_end_the_start(given: Settings, words: str) -> None:
    world = World()
    with pytest.raises(BadSetting, match=words):
        issuer_of(given, "CLIENTS", world, world)
    assert world.logged == []


def test_what_is_not_looked_at_is_told() -> None:
    world = World()
    more = {"expected.audience": "", "allow.unverified.audience": "true"}
    issuer_of(settings("https://issuer/keys", **more), "CLIENTS", world, world)
    assert world.logged == [("tokens are accepted whatever their audience is", {"listener": "CLIENTS"})]
