"""`ottla why` against a broker, against a broker that is not Ottla, and on a recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import dispatch
from ottla.broker.handlers import HANDLERS
from ottla.testing.broker import Broker
from tests.cli.conftest import Join, Ottla, membership
from tests.support.waiting import wait_for


@pytest.fixture
def two(ottla: Any, join: Join) -> Any:
    """A group that ``one`` started, ``two`` joined and ``one`` left again."""
    first = join("billing", "one")
    join("billing", "two")
    first.close()
    until_settled(ottla)
    return ottla


def until_settled(ottla: Any) -> None:
    """Wait until the rebalance that runs is over."""
    wait_for(lambda: "outcome" in ottla.json("why", "billing")["episodes"][-1], "the rebalance to end", pause_s=0.1)


def test_the_latest_rebalance_in_words(two: Any) -> None:
    lines = two.run("why", "billing").stdout.splitlines()
    assert lines[0].startswith("rebalance 3 at ")
    assert lines[0].endswith(", cause left-closed, triggered by one, culprit one")
    assert re.match(r"\d partitions stood still for up to [\d.]+ m?s\. one was closed; ", lines[1])
    assert any('one (127.0.0.1) was closed; it said "the consumer is being closed".' in line for line in lines)
    assert any("group.instance.id" in line for line in lines if line.startswith("  What to do: "))


def test_several_rebalances(two: Any) -> None:
    heads = [line for line in two.run("why", "billing", "--last", "5").stdout.splitlines() if line.startswith("reb")]
    assert [head.rpartition("cause ")[2] for head in heads] == [
        "group-started, triggered by one, no culprit",
        "member-joined, triggered by two, culprit two",
        "left-closed, triggered by one, culprit one",
    ]
    assert two.run("why", "billing", "--since", "1h").stdout.count("cause ") == 3
    assert two.run("why", "-G", "billing", "--generation", "2").stdout.count("cause member-joined") == 1


def test_json_has_the_same(two: Any) -> None:
    told = two.json("why", "billing", "--last", "2")
    assert told["group_id"] == "billing"
    assert [one["cause"] for one in told["episodes"]] == ["member-joined", "left-closed"]
    last = told["episodes"][-1]
    assert last["members"][last["culprit"]]["client_id"] == "one"
    assert last["outcome"] == "stable"
    assert last["headline"].startswith("one was closed")


def test_nothing_to_tell(two: Any) -> None:
    refused = two.run("why", "billing", "--generation", "77", expect=1).stderr
    assert "Nothing is known of what led to generation 77 of group 'billing'." in refused
    assert "Known are generations 1 to 3." in refused
    assert two.run("why", "billing", "--since", "0s").stderr.strip() == (
        "Nothing happened to group 'billing' since then."
    )


def test_a_group_that_only_commits_has_no_history(ottla: Any) -> None:
    ottla.run("groups", "reset-offsets", "simple", "--topic", "orders", "--to-earliest", "--execute", "--create")
    assert "Nothing has happened to group 'simple'" in ottla.run("why", "simple").stderr


def test_mistakes_are_named(ottla: Any) -> None:
    assert "There is no group 'nobody'" in ottla.run("why", "nobody", expect=1).stderr
    assert "Name a group" in ottla.run("why", expect=2).stderr
    assert "Name one group" in ottla.run("why", "a", "--group", "b", expect=2).stderr
    assert "is no duration" in ottla.run("why", "a", "--since", "yesterday", expect=2).stderr


def test_a_broker_without_a_history_says_so(ottla_broker_factory: Callable[..., Broker]) -> None:
    broker = ottla_broker_factory(settings={"ottla.history.memory.bytes": 0})
    refused = Ottla(broker.bootstrap_servers).run("why", "billing", expect=1)
    assert "ottla.history.memory.bytes is 0" in refused.stderr


def test_a_broker_that_is_not_ottla_is_named_as_that(ottla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka closes the connection on which it is asked for what it does not know."""
    monkeypatch.setattr(dispatch, "HANDLERS", {key: served for key, served in HANDLERS.items() if not key.is_private})
    ottla.run("groups", "reset-offsets", "billing", "--topic", "orders", "--to-latest", "--execute", "--create")
    for command in ("why", "timeline"):
        refused = ottla.run(command, "billing", expect=1).stderr
        assert "keeps no history of groups: only Ottla does." in refused
        assert f"ottla groups describe billing -b {ottla.bootstrap}\n" in refused
        assert "ottla pipeline query rebalances --group billing\n" in refused
        assert "Did you mean 'billing'?" in ottla.run(command, "biling", expect=1).stderr


@pytest.mark.parametrize("name", ["run.ottla", "run.jsonl"])
def test_a_recording_tells_the_same(name: str, tmp_path: Path, ottla_broker_factory: Callable[..., Broker]) -> None:
    path = tmp_path / name
    broker = ottla_broker_factory(topics={"orders": 3}, settings={"ottla.recorder.file": str(path)})
    ottla = Ottla(broker.bootstrap_servers)
    with membership(broker.bootstrap_servers, "billing", "one"), membership(broker.bootstrap_servers, "billing", "two"):
        until_settled(ottla)
        live = ottla.json("why", "billing", "--last", "9")["episodes"]
    broker.stop()
    told = ottla.json("why", "billing", "--last", "9", "--file", str(path))["episodes"]
    assert len(live) == 2
    assert told[:2] == live
    assert {one["cause"] for one in told[2:]} == {"left-closed", "coordinator-moved"}
    text = ottla.run("why", "billing", "--last", "9", "--file", str(path)).stdout
    assert "cause member-joined, triggered by two, culprit two" in text
    shown = ottla.run("why", "billing", "--file", str(path)).stdout.splitlines()
    assert shown[0].startswith("rebalance ")
    assert shown[-1].startswith("Then, at ") and shown[-1].endswith(", the broker stopped or gave the group up.")
    assert [one["kind"] for one in ottla.json("why", "billing", "--file", str(path))["episodes"]][1:] == ["stopped"]
    assert ottla.run("why", "billing", "--file", str(path), "--last", "1").stdout.startswith("stopped ")
    assert ottla.run("why", "--file", str(path)).stdout == "billing\n"
    assert "Did you mean 'billing'?" in ottla.run("why", "biling", "--file", str(path), expect=1).stderr
    refused = ottla.run("why", "shipping", "--file", str(path), expect=1)
    assert "The recording has no group 'shipping'" in refused.stderr
    assert "The groups in it: billing." in refused.stderr


def test_what_is_no_recording_is_refused(ottla: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a recording")
    assert str(tmp_path / "notes.txt") in ottla.run("why", "a", "--file", str(tmp_path / "notes.txt"), expect=1).stderr
    assert "No such file" in ottla.run("why", "a", "--file", str(tmp_path / "none"), expect=1).stderr
