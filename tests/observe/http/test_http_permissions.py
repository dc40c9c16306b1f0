"""What each token may see, by access control rules."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.observe.http.conftest import Answer, ask, commit

pytestmark = pytest.mark.e2e

TOKENS = {"admin": "admin-of-all-that-is", "sre": "sre-looks-at-everything", "alice": "alice-sees-group-g-alone"}
WORKBENCH = "/v1/workbench/clock/freeze"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Two groups; `admin` may do everything, `sre` describe the cluster, `alice` describe one group."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.touch(0o600)
    file.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
    with Broker(
        {"ottla.http.token.file": str(file)},
        http=True,
        topics={"orders": 3},
        acls=["User:sre ALLOW DESCRIBE cluster", "User:alice ALLOW DESCRIBE group:g"],
        super_users=["User:admin", "User:ANONYMOUS"],
    ) as running:
        commit(running, "g")
        commit(running, "h")
        yield running


def seen(broker: Broker, name: str, path: str, method: str = "GET") -> Answer:
    """What somebody is answered."""
    body = "{}" if method == "POST" else None
    headers = {"Authorization": f"Bearer {TOKENS[name]}", "Content_Type": "application/json"}
    return ask(broker.http_url, path, method, body, **headers)


@pytest.mark.parametrize("path", ["/v1/cluster", "/v1/topics", "/v1/topics/orders", "/metrics", "/v1/workbench/faults"])
def test_the_cluster_is_for_those_who_may_describe_it(broker: Broker, path: str) -> None:
    assert seen(broker, "sre", path).status == seen(broker, "admin", path).status == 200
    refused = seen(broker, "alice", path)
    assert (refused.status, refused.detail) == (403, "User:alice may not: it takes DESCRIBE on the cluster")


@pytest.mark.parametrize("page", ["", "/members", "/offsets", "/events", "/why", "/timeline"])
def test_a_group_is_for_those_who_may_describe_it(broker: Broker, page: str) -> None:
    assert seen(broker, "alice", f"/v1/groups/g{page}").status == 200
    hidden, missing = seen(broker, "alice", f"/v1/groups/h{page}"), seen(broker, "admin", f"/v1/groups/x{page}")
    assert (hidden.status, hidden.detail) == (404, "there is no group 'h'")
    assert (missing.status, missing.detail) == (404, "there is no group 'x'")


def test_lists_have_what_may_be_seen(broker: Broker) -> None:
    def ids(name: str) -> list[str]:
        return [one["group_id"] for one in seen(broker, name, "/v1/groups").json["groups"]]

    assert ids("alice") == ["g"]
    assert ids("sre") == ids("admin") == ["g", "h"]
    for path in ("/v1/costs", "/v1/sentinels"):
        assert seen(broker, "alice", path).status == 200


def test_the_stream_has_what_may_be_seen(broker: Broker) -> None:
    def first(name: str, query: str, event: str) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {TOKENS[name]}"}
        request = urllib.request.Request(f"{broker.http_url}/v1/stream{query}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as lines:
            for line in lines:
                if line == f"event: {event}\n".encode():
                    found: dict[str, object] = json.loads(next(lines).removeprefix(b"data: "))
                    return found
        raise AssertionError(f"no {event} came")

    assert first("alice", "", "hello") == {"cluster": None, "user": "alice"}
    assert first("sre", "", "hello")["cluster"] is not None
    changed = first("alice", "", "groups")["changed"]
    assert isinstance(changed, list)
    assert [one["group_id"] for one in changed] == ["g"]
    assert first("alice", "?group=g", "group")["group"] is not None
    for query in ("?group=h", "?group=h&raw=1"):
        assert seen(broker, "alice", f"/v1/stream{query}").status == 404


def test_to_change_something_takes_alter_on_the_cluster(broker: Broker) -> None:
    for name in ("alice", "sre"):
        refused = seen(broker, name, WORKBENCH, "POST")
        assert (refused.status, refused.detail) == (403, f"User:{name} may not: it takes ALTER on the cluster")
    assert seen(broker, "admin", WORKBENCH, "POST").status == 200
    assert seen(broker, "admin", "/v1/workbench/clock/resume", "POST").status == 200
    assert seen(broker, "alice", "/v1/workbench/groups/h/pause", "POST").status == 404


def test_the_audit_is_told_who_was_denied_what(broker: Broker) -> None:
    seen(broker, "alice", "/v1/groups/secret-one")
    [told] = [one for one in broker.denied if one["name"] == "secret-one"]
    assert {key: told[key] for key in ("principal", "listener", "host", "operation", "resource", "api")} == {
        "principal": "User:alice",
        "listener": "HTTP",
        "host": "127.0.0.1",
        "operation": "DESCRIBE",
        "resource": "GROUP",
        "api": "HTTP",
    }


def test_without_a_token_file_everybody_is_the_console() -> None:
    with Broker(http=True, acls=["User:console ALLOW DESCRIBE group:g"], super_users=["User:ANONYMOUS"]) as broker:
        assert ask(broker.http_url, "/v1/cluster").status == 403
        assert ask(broker.http_url, "/v1/groups").json["groups"] == []
        assert ask(broker.http_url, "/").status == ask(broker.http_url, "/healthz").status == 200
