"""What the API answers, and what it refuses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from ottla.clients import Consumer
from ottla.observe.http.api import MOST_EPISODES, _why
from ottla.observe.http.parts import Parts
from ottla.observe.why.model import Episode
from ottla.testing import Broker
from tests.observe.http.conftest import Ask, ask, commit
from tests.observe.http.fakes import FakeHistory, FakeView, ManualClock

pytestmark = pytest.mark.e2e

NAMES = ["plain", "with/slash", "grüße 👋", "a%2Fb", "q?x=1&y#z", "..", "+ +", "'!*()", '"<script>"']
"""Group ids that some client has."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with groups that have committed and gone.

    What they committed is past the end of the log: a sentinel would say so at any time, between two answers even.
    """
    quiet = {"ottla.sentinel.enable": "false"}
    with Broker(quiet, http=True, topics={"orders": 3, "payments": 1}) as running:
        for name in NAMES:
            commit(running, name)
        yield running


def at(name: str, part: str = "") -> str:
    return f"/v1/groups/{quote(name, safe='')}{part}"


def test_the_cluster(broker: Broker, get: Ask) -> None:
    found = get("/v1/cluster").json
    assert found["listen"] == broker.bootstrap_servers
    assert found["group_states"] == {"Empty": len(NAMES)}


def test_topics_by_name_in_pages(get: Ask) -> None:
    first = get("/v1/topics?limit=2").json
    assert [one["topic"] for one in first["topics"]] == ["__consumer_offsets", "orders"]
    assert first["next"] == "orders"
    rest = get("/v1/topics?after=orders").json
    assert ([one["topic"] for one in rest["topics"]], rest["next"]) == (["payments"], None)
    assert [one["topic"] for one in get("/v1/topics?q=rder").json["topics"]] == ["orders"]
    assert len(get("/v1/topics/orders").json["partitions"]) == 3
    assert get("/v1/topics/nothing").detail == "there is no topic 'nothing'"


def test_groups_by_id_in_pages(get: Ask) -> None:
    found, after = [], ""
    while True:
        page = get(f"/v1/groups?limit=4{after}").json
        found += [one["group_id"] for one in page["groups"]]
        if page["next"] is None:
            break
        after = f"&after={quote(page['next'], safe='')}"
    assert found == sorted(NAMES)
    assert get("/v1/groups?limit=1000").json["next"] is None


def test_groups_by_state_and_by_a_part_of_their_id(get: Ask) -> None:
    assert len(get("/v1/groups?state=Empty").json["groups"]) == len(NAMES)
    assert get("/v1/groups?state=Stable").json["groups"] == []
    assert [one["group_id"] for one in get("/v1/groups?q=%2F").json["groups"]] == ["with/slash"]
    assert [one["group_id"] for one in get(f"/v1/groups?q={quote('ü')}").json["groups"]] == ["grüße 👋"]


@pytest.mark.parametrize("name", NAMES)
def test_a_group_of_any_name_is_found(get: Ask, name: str) -> None:
    assert get(at(name)).json["group_id"] == name
    assert get(at(name, "/members")).json == {"members": []}
    [offset] = get(at(name, "/offsets")).json["offsets"]
    assert (offset["topic"], offset["partition"], offset["committed_offset"]) == ("orders", 0, 5)
    assert get(at(name, "/events")).json["events"][-1]["group_id"] == name


def test_an_empty_name_is_a_name(get: Ask) -> None:
    assert get("/v1/groups/").detail == "there is no group ''"
    assert get("/v1/groups//offsets").detail == "there is no group ''"


@pytest.mark.parametrize("part", ["", "/members", "/offsets", "/events", "/why", "/timeline"])
def test_a_group_that_never_was(get: Ask, part: str) -> None:
    answer = get(at("never/was", part))
    assert answer.status == 404
    assert answer.detail == "there is no group 'never/was'"


def test_events_go_on_where_the_answer_before_ended(get: Ask) -> None:
    whole = get(at("plain", "/events")).json
    first = get(at("plain", "/events?limit=2")).json
    rest = get(at("plain", f"/events?after={first['next']}")).json
    assert first["events"] + rest["events"] == whole["events"]
    assert len(first["events"]) == 2
    assert rest["next"] == whole["next"] == whole["events"][-1]["seq"]
    assert get(at("plain", f"/events?after={whole['next']}")).json == {"events": [], "next": whole["next"]}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/groups?limit=0", "limit='0': allowed is a whole number from 1 to 1000"),
        ("/v1/groups?limit=1001", "limit='1001': allowed is"),
        ("/v1/groups?limit=ten", "limit='ten': allowed is"),
        ("/v1/groups?limit=%C2%B2", "limit='²': allowed is"),
        ("/v1/groups?limit=" + "9" * 5000, "allowed is a whole number"),
        ("/v1/groups?limit=1&limit=2", "limit is given 2 times"),
        ("/v1/groups?state=stable", "state='stable': allowed are Stable, PreparingRebalance"),
        ("/v1/groups?sate=Stable", "there is no parameter 'sate' here: allowed are state, q, limit, after"),
        ("/v1/groups?q=" + "x" * 256, "q: allowed are 255 characters"),
        ("/v1/groups?" + "&".join(["q=1"] * 65), "the query cannot be read"),
        ("/v1/groups?q=%FF", "the query cannot be read"),
        ("/v1/cluster?x=1", "there is no parameter 'x' here: allowed are none"),
        ("/v1/groups/%FF", "names are encoded as UTF-8"),
        (at("plain", "/events?after=-1"), "after='-1': allowed is a whole number from 0"),
    ],
)
def test_a_bad_question_says_what_is_allowed(get: Ask, path: str, said: str) -> None:
    answer = get(path)
    assert answer.status == 400
    assert said in answer.detail


def test_the_longest_name_that_there_can_be_is_one_and_a_longer_one_a_problem(get: Ask) -> None:
    assert get("/v1/groups/" + "%00" * 32_767).status == 404
    answer = get("/v1/groups/" + "%00" * 100_000)
    assert answer.status == 400
    assert "too long" in answer.detail


def test_headers_are_bounded_in_whatever_pieces_they_come(broker: Broker) -> None:
    path = "/v1/groups/" + "%00" * 70_000
    host, port = broker.http_url.removeprefix("http://").split(":")
    head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    for first in (len(head) // 3, len(head) // 2):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(head[:first])
            assert ask(broker.http_url, "/healthz").status == 200  # so the broker has read of the first piece
            client.sendall(head[first:])
            assert client.recv(12) == b"HTTP/1.1 400"


def test_nothing_can_be_changed(broker: Broker) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = ask(broker.http_url, "/v1/groups", method)
        assert answer.status == 405
        assert answer.detail == f"{method} is not among what is allowed here"
        assert answer.headers["allow"] in ("GET, HEAD", "HEAD, GET")


def test_the_head_of_an_answer(broker: Broker) -> None:
    answer = ask(broker.http_url, "/v1/cluster", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_what_is_not_there(get: Ask) -> None:
    for path in ("/nothing", "/v1", "/v1/groups/plain/nothing", "/../app.py", "/%2e%2e/http/server.py", "//etc/passwd"):
        answer = get(path)
        assert (answer.status, answer.detail) == (404, "there is nothing here")


def test_the_console_is_served_and_not_sent_twice(get: Ask) -> None:
    page = get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.body == get("/index.html").body
    assert page.headers["cache-control"] == "no-cache"
    again = get("/", If_None_Match=page.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert get("/icon.svg").headers["content-type"] == "image/svg+xml"


def test_every_answer_says_that_nothing_of_other_hosts_belongs_to_it(get: Ask) -> None:
    for path in ("/", "/v1/cluster", "/v1/groups?x=1", "/nothing", "/healthz"):
        headers = get(path, Origin="https://example.com").headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


async def test_why_timeline_and_alarms_of_a_group_that_lives() -> None:
    async with Broker(http=True, topics={"orders": 2}) as broker:

        def get(path: str) -> Any:
            answer = ask(broker.http_url, path)
            assert answer.status == 200, answer.body
            return answer.json

        async with Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="a/b", client_id="one"
        ) as consumer:
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=50)
            whole = await asyncio.to_thread(get, at("a/b", "/why?last=100"))
            [first] = (await asyncio.to_thread(get, at("a/b", "/why?generation=1")))["episodes"]
            [latest] = (await asyncio.to_thread(get, at("a/b", "/why")))["episodes"]
            assert whole["episodes"][-1] == latest
            assert first in whole["episodes"]
            assert (first["generation_after"], first["outcome"]) == (1, "stable")
            assert "one" in first["headline"]
            [none] = [await asyncio.to_thread(get, at("a/b", f"/why?since={2**62}"))]
            assert none["episodes"] == []
            timeline = await asyncio.to_thread(get, at("a/b", "/timeline"))
            assert [lane["client_id"] for lane in timeline["lanes"]] == ["one"]
            assert (await asyncio.to_thread(get, "/v1/costs?since=0"))["costs"] == []  # a first member waits for nobody
            assert await asyncio.to_thread(get, "/v1/sentinels") == {"active": [], "recent": []}
            metrics = await asyncio.to_thread(ask, broker.http_url, "/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=")
            assert b"# TYPE ottla_" in metrics.body


@pytest.mark.parametrize(
    ("asked", "last"),
    [({}, 1), ({"since": 0}, MOST_EPISODES), ({"generation": 3}, MOST_EPISODES), ({"since": 0, "last": 5}, 5)],
)
def test_why_is_told_of_so_many_episodes_at_most(asked: dict[str, int], last: int) -> None:
    wanted: list[int | None] = []

    class Asked(FakeHistory):
        def each(self, *given: Any, last: int | None = None, **more: Any) -> AsyncIterator[Episode]:
            wanted.append(last)
            return super().each(*given, last=last, **more)

    view = FakeView()
    view.put("g")
    query = {"last": None, "since": None, "generation": None} | asked
    asyncio.run(_why(Parts(view, ManualClock(), history=Asked()), {"group": "g"}, query))  # type: ignore[arg-type]
    assert wanted == [last]
