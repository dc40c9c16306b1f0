"""Who may look."""

from __future__ import annotations

import io
import json
import select
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.app import CannotStart
from ottla.observe.logs import logger
from ottla.testing import Broker
from tests.observe.http.conftest import Ask, ask

pytestmark = pytest.mark.e2e

TOKEN = "s3cret/+=ü-and-more"
FORM = {"Content_Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker behind a token."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    with Broker({"ottla.http.token.file": str(file)}, http=True) as running:
        yield running


def bearer(token: str) -> str:
    return f"Bearer {token}".encode().decode("latin-1")  # as http.client writes headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9644", "127.0.0.1.evil.example", "[::2]", "", "10.0.0.1"]
)
def test_a_name_that_is_made_to_point_here_is_refused(get: Ask, host: str) -> None:
    for path in ("/healthz", "/v1/cluster", "/"):
        answer = get(path, Host=host, Authorization=bearer(TOKEN))
        assert answer.status == 421
        assert "Host header" in answer.detail


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9644", "[::1]:80", "[::1]"])
def test_the_names_of_this_machine_are_taken(get: Ask, host: str) -> None:
    assert get("/healthz", Host=host).status == 200


def test_beyond_loopback_names_are_those_that_are_told() -> None:
    with Broker({"ottla.http.listen": "0.0.0.0:0", "ottla.http.allowed.hosts": "broker.example"}) as broker:
        assert ask(broker.http_url, "/v1/cluster", Host="broker.example:80").status == 200


def test_beyond_loopback_probes_may_use_any_name_and_a_refused_name_is_told_once() -> None:
    out = io.StringIO()
    settings = {"ottla.http.listen": "0.0.0.0:0"}
    with Broker(settings, log=logger("json", level="warning", stream=out)) as broker:
        for path in ("/healthz", "/readyz"):
            assert ask(broker.http_url, path, Host="ottla.default.svc:9644").status == 200
        assert "allowed.hosts" not in out.getvalue()
        for _ in range(3):
            assert ask(broker.http_url, "/metrics", Host="ottla.default.svc:9644").status == 421
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    told = [one for one in lines if "ottla.http.allowed.hosts" in one["event"]]
    assert [one["host"] for one in told] == ["ottla.default.svc"]


@pytest.mark.parametrize(
    "path", ["/", "/v1/cluster", "/v1/stream", "/v1/openapi.json", "/metrics", "/icon.svg", "/nothing"]
)
def test_without_the_token_there_is_nothing_to_see(get: Ask, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN[:3]}"},
    ):
        answer = get(path, **headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in answer.detail


def test_probes_need_no_token(get: Ask) -> None:
    assert get("/healthz").status == get("/readyz").status == 200


def test_with_the_token_there_is(get: Ask) -> None:
    assert get("/v1/cluster", Authorization=bearer(TOKEN)).status == 200
    assert get("/v1/cluster", Authorization=bearer(TOKEN).replace("Bearer", "bearer")).status == 200


def test_a_browser_is_asked_once(broker: Broker, get: Ask) -> None:
    page = get("/", Accept="text/html,*/*")
    assert page.status == 401
    assert b'action="/login"' in page.body
    wrong = ask(broker.http_url, "/login", "POST", "token=wrong", **FORM)
    assert (wrong.status, b"not the token" in wrong.body, "set-cookie" in wrong.headers) == (401, True, False)
    right = ask(broker.http_url, "/login", "POST", "token=s3cret%2F%2B%3D%C3%BC-and-more", **FORM)
    assert (right.status, right.headers["location"]) == (303, "/")
    cookie, *attributes = right.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert TOKEN not in cookie
    assert get("/v1/cluster", Cookie=f"theme=dark; {cookie}").status == 200
    assert get("/v1/cluster", Cookie=f"{cookie}0").status == 401
    assert get("/v1/cluster", Cookie='a="').status == 401


def test_a_login_that_is_too_long_is_not_read(broker: Broker) -> None:
    assert ask(broker.http_url, "/login", "POST", "token=" + "x" * 20_000, **FORM).status == 413


def test_the_page_does_not_repeat_what_it_was_sent(broker: Broker) -> None:
    answer = ask(broker.http_url, "/login", "POST", "token=<script>", **FORM)
    assert b"<script>" not in answer.body


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        (" \n# nobody\n", "there is no token in it"),
        (b"\xff", "can.t decode"),
        ("alice a-good-one-of-20-chars\nbob fifteen-letters\n", "line 2: a token has at least 16 characters"),
        ("alice one two", "line 1: write NAME TOKEN"),
        ("alice sha256:abc", "line 1: after sha256: come 64 digits"),
    ],
)
def test_a_token_file_that_has_none(tmp_path: Path, text: str | bytes | None, said: str) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(CannotStart, match=said):
        Broker({"ottla.http.token.file": str(file)}, http=True).start()


def test_the_token_is_shown_to_nobody(broker: Broker) -> None:
    assert TOKEN not in repr(broker.settings)
    assert all(TOKEN not in str(row.value) for row in broker.settings.describe())


def test_more_connections_than_allowed_close_the_idle() -> None:
    with Broker({"ottla.http.max.connections": 8}, http=True) as broker:
        address = ("127.0.0.1", int(broker.http_url.rpartition(":")[2]))
        held = [socket.create_connection(address, timeout=10) for _ in range(8)]
        for one in held:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"
        assert ask(broker.http_url, "/healthz").status == 200
        left = held.copy()  # they are idle for about as long: one has to go
        while len(left) == len(held):
            left = [one for one in left if one not in select.select(held, [], [], 10)[0] or not is_ended(one)]
        assert len(left) == 7
        assert not any(is_ended(one) for one in select.select(left, [], [], 0)[0])
        for one in held:
            one.close()


def is_ended(one: socket.socket) -> bool:
    """Whether nothing more comes; takes what is there."""
    try:
        return not one.recv(4096)
    except ConnectionResetError:
        return True


def test_who_tries_too_many_tokens_has_to_wait_but_never_with_a_right_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("alice a-token-of-alice\n")
    audit = tmp_path / "audit"
    with Broker({"ottla.http.token.file": str(file), "ottla.audit.file": str(audit)}, http=True) as broker:
        url = broker.http_url
        tried = [ask(url, "/v1/cluster", Authorization="Bearer wrong") for _ in range(6)]
        assert [one.status for one in tried] == [401] * 5 + [429]
        assert "the token is wrong" in tried[0].body.decode()
        assert 0 < int(tried[-1].headers["retry-after"]) <= 60
        assert ask(url, "/login", "POST", "token=wrong", **FORM).status == 429
        assert ask(url, "/v1/cluster").status == 401, "who sends no token guesses none"
        assert ask(url, "/v1/cluster", Authorization="Bearer a-token-of-alice").status == 200
        assert ask(url, "/login", "POST", "token=a-token-of-alice", **FORM).status == 303
        counted = ask(url, "/metrics", Authorization="Bearer a-token-of-alice").body.decode()
        assert 'ottla_failed_authentications_total{listener="HTTP",mechanism="token"} 7' in counted
    rows = [*map(json.loads, audit.read_text().splitlines())]
    (came,) = [row for row in rows if row["event"] == "authenticated"]
    who = {"principal": "User:alice", "listener": "HTTP", "host": "127.0.0.1", "mechanism": "token"}
    assert came.items() >= who.items(), "each request shows the token; that is told once"
    told = [row for row in rows if row["event"] == "authentication_failed"]
    assert [(row["listener"], row["host"], row.get("others", 0)) for row in told] == [
        ("HTTP", "127.0.0.1", 0),
        ("HTTP", "127.0.0.1", 6),
    ]


def test_a_browser_goes(broker: Broker, get: Ask) -> None:
    right = ask(broker.http_url, "/login", "POST", "token=s3cret%2F%2B%3D%C3%BC-and-more", **FORM)
    cookie = right.headers["set-cookie"].partition(";")[0]
    assert get("/v1/cluster", Cookie=cookie).status == 200
    assert get("/logout", Cookie=cookie).status == 404, "not by a link"
    stream = urllib.request.Request(f"{broker.http_url}/v1/stream", headers={"Cookie": cookie})
    with urllib.request.urlopen(stream, timeout=10) as tab:
        assert tab.readline() == b"event: hello\n"
        gone = ask(broker.http_url, "/logout", "POST", Cookie=cookie)
        assert (gone.status, "Max-Age=0" in gone.headers["set-cookie"]) == (303, True)
        assert get("/v1/cluster", Cookie=cookie).status == 401
        tab.read()  # to its end


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec_Fetch_Site": "same-origin"}, 303),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/json"}, 415),
    ],
)
def test_a_login_comes_from_our_own_page(broker: Broker, headers: dict[str, str], status: int) -> None:
    answer = ask(broker.http_url, "/login", "POST", "token=s3cret%2F%2B%3D%C3%BC-and-more", **(FORM | headers))
    assert answer.status == status
    assert ("set-cookie" in answer.headers) is (status == 303)


def test_beyond_loopback_the_names_of_listeners_are_ours() -> None:
    settings = {
        "ottla.http.listen": "0.0.0.0:0",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://kafka.example.com:9092",
    }
    with Broker(settings) as broker:
        assert ask(broker.http_url, "/v1/cluster", Host="Kafka.example.com:9644").status == 200
        assert ask(broker.http_url, "/v1/cluster", Host="other.example.com:9644").status == 421
