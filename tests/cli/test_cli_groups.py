"""`ottla groups` against a broker."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ottla.cli import group_offsets
from ottla.testing import Broker
from tests.cli.commands import HERE
from tests.cli.conftest import Join
from tests.support.client import Client
from tests.support.group_member import GroupMember
from tests.support.processes import run


@pytest.fixture
def billing(ottla: Any) -> Any:
    """A group without members that has read the 6 records of ``orders`` 0."""
    ottla.send("orders", b"1\n2\n3\n4\n5\n6\n", "-p", "0")
    ottla.read("orders", "-G", "billing", "--from-beginning", "-c", "6")
    return ottla


def offsets(ottla: Any, group: str) -> dict[int, int]:
    (found,) = ottla.json("groups", "describe", group)
    return {row["partition"]: row["committed_offset"] for row in found["offsets"]}


def test_list_shows_state_members_and_assignor(ottla: Any, join: Join) -> None:
    assert "There are no groups" in ottla.run("groups", "list").stderr
    member = join("billing", "one")
    assert ottla.rows("groups", "list") == [
        ["GROUP", "STATE", "MEMBERS", "ASSIGNOR"],
        ["billing", "Stable", "1", "range"],
    ]
    assert ottla.json("groups", "list", "--state", "empty") == []
    member.close()
    assert [row["group"] for row in ottla.json("groups", "list", "--state", "empty")] == ["billing"]


def test_a_group_of_another_type(ottla: Any, broker: Broker, join: Join) -> None:
    """Such as that of Kafka Connect's workers."""
    join("billing", "one")
    _join_as_worker(broker.port)
    assert ottla.rows("groups", "list") == [
        ["GROUP", "STATE", "TYPE", "MEMBERS", "ASSIGNOR"],
        ["billing", "Stable", "classic", "1", "range"],
        ["workers", "Stable", "connect", "1", "sessioned"],
    ]
    text = ottla.run("groups", "describe", "workers").stdout
    assert text.startswith("Group workers: Stable, 1 member, type connect, assignor sessioned, coordinator 1 (")
    assert "What they were assigned is in a form of the type connect, which Ottla does not read." in text


def _join_as_worker(port: int) -> None:
    """Join the group ``workers``, which has the type connect, and be assigned something."""
    client = Client(port)
    worker = GroupMember(client.ask, "workers", protocols={"sessioned": b"worker"}, protocol_type="connect")
    assert worker.learn(worker.join(3))
    assert worker.sync({worker.member_id: b"tasks"}, 2).error_code == 0
    client.close()


def test_describe_shows_members_assignment_and_lag(billing: Any, join: Join) -> None:
    billing.run("groups", "reset-offsets", "billing", "-t", "orders:1", "--to-latest", "--execute")
    billing.run("groups", "reset-offsets", "billing", "-t", "orders:0", "--to-offset", "2", "--execute")
    (group,) = billing.json("groups", "describe", "billing")
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 4)
    assert {row["partition"]: row["lag"] for row in group["offsets"]} == {0: 4, 1: 0, 2: 0}
    join("billing", "one")
    text = billing.run("groups", "describe", "billing").stdout
    assert text.startswith("Group billing: Stable, 1 member, assignor range, coordinator 1 (127.0.0.1:")
    assert "one     127.0.0.1  orders 0-2  one-" in text
    assert text.count("  one\n") == 3  # it reads all three partitions


def test_describe_shows_the_part_that_is_asked_for(billing: Any) -> None:
    head = billing.run("groups", "describe", "billing", "--state").stdout
    assert head.count("\n") == 1 and head.startswith("Group billing: Empty, 0 members")
    assert "TOPIC" not in billing.run("groups", "describe", "billing", "--members").stdout
    text = billing.run("groups", "describe", "--all-groups", "--offsets").stdout
    assert "No members" not in text and "TOPIC" in text


def test_a_group_that_does_not_exist_is_refused(ottla: Any) -> None:
    for verb in ("describe", "delete"):
        refused = ottla.run("groups", verb, "nope", expect=1)
        assert "There is no group 'nope'." in refused.stderr and "ottla groups list" in refused.stderr


def test_a_group_with_members_is_neither_reset_nor_deleted(billing: Any, join: Join) -> None:
    before = offsets(billing, "billing")
    member = join("billing", "one")
    for words in (
        ["delete", "billing"],
        ["reset-offsets", "billing", "--all-topics", "--to-earliest"],
        ["reset-offsets", "billing", "--all-topics", "--to-earliest", "--execute"],
    ):
        refused = billing.run("groups", *words, expect=1)
        assert "while it has members (Stable: one on 127.0.0.1)" in refused.stderr
        assert "Stop them, wait until" in refused.stderr
    member.close()
    assert offsets(billing, "billing") == before
    assert billing.run("groups", "delete", "billing").stdout == "Deleted group 'billing'.\n"
    assert billing.json("groups", "list") == []


def test_reset_only_shows_what_it_would_do_until_told_to(billing: Any) -> None:
    shown = billing.run("groups", "reset-offsets", "billing", "--topic", "orders:0", "--to-earliest")
    assert shown.stdout.splitlines()[1].split() == ["orders", "0", "6", "0", "-6"]
    assert "add --execute" in shown.stderr
    assert offsets(billing, "billing")[0] == 6
    done = billing.run("groups", "reset-offsets", "billing", "--topic", "orders:0", "--to-earliest", "--execute")
    assert done.stdout == shown.stdout and "was reset" in done.stderr
    assert offsets(billing, "billing")[0] == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-latest"], 6),
        (["--to-current"], 6),
        (["--to-offset", "4"], 4),
        (["--to-offset", "99"], 6),
        (["--shift-by", "-2"], 4),
        (["--shift-by", "-20"], 0),
        (["--by-duration", "PT1H"], 0),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
    ],
)
def test_reset_moves_to_every_kind_of_place(billing: Any, options: list[str], expected: int) -> None:
    billing.run("groups", "reset-offsets", "-G", "billing", "-t", "orders:0", *options, "--execute")
    assert offsets(billing, "billing")[0] == expected


def test_a_reset_that_was_cut_short_by_the_log_warns(billing: Any) -> None:
    result = billing.run("groups", "reset-offsets", "billing", "-t", "orders:0", "--shift-by", "-20")
    assert "Warning: orders 0: -14 is before the log's start" in result.stderr


def test_a_group_that_nobody_knows_is_made_on_demand_only(billing: Any) -> None:
    reset = ("groups", "reset-offsets", "biling", "--topic", "orders:1", "--to-latest")
    for options in ((), ("--execute",)):
        refused = billing.run(*reset, *options, expect=1).stderr
        assert "There is no group 'biling'.\n  Did you mean 'billing'?\n  To make the group, add --create." in refused
    assert "Nothing was changed" in billing.run(*reset, "--create").stderr
    assert [one["group"] for one in billing.json("groups", "list")] == ["billing"]
    billing.run(*reset, "--create", "--execute")
    assert offsets(billing, "biling") == {1: 0}
    refused = billing.run("groups", "reset-offsets", "o", "-t", "orders", "--shift-by", "1", "--create", expect=1)
    assert "nothing is committed that could be shifted" in refused.stderr


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("n", False), ("", False)])
def test_whoever_is_at_a_terminal_is_asked_before_a_group_is_made(
    billing: Any, monkeypatch: pytest.MonkeyPatch, answer: str, made: bool
) -> None:
    monkeypatch.setattr(group_offsets, "may_ask", lambda: True)
    reset = ["groups", "reset-offsets", "biling", "--topic", "orders:1", "--to-latest", "--execute"]
    done = billing.run(*reset, given=f"{answer}\n", expect=0 if made else 1)
    assert "Did you mean 'billing'?\nMake the group biling with these offsets? [y/N]: " in done.stderr
    assert ("biling" in [one["group"] for one in billing.json("groups", "list")]) == made


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--topic", "nope", "--to-latest"], "There is no topic 'nope'."),
        (["--topic", "orders:1,7", "--to-latest"], "has no partition 7: it has 0 to 2."),
        (["--all-topics", "--to-latest"], "has committed nothing."),
    ],
)
def test_resets_of_what_is_not_there_are_refused(ottla: Any, options: list[str], complaint: str) -> None:
    assert complaint in ottla.run("groups", "reset-offsets", "fresh", "--create", *options, expect=1).stderr


def test_delete_offsets_forgets_partitions(billing: Any) -> None:
    text = billing.run("groups", "delete-offsets", "billing", "--topic", "orders:0").stdout
    assert text == "Deleted the offset of orders 0, which was 6.\n"
    assert offsets(billing, "billing") == {1: 0, 2: 0}
    assert "committed nothing there" in billing.run(
        "groups", "delete-offsets", "billing", "--topic", "orders:0", expect=1
    ).stderr  # fmt: skip


def test_delete_offsets_of_what_members_read_is_refused_in_a_line(billing: Any, join: Join) -> None:
    assert len(offsets(billing, "billing")) > 1
    with join("billing", "one"):
        said = billing.run("groups", "delete-offsets", "billing", "--topic", "orders", expect=1).stderr
    assert said.count("stop the members that subscribe to the topic first") == said.count("Error: ") == 1


def test_without_a_broker_every_command_says_how_to_start_one(ottla: Any) -> None:
    for words in (["topics", "list"], ["groups", "list"], ["consume", "orders"]):
        refused = ottla.run(*words, "--bootstrap-server", "127.0.0.1:1", expect=1)
        assert "No broker answers at 127.0.0.1:1 (connection refused)." in refused.stderr
        assert "ottla serve" in refused.stderr
    assert "not 'host:port'" in ottla.run("topics", "list", "-b", "127.0.0.1:0", expect=2).stderr


@pytest.mark.parametrize(
    "words", [[], ["topics"], ["groups"], ["groups", "reset-offsets"], ["produce"], ["consume"], ["serve"]]
)
def test_help_is_whole(words: list[str]) -> None:
    text = HERE.run(*words, "--help").stdout
    assert text.startswith("Usage: ottla") and "..." not in text.split("Commands:")[-1]
    assert "\\b" not in text and "\b" not in text
    assert "ottla consume orders:0,3 --offset -10 --exit --format '%p/%o %k: %s\\n'\n" in text or words != ["consume"]


@pytest.mark.parametrize("words", [[], ["topics"], ["groups"], ["configs"]])
def test_without_a_command_help_stands_in_lines(words: list[str]) -> None:
    asked, left_out = HERE.run(*words, "--help"), HERE.run(*words, expect=None)  # before click 8.2 it is 0
    assert left_out.output.strip() == asked.output.strip()


def test_help_loads_neither_clients_nor_tables() -> None:
    script = (
        "import sys; from ottla.cli.main import command\n"
        "try: command(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'asyncio', 'rich', 'structlog', 'construct', 'ottla.clients', 'ottla.broker', 'ottla.protocol'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    assert "reset their offsets" in run(sys.executable, "-c", script)
