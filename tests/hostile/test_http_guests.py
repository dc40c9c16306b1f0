"""Guests of the HTTP port who hold on to it, ask for too much, or come under a name that is not ours."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ottla.observe.http import server, stream
from ottla.observe.http.parts import Parts
from ottla.observe.http.stream import Feed
from ottla.observe.logs import logger
from ottla.testing import Broker
from tests.hostile.victim import Victim
from tests.observe.http.conftest import Answer, ask
from tests.observe.http.fakes import FakeView, Lines, ManualClock
from tests.support.client import Client

pytestmark = pytest.mark.e2e

LIMIT = 8
FORM = {"Content_Type": "application/x-www-form-urlencoded"}
STREAM = b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Guests:
    """Connections to the HTTP port of a broker."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        self.url = broker.http_url
        self._stack = stack

    def come(self, begun: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """One connection, on which something was sent."""
        port = int(self.url.rpartition(":")[2])
        one = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(address, 0))
        one.sendall(begun)
        return self._stack.enter_context(one)

    def asked(self, path: str = "/healthz", address: str = "127.0.0.1") -> tuple[http.client.HTTPConnection, int]:
        """A connection that stays open, and the status of its first answer."""
        port = int(self.url.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(address, 0))
        self._stack.callback(connection.close)
        return connection, again(connection, path)


def again(connection: http.client.HTTPConnection, path: str = "/healthz") -> int:
    """The status of one more answer on a connection."""
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def ended(one: socket.socket) -> bool:
    """Whether a connection is closed within a few seconds, whatever was sent before."""
    try:
        while one.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.fixture
def guests() -> Iterator[Guests]:
    settings = {"ottla.http.max.connections": LIMIT, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings, http=True) as broker, ExitStack() as stack:
        yield Guests(broker, stack)


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHo", b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"]
)
def test_the_silent_do_not_lock_a_probe_out(guests: Guests, begun: bytes) -> None:
    silent = [guests.come(begun) for _ in range(3 * LIMIT)]
    for _ in range(5):
        assert ask(guests.url, "/healthz").status == 200
    assert ended(silent[0])


def test_neither_do_the_idle(guests: Guests) -> None:
    connections = [guests.asked()[0] for _ in range(3 * LIMIT)]
    assert again(connections[-1]) == 200, "the latest are kept"
    with pytest.raises((ConnectionError, http.client.BadStatusLine)):
        again(connections[0])


def test_a_crowd_does_not_drive_out_who_comes_from_elsewhere(guests: Guests) -> None:
    other, _ = guests.asked(address="127.0.0.2")
    for _ in range(3 * LIMIT):
        guests.asked()
        guests.come()
    assert again(other) == 200


def test_streams_leave_room_and_are_shared_out(guests: Guests) -> None:
    streams = [guests.come(STREAM) for _ in range(LIMIT // 2)]
    for one in streams:
        assert one.recv(12) == b"HTTP/1.1 200"
    refused = ask(guests.url, "/v1/stream")
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert "streams are open" in refused.detail
    assert ask(guests.url, "/healthz").status == ask(guests.url, "/v1/cluster").status == 200
    assert guests.come(STREAM, "127.0.0.2").recv(12) == b"HTTP/1.1 200", "another address gets one of the crowd's"
    told = b""
    while not told.endswith(b"\r\n0\r\n\r\n"):  # the stream is over
        told += streams[0].recv(65_536)


def test_a_request_is_given_seconds(guests: Guests) -> None:
    """Not half a minute, as long as nobody needs the room."""
    assert server.REQUEST_S <= 5


def names_of(broker: Broker, count: int, length: int) -> None:
    """Groups with long names."""
    with Client(broker.port) as client:
        for number in range(count):
            assert client.commit(f"{number:06d}".ljust(length, "n"), "orders") == 0


def test_a_page_of_long_names_is_bounded_and_nothing_is_left_out() -> None:
    with Broker(http=True, topics={"orders": 1}) as broker:
        names_of(broker, 90, 30_000)
        seen: list[str] = []
        after = ""
        while True:
            answer = ask(broker.http_url, f"/v1/groups?limit=1000{after}")
            assert len(answer.body) < 1_100_000
            seen += [one["group_id"] for one in answer.json["groups"]]
            if answer.json["next"] is None:
                break
            after = f"&after={quote(answer.json['next'])}"
        assert len(seen) == len(set(seen)) == 90


async def test_long_names_do_not_end_the_streams_of_others() -> None:
    """One look at all of them would be more than a reader may be behind."""
    view, clock = FakeView(), ManualClock()
    names = [f"{number}".ljust(30_000, "\0") for number in range(40)]
    for name in names:
        view.put(name)
    feed = Feed(Parts(view, clock), Lines(), limit_bytes=262_144)
    reader = feed.open(None)
    told = await reader.take()
    for _ in range(100):
        clock.advance(500)
        assert not reader.ended
        told += await reader.take()
        if told.count(b'{"group_id":') >= len(names):
            break
    assert all(name.encode("unicode_escape").replace(b"\\x00", b"\\u0000") in told for name in names)
    feed.stop()


async def test_all_readers_together_may_be_behind_by_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_BEHIND_BYTES", 1_000_000)
    view, clock = FakeView(), ManualClock()
    feed = Feed(Parts(view, clock), Lines(), limit_bytes=600_000)
    readers = [feed.open(None) for _ in range(16)]
    for number in range(20):
        view.put(f"{number}".ljust(5_000, "n"))
        clock.advance(500)
    alive = [one for one in readers if not one.ended]
    assert 1 <= len(alive) < 16
    assert sum(one.held_bytes for one in readers) <= 1_000_000
    feed.stop()


class Lazy:
    """Clients that ask and never read, where the kernel takes little off the broker."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        assert (port := broker.observatory.http) is not None  # noqa: RUF018
        self.port, self.broker, self._stack = port, broker, stack
        assert port._server is not None
        [listening] = port._server.sockets
        with socket.socket(fileno=os.dup(listening.fileno())) as ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)  # accepted ones have it, too

    def ask(self) -> None:
        lazy = self._stack.enter_context(socket.socket())
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        lazy.connect(("127.0.0.1", self.port.port))
        lazy.sendall(b"GET /v1/groups?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def answered(self) -> int:
        return self.broker.run(lambda: self.port._state.total_requests)

    def unread_bytes(self) -> list[int]:
        """Of each connection."""
        return self.broker.run(lambda: [one.transport.get_write_buffer_size() for one in self.port._state.connections])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline


def test_answers_that_nobody_reads_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_UNREAD_BYTES", 3_000_000)
    with Broker(http=True, topics={"orders": 1}) as broker, ExitStack() as stack:
        names_of(broker, 40, 30_000)
        lazy = Lazy(broker, stack)
        for _ in range(24):
            lazy.ask()
        until(lambda: lazy.answered() == 24)
        unread = lazy.unread_bytes()
        assert 1_000_000 < sum(unread) <= 3_000_000
        assert ask(broker.http_url, "/v1/groups?limit=1000").status == 200


def test_who_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UNREAD_S", 0.3)
    with Broker(http=True, topics={"orders": 1}) as broker, ExitStack() as stack:
        names_of(broker, 40, 30_000)
        lazy = Lazy(broker, stack)
        lazy.ask()
        until(lambda: lazy.answered() == 1)
        until(lambda: lazy.unread_bytes() == [])


def test_many_who_ask_at_once_do_not_delay_heartbeats() -> None:
    """Each answer takes a few milliseconds; all of them used to be made in the same turn of the loop.

    That delayed heartbeats each time. Where the machine is busy with something else, it is not so each time: the best
    of three counts.
    """
    with Victim(http=True) as victim:
        with Client(victim.port) as client:
            client.create("orders")
            for number in range(1_000):
                assert client.commit(f"group-{number}", "orders") == 0
        request = b"GET /v1/groups?limit=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        port, statuses, longest_ms = int(victim.http_url.rpartition(":")[2]), [], []
        for _ in range(3):
            with victim.calm() as felt:
                crowd = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(100)]
                assert ask(victim.http_url, "/healthz").status == 200  # all of them are accepted
                for one in crowd:
                    one.sendall(request)
                for one in crowd:
                    with one, one.makefile("rb") as answer:
                        statuses.append(int(answer.read().split()[1]))
            longest_ms.append(felt.longest_ms)
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 3 * 32, "so many may wait"
        assert min(longest_ms) < 150, longest_ms


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1/groups?q=" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", 400),
        (b"GET /v1/groups?" + b"q=1&" * 1_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /%ff%fe/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /v1/groups/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-0,5-3,-9999999999999\r\n\r\n", 200),
        (b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"OPTIONS /v1/groups HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 405),
        (b"GET http://evil.example/v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
    ],
    ids=range(12),
)  # fmt: skip
def test_strange_requests_get_a_problem_and_no_traceback(guests: Guests, request_: bytes, status: int) -> None:
    one = guests.come()
    with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused before it is over
        one.sendall(request_)
    answer = b""
    try:
        while b"\r\n\r\n" not in answer and (more := one.recv(65_536)):
            answer += more
    except ConnectionResetError:
        assert len(request_) > 100_000
    assert answer == b"" or answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"Traceback" not in answer
    assert b"access-control-allow" not in answer.lower()
    assert ask(guests.url, "/healthz").status == 200


# -- names


def hosted(url: str, host: str, **headers: str) -> Answer:
    return ask(url, "/v1/cluster", Host=host, **headers)


def test_a_name_of_the_web_reads_nothing_beyond_loopback() -> None:
    """A page whose name is made to point here (DNS rebinding)."""
    settings = {"ottla.http.listen": "0.0.0.0:0", "ottla.http.allowed.hosts": "Metrics.Example, b.example"}
    with Broker(settings) as broker:
        for host in (
            "evil.example",
            "evil.example:9644",
            "127.0.0.1.evil.example",
            "x.metrics.example",
            "[evil.example]",
        ):
            refused = hosted(broker.http_url, host)
            assert refused.status == 421
            assert "ottla.http.allowed.hosts" in refused.detail
        for host in ("10.1.2.3:9644", "[fe80::1]:9644", "localhost", "ottla:9644", "metrics.example:80", "B.EXAMPLE"):
            assert hosted(broker.http_url, host).status == 200
    with Broker(settings | {"ottla.http.allowed.hosts": "*"}) as broker:
        assert hosted(broker.http_url, "any.example").status == 200


def test_names_may_be_allowed_on_loopback() -> None:
    with Broker({"ottla.http.allowed.hosts": "ottla.example"}, http=True) as broker:
        assert hosted(broker.http_url, "ottla.example").status == 200
        assert hosted(broker.http_url, "evil.example").status == hosted(broker.http_url, "ottla").status == 421


# -- the token


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("s3cret-token-of-guests\n")
    return file


def test_a_token_makes_no_name_ours_and_the_cookie_is_secure_behind_tls(token_file: Path) -> None:
    settings = {
        "ottla.http.listen": "0.0.0.0:0",
        "ottla.http.token.file": str(token_file),
        "ottla.http.allowed.hosts": "ottla.example",
    }
    with Broker(settings) as broker:
        assert hosted(broker.http_url, "evil.example", Authorization="Bearer s3cret-token-of-guests").status == 421
        assert hosted(broker.http_url, "ottla.example").status == 401
        assert hosted(broker.http_url, "ottla.example", Authorization="Bearer s3cret-token-of-guests").status == 200
        plain = ask(broker.http_url, "/login", "POST", "token=s3cret-token-of-guests", **FORM)
        assert set(plain.headers["set-cookie"].split("; ")[1:]) == {
            "Path=/",
            "Max-Age=43200",
            "HttpOnly",
            "SameSite=Strict",
        }
        by_tls = {**FORM, "X_Forwarded_Proto": "https"}
        behind = ask(broker.http_url, "/login", "POST", "token=s3cret-token-of-guests", **by_tls)
        assert "Secure" in behind.headers["set-cookie"].split("; ")


def lines_of(file: Path, work: Callable[[str], None]) -> list[dict[str, Any]]:
    """What a broker with this token logs while something is done to it."""
    out = io.StringIO()
    with Broker(
        {"ottla.http.token.file": str(file)}, http=True, log=logger("json", level="debug", stream=out)
    ) as broker:
        work(broker.http_url)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_token_that_everybody_can_read_is_warned_of(token_file: Path) -> None:
    def warnings() -> list[str]:
        return [one["event"] for one in lines_of(token_file, lambda url: None) if one["level"] == "warning"]

    assert warnings() == []
    token_file.chmod(0o644)
    assert warnings() == ["Others on this machine can read the tokens for HTTP"]


def test_the_token_is_not_in_the_log(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("a bug")

    def work(url: str) -> None:
        assert ask(url, "/login", "POST", "token=s3cret-token-of-guests", **FORM).status == 303
        assert ask(url, "/v1/cluster?token=s3cret-token-of-guests").status == 401
        monkeypatch.setattr("ottla.observe.http.routes.read_query", broken)
        failed = ask(url, "/v1/cluster", Authorization="Bearer s3cret-token-of-guests")
        assert failed.status == 500
        assert b"Traceback" not in failed.body

    lines = lines_of(token_file, work)
    assert "An HTTP request failed" in [one["event"] for one in lines]
    assert "s3cret" not in json.dumps(lines)
