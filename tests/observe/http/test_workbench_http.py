"""The workbench by HTTP: what it does, and who may ask for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import Broker, BrokerProcess
from ottla.workbench import control
from tests.observe.http.conftest import Answer, ask
from tests.support.client import Client
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

HOME = "/v1/workbench"
BEARER = "Bearer s3cret-of-the-bench"
LOST_SYNC = {"api": "SyncGroup", "group": "billing", "drop": "response"}
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text("s3cret-of-the-bench\n")
    return file


@pytest.fixture(scope="module")
def shared(token: Path) -> Iterator[Broker]:
    with Broker({"ottla.http.token.file": str(token)}, http=True) as running:
        yield running


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    """One broker for all tests, which leave nothing in force."""
    yield shared
    shared.run(lambda: [shared.workbench.remove(fault) for fault in list(shared.workbench.faults.current)])
    shared.clock.resume()


def get(broker: Broker, path: str, **headers: str) -> Answer:
    return ask(broker.http_url, HOME + path, Authorization=BEARER, **headers)


def post(broker: Broker, path: str, body: object = None, **headers: str) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body or {})
    headers = {"Authorization": BEARER, "Content_Type": "application/json"} | headers
    return ask(broker.http_url, HOME + path, "POST", text, **headers)


def delete(broker: Broker, path: str) -> Answer:
    return ask(broker.http_url, HOME + path, "DELETE", Authorization=BEARER)


# what it does


def test_a_fault_is_set_listed_and_removed(broker: Broker) -> None:
    set_ = post(broker, "/faults", LOST_SYNC)
    assert (set_.status, set_.json["rule"]) == (200, LOST_SYNC)
    assert get(broker, "/faults").json == {"faults": [set_.json]}
    post(broker, "/faults", {"api": "*", "delay": 1})
    assert delete(broker, f"/faults/{set_.json['number']}").json == {"removed": 1}
    assert [fault["name"] for fault in get(broker, "/faults").json["faults"]] == ["'*', delay=1.0"]
    assert delete(broker, "/faults").json == {"removed": 1}


def test_what_is_held_is_let_go_of(broker: Broker) -> None:
    number = post(broker, "/faults", {"api": "JoinGroup", "hold": "request"}).json["number"]
    with Client(broker.port) as one, Client(broker.port) as other:
        one.start_join("billing")
        wait_for(lambda: get(broker, "/faults").json["faults"][0]["held"], "the join to be held")
        assert post(broker, f"/faults/{number}/release").json == {"released": 1}
        one.answer()
        other.start_join("billing")
        wait_for(lambda: get(broker, "/faults").json["faults"][0]["held"], "the join to be held")
        assert post(broker, "/faults/release").json == {"released": 1}
        other.answer()


def test_time_is_moved(broker: Broker) -> None:
    frozen = post(broker, "/clock/freeze").json
    assert get(broker, "/clock").json["now_ms"] == frozen["now_ms"]
    moved = post(broker, "/clock/advance", {"ms": 7 * DAY_MS, "hold": ["billing"]}).json
    assert moved["now_ms"] - frozen["now_ms"] == 7 * DAY_MS
    assert post(broker, "/clock/scale", {"factor": 60}).json["pace"] == 60
    assert post(broker, "/clock/resume").json["pace"] == 1


def test_a_group_is_paused_whatever_its_name(broker: Broker) -> None:
    assert post(broker, "/groups/a%2Fb/pause").json == {"group": "a/b", "is_paused": True}
    assert get(broker, "/clock").json["held"] == ["a/b"]
    assert post(broker, "/groups/a%2Fb/resume").json == {"group": "a/b", "is_paused": False}
    refused = post(broker, "/groups/a%2Fb/resume")
    assert (refused.status, refused.detail) == (404, "group 'a/b' is not paused")


# what cannot be


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/faults", {"api": "SyncGrop", "drop": "request"}, 400, "there is no API 'SyncGrop'; did you mean SyncGroup?"),
        ("/faults", "[]", 400, "the body is no JSON object: "),
        ("/faults", "{", 400, "the body is no JSON object: "),
        ("/faults", '{"api": "' + "x" * 65_536 + '"}', 413, "the body is longer than 65,536 bytes"),
        ("/faults?dry=1", LOST_SYNC, 400, "there is no parameter 'dry' here"),
        ("/faults/77/release", {}, 404, "there is no fault 77 in force"),
        ("/faults/first/release", {}, 404, "there is no fault 'first': faults have numbers"),
        ("/faults/77/release", {"number": 1}, 400, "nothing can be said here: the body has to be {}"),
        ("/clock/advance", {}, 400, "clock.advance takes ms, hold: "),
        ("/clock/freeze", {"at": 1}, 400, "nothing can be said here: the body has to be {}"),
        ("/clock/stop", {}, 405, "POST is not among what is allowed here"),
        ("/groups//pause", {}, 400, "the group id is empty"),
    ],
)
def test_what_cannot_be_asked_says_why(broker: Broker, path: str, body: Any, status: int, said: str) -> None:
    answer = post(broker, path, body)
    assert (answer.status, answer.detail[: len(said)]) == (status, said)
    assert get(broker, "/faults").json == {"faults": []}


def test_there_are_not_too_many_faults(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_FAULTS", 1)
    assert post(broker, "/faults", LOST_SYNC).status == 200
    assert post(broker, "/faults", LOST_SYNC).status == 409


def test_a_refusal_names_the_methods_of_the_path(broker: Broker) -> None:
    answer = ask(broker.http_url, f"{HOME}/faults", "PUT", Authorization=BEARER)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST", "DELETE"}
    assert ask(broker.http_url, f"{HOME}/faults", "HEAD", Authorization=BEARER).status == 200
    for method in ("GET", "HEAD", "DELETE"):
        answer = ask(broker.http_url, f"{HOME}/clock/freeze", method, Authorization=BEARER)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


# who may


WRITES = [
    ("POST", "/faults", json.dumps(LOST_SYNC)),
    ("DELETE", "/faults", None),
    ("DELETE", "/faults/1", None),
    ("POST", "/clock/freeze", "{}"),
    ("POST", "/groups/billing/pause", "{}"),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_nothing_is_changed_without_the_token(broker: Broker, method: str, path: str, body: str | None) -> None:
    for headers in ({}, {"Authorization": "Bearer"}):
        answer = ask(broker.http_url, HOME + path, method, body, Content_Type="application/json", **headers)
        assert answer.status == 401
    assert get(broker, "/faults").json == {"faults": []}
    assert get(broker, "/clock").json["pace"] == 1


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_port_without_a_token_changes_nothing(method: str, path: str, body: str | None) -> None:
    with Broker(http=True) as open_to_all:
        answer = ask(open_to_all.http_url, HOME + path, method, body, Content_Type="application/json")
        assert (answer.status, answer.detail) == (
            403,
            "to change something takes a token: start the broker with --http-token-file FILE",
        )
        assert ask(open_to_all.http_url, f"{HOME}/faults").json == {"faults": []}


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "{}.evil.example", ""])
def test_a_page_of_another_origin_changes_nothing(broker: Broker, origin: str) -> None:
    answer = post(broker, "/faults", LOST_SYNC, Origin=origin.format(broker.http_url))
    assert answer.status == 403
    assert "Origin" in answer.detail
    assert get(broker, "/faults").json == {"faults": []}
    assert "access-control-allow-origin" not in answer.headers


def test_our_own_page_may(broker: Broker) -> None:
    assert post(broker, "/faults", LOST_SYNC, Origin=broker.http_url).status == 200
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    cookie = (
        ask(broker.http_url, "/login", "POST", "token=s3cret-of-the-bench", **form)
        .headers["set-cookie"]
        .partition(";")[0]
    )
    headers = {"Cookie": cookie, "Origin": broker.http_url, "Content_Type": "application/json; charset=utf-8"}
    assert ask(broker.http_url, f"{HOME}/clock/freeze", "POST", "{}", **headers).status == 200


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/json-patch", ""]
)
def test_what_a_form_can_send_is_refused(broker: Broker, media_type: str) -> None:
    answer = post(broker, "/faults", LOST_SYNC, Content_Type=media_type)
    assert (answer.status, answer.detail) == (415, "send JSON: Content-Type: application/json")


def test_a_broker_without_a_workbench_has_no_such_paths(token: Path) -> None:
    with BrokerProcess(http=True, settings={"ottla.http.token.file": str(token)}) as plain:
        for method in ("GET", "POST"):
            headers = {"Authorization": BEARER, "Content_Type": "application/json"}
            assert ask(plain.http_url, f"{HOME}/faults", method, **headers).status in (404, 405)
        paths = ask(plain.http_url, "/v1/openapi.json", Authorization=BEARER).json["paths"]
        assert not [path for path in paths if path.startswith(HOME)]


# the OpenAPI document


def test_the_document_tells_what_to_send(broker: Broker) -> None:
    document = ask(broker.http_url, "/v1/openapi.json", Authorization=BEARER).json
    faults = document["paths"][f"{HOME}/faults"]
    assert set(faults) == {"get", "post", "delete"}
    body = faults["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Rule"}
    assert "throttle" in document["components"]["schemas"]["Rule"]["properties"]
    assert {"401", "403", "413", "415"} <= set(faults["post"]["responses"])
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_schemathesis_finds_nothing(broker: Broker, tmp_path: Path) -> None:
    """But for whether all that fits the schemas is taken: that a fault does one thing no schema says.

    And but for wrong tokens: after some of them the answer is 429.
    """
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{broker.http_url}/v1/openapi.json"]
    command += ["--checks=all", "--exclude-checks=positive_data_acceptance,ignored_auth", "--phases=coverage,fuzzing"]
    command += ["--max-examples=20", "--seed=1", f"--header=Authorization: {BEARER}", f"--include-path-regex={HOME}"]
    command += ["--generation-database=none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
