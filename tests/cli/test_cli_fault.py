"""`ottla fault`, `ottla clock`, and `ottla groups pause`, `resume` and `evict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import dispatch
from ottla.broker.handlers import HANDLERS
from ottla.cli.greeting import Who, greet
from ottla.testing import Broker, BrokerProcess
from ottla.workbench.bench import Workbench
from tests.cli.commands import Ottla
from tests.support.client import Client
from tests.support.waiting import wait_for

DAY_MS = 86_400_000


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.port) as connected:
        yield connected


# faults


def test_a_fault_is_set_listed_and_removed(ottla: Ottla, client: Client) -> None:
    said = ottla.run("fault", "add", "SyncGroup", "group=billing", "drop=response", "times=1").stdout
    assert said == "Fault 1 is in force: 'SyncGroup', group='billing', times=1, drop='response'\n"
    client.stable("shipping")
    (fault,) = ottla.json("fault", "list")
    assert (fault["number"], fault["seen"], fault["hits"]) == (1, 1, 0)
    heading, row = ottla.run("fault", "list").stdout.splitlines()
    assert heading.split() == ["NUMBER", "HITS", "SEEN", "HELD", "FAULT", "LET", "THE", "LAST", "PASS,", "AS"]
    assert row.endswith("drop='response'  its group was 'shipping', not 'billing'")
    assert ottla.run("fault", "remove", 1).stdout == "Removed 1 fault.\n"
    assert ottla.run("fault", "list").stderr == "No fault is in force.\n"
    assert ottla.json("fault", "list") == []


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["SyncGroup", "drop=request"], {"api": "SyncGroup", "drop": "request"}),
        (["JoinGroup", "sync_group", "close=true"], {"api": ["JoinGroup", "SyncGroup"], "close": True}),
        (["JoinGroup,SyncGroup", "hold=response"], {"api": ["JoinGroup", "SyncGroup"], "hold": "response"}),
        (["api=*", "delay=2.5"], {"api": "*", "delay": 2.5}),
        (["Heartbeat", "error=27", "chance=0.5"], {"api": "Heartbeat", "error": 27, "chance": 0.5}),
        (["Heartbeat", "error=fenced_instance_id", "on=response"], {"error": "fenced_instance_id", "on": "response"}),
        (["SyncGroup", "leader=true", "group=007", "drop=response"], {"leader": True, "group": "007"}),
        (["SyncGroup", "group=yes", "member=a=b", "drop=response"], {"group": "yes", "member": "a=b"}),
    ],
)
def test_a_fault_is_read_as_it_is_typed(ottla: Ottla, words: list[str], rule: dict[str, Any]) -> None:
    (fault,) = ottla.json("fault", "add", *words)
    assert {key: fault["rule"][key] for key in rule} == rule


def test_faults_of_a_file(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- api: SyncGroup\n  error: NOT_COORDINATOR\n  on: response\n- {api: Fetch, throttle: 2}\n")
    assert [fault["number"] for fault in ottla.json("fault", "add", "--file", file)] == [1, 2]
    assert [fault["rule"] for fault in ottla.json("fault", "list")] == [
        {"api": "SyncGroup", "error": "NOT_COORDINATOR", "on": "response"},
        {"api": "Fetch", "throttle": 2.0},
    ]
    file.write_text("api: Heartbeat\ndrop: request\n")
    assert ottla.run("fault", "add", "--file", file).stdout == "Fault 3 is in force: 'Heartbeat', drop='request'\n"
    assert ottla.json("fault", "remove", "--all") == {"removed": 3}


def test_of_a_file_with_a_mistake_nothing_is_set(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- {api: SyncGroup, drop: request}\n- {api: SyncGrop, drop: request}\n")
    said = ottla.run("fault", "add", "--file", file, expect=2).stderr
    assert f"{file}: there is no API 'SyncGrop'; did you mean SyncGroup?" in said
    assert ottla.json("fault", "list") == []
    for text in ("- [", "{", "\x00"):
        file.write_text(text)
        assert "faults.yaml is no YAML: " in ottla.run("fault", "add", "--file", file, expect=2).stderr
    file.write_text("just words\n")
    assert "is no fault: write a mapping" in ottla.run("fault", "add", "--file", file, expect=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Write a fault, such as: ottla fault add SyncGroup drop=response; or name a --file."),
        (["drop=response"], "a fault needs an API: write SyncGroup, for example, or '*' for every one"),
        (["SyncGroup"], "a fault does one thing: there is none"),
        (["SyncGroup", "drop=respons"], "drop='respons': write 'request' or 'response'"),
        (["SyncGroup", "dorp=response"], "a fault has no 'dorp'; did you mean drop?"),
        (["SyncGroup", "=response"], "write KEY=VALUE"),
        (["SyncGroup", "times=[", "drop=response"], "times='['"),
    ],
)
def test_a_fault_that_cannot_be(ottla: Ottla, words: list[str], said: str) -> None:
    assert said in " ".join(ottla.run("fault", "add", *words, expect=2).stderr.split())


def test_what_is_held_is_released(ottla: Ottla, client: Client) -> None:
    ottla.run("fault", "add", "JoinGroup", "hold=request")
    client.start_join("billing")
    wait_for(lambda: ottla.json("fault", "list")[0]["held"], "the join to be held")
    assert ottla.run("fault", "release", 1).stdout == "Let go of 1 request.\n"
    client.answer()
    assert ottla.json("fault", "release", "--all") == {"released": 0}


@pytest.mark.parametrize("command", ["remove", "release"])
def test_which_faults_has_to_be_said(ottla: Ottla, command: str) -> None:
    for words in ([], ["1", "--all"]):
        said = ottla.run("fault", command, *words, expect=2).stderr
        assert "Say the numbers that `ottla fault list` shows, or --all." in said
    assert ottla.run("fault", command, 7, expect=1).stderr == "Error: There is no fault 7 in force.\n"


def test_faults_do_not_keep_out_who_set_them(ottla: Ottla, broker: Broker) -> None:
    ottla.run("fault", "add", "*", "close=request")
    assert ottla.json("fault", "list")[0]["hits"] == 0
    assert greet("127.0.0.1", broker.port) is Who.OTTLA, "commands go to the default address only if an Ottla has it"
    ottla.run("groups", "list", expect=1)
    assert ottla.run("fault", "remove", "--all").stdout == "Removed 1 fault.\n"
    ottla.run("groups", "list")


# the clock


def test_the_clock(ottla: Ottla) -> None:
    rows = ottla.run("clock", "show").stdout.splitlines()
    assert [row.split("  ")[0] for row in rows] == ["time of the broker", "real time", "pace"]
    assert rows[-1].endswith("as in reality")
    frozen = ottla.json("clock", "freeze")
    moved = ottla.json("clock", "advance", "7d")
    assert moved["now_ms"] - frozen["now_ms"] == 7 * DAY_MS
    assert ottla.run("clock", "show").stdout.splitlines()[-1].split("  ")[-1] == "frozen"
    assert ottla.run("clock", "scale", 60).stdout.splitlines()[-1].endswith("60 times as fast as in reality")
    assert ottla.json("clock", "resume")["pace"] == 1


@pytest.mark.parametrize("hold", [["--hold"], ["--hold-group", "billing"]])
def test_groups_live_through_a_jump(ottla: Ottla, broker: Broker, client: Client, hold: list[str]) -> None:
    ottla.run("clock", "freeze")
    joined = client.stable("billing")
    ottla.run("clock", "advance", "1h30m", *hold)
    assert list(broker.group("billing").members) == [joined.member_id]
    ottla.run("clock", "advance", "1h30m")
    assert broker.group("billing").members == {}


def test_what_time_cannot_do(ottla: Ottla) -> None:
    assert "'7' has no unit" in ottla.run("clock", "advance", 7, expect=2).stderr
    assert "0.0 is not in the range 0.001<=x<=10000" in ottla.run("clock", "scale", 0, expect=2).stderr
    assert "write a number from 0.001 to 10000" in ottla.run("clock", "scale", "fast", expect=2).stderr


# groups


def test_a_group_is_paused_and_goes_on(ottla: Ottla, client: Client) -> None:
    assert ottla.run("groups", "pause", "billing").stdout == "Group 'billing' is paused.\n"
    assert ottla.run("clock", "show").stdout.splitlines()[-1].split() == ["held", "groups", "billing"]
    assert ottla.json("groups", "resume", "billing") == {"group": "billing", "is_paused": False}
    assert ottla.run("groups", "resume", "billing", expect=1).stderr == "Error: Group 'billing' is not paused.\n"


def test_a_member_is_evicted(ottla: Ottla, broker: Broker, client: Client) -> None:
    joined = client.stable("billing")
    said = ottla.run("groups", "evict", "billing", "nobody", expect=1).stderr
    assert said.splitlines()[0] == "Error: Group 'billing' has no member 'nobody'. Its members are:"
    assert said.splitlines()[1].strip() == f"{joined.member_id} (peer on 127.0.0.1)"
    removed = ottla.run("groups", "evict", "billing", joined.member_id, "--reason", "too slow").stdout
    assert removed == f"Removed member {joined.member_id!r} from group 'billing'.\n"
    assert broker.group("billing").members == {}
    assert 'the reason given was "too slow".' in ottla.run("why", "billing").stdout
    ottla.make_group("shipping")
    assert ottla.run("groups", "evict", "shipping", "x", expect=1).stderr == (
        "Error: Group 'shipping' has no member 'x', nor any other.\n"
    )


# brokers without a workbench


@pytest.mark.parametrize("command", ["fault list", "clock freeze", "groups pause billing"])
@pytest.mark.parametrize("kind", ["without a workbench", "not Ottla"])
def test_a_broker_without_a_workbench_is_named_as_that(
    monkeypatch: pytest.MonkeyPatch, ottla_broker_factory: Callable[..., Broker], kind: str, command: str
) -> None:
    if kind == "not Ottla":
        kept = {key: served for key, served in HANDLERS.items() if not key.is_private}
        monkeypatch.setattr(dispatch, "HANDLERS", kept)
    monkeypatch.setattr(Workbench, "control", lambda bench: None)
    ottla = Ottla(ottla_broker_factory().bootstrap_servers)
    said = ottla.run(*command.split(), expect=1).stderr
    assert said.splitlines()[0] == f"Error: The broker at {ottla.bootstrap} has no workbench."
    assert "`ottla serve --workbench`" in said


@pytest.mark.e2e
@pytest.mark.parametrize("has_one", [True, False])
def test_serve_has_a_workbench_only_if_it_is_asked_for(has_one: bool) -> None:
    with BrokerProcess(arguments=("--workbench",) if has_one else ()) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        if has_one:
            assert ottla.json("clock", "advance", "7d")["ahead_ms"] > 6 * DAY_MS
        else:
            assert "has no workbench" in ottla.run("clock", "advance", "7d", expect=1).stderr
        broker.stop()
        assert ("The workbench is on" in broker.log_text()) is has_one
