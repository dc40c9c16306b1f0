"""`ottla help`, what the shell completes, and the exit codes that docs/command-line.md lists."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from ottla.cli.help import topics
from ottla.cli.main import COMMANDS, command
from tests.cli.commands import HERE, Ottla
from tests.cli.test_greeting import server
from tests.support import processes

run = HERE.run
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()


# -- help


def test_every_page_of_the_documentation_is_a_topic() -> None:
    listed = run("help").stdout
    for page in (ROOT / "docs").glob("*.md"):
        assert f"\n{page.stem} " in listed
    for name in ("quickstart", "settings", "why", "exit-codes", "completion"):
        assert f"\n{name} " in listed


@pytest.mark.parametrize("name", ["kip-848", "KIP848"])
def test_a_kip_is_told_of_in_pages(name: str) -> None:
    said = run("help", name, expect=2).stderr
    assert "it is told of in: " in said and "ottla help consumer-protocol" in said


def test_a_topic_is_printed_as_it_is_in_a_pipe() -> None:
    assert run("help", "why").stdout == (ROOT / "docs" / "why.md").read_text() + "\n"
    assert run("help", "exit-codes").stdout.startswith("# Exit codes\n\n| code |")
    assert run("help", "Exit", "codes").stdout == run("help", "exit-codes").stdout
    assert "<!--" not in run("help", "settings").stdout


def test_on_a_terminal_it_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("ottla.cli.output.on_terminal", lambda: True)
    monkeypatch.setattr("click.echo_via_pager", lambda text, color: shown.append(text))
    run("help", "completion")
    assert "_OTTLA_COMPLETE=bash_source" in shown[0] and "```" not in shown[0]
    run("help", "settings")
    assert "| ---" not in shown[1] and "…" not in re.sub(r"(ssl|sasl|OTTLA_|KAFKA_)\S*…", "", shown[1])


def test_the_help_of_a_command_is_found_too() -> None:
    for words in (["doctor"], ["groups"], ["groups", "wait"]):
        assert run("help", *words).stdout.strip() == run(*words, "--help").stdout.strip() != ""


def test_a_setting_has_its_row() -> None:
    said = run("help", "group.max.session.timeout.ms").stdout
    assert said.startswith("# group.max.session.timeout.ms\n\nThe longest") and "The default is `1800000`." in said
    said = run("help", "consumer.session.timeout.ms").stdout
    assert said.startswith("# consumer.session.timeout.ms\n\nHow long a member") and "default is `45000`." in said


@pytest.mark.parametrize("cause", ["left-poll-timeout", "member-joined", "unknown"])
def test_a_cause_has_its_section(cause: str) -> None:
    said = run("help", cause).stdout
    assert said.startswith(f"# {cause}\n") and "- *What to do:*" in said and "\n#" not in said


def test_a_section_of_one_page_is_found_by_its_name_alone() -> None:
    said = run("help", "audit").stdout
    assert said.startswith("# Audit\n\nWho did what to what") and "\n#" not in said


def test_a_command_of_one_command_is_found_by_its_name_alone() -> None:
    assert run("help", "reset-offsets").stdout == run("help", "groups", "reset-offsets").stdout != ""
    several = run("help", "list", expect=2)
    assert "name one of: ottla help topics list, ottla help groups list," in " ".join(several.stderr.split())


def test_what_there_is_no_help_on() -> None:
    assert "did you mean 'exit-codes'?" in run("help", "exitcode", expect=2).stderr
    assert "`ottla help` says what there is." in run("help", "xyzzy", expect=2).stderr


@pytest.mark.slow
def test_the_quickstart_runs(ottla: Any) -> None:
    """But its first command, in whose place there is a broker."""
    script = topics()["quickstart"].text.partition("```console\n")[2].partition("```")[0]
    serve, *lines = [line.removeprefix("$ ") for line in script.splitlines()]
    assert serve == "ottla serve --ephemeral &"
    lines[0] = lines[0].replace("create orders", "create orders --if-not-exists")
    shell = "ottla() { " + sys.executable + ' -m ottla.cli "$@"; }; set -e -o pipefail; ' + "\n".join(lines)
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": ottla.bootstrap}
    printed = processes.run("bash", "-c", shell, env=environment)
    assert "\n1000\n" in printed and "billing" in printed


# -- completion


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(command, {}, "ottla", "_").get_completions(before, incomplete)]


def test_commands_and_options_are_completed() -> None:
    assert completed("t") == [name for name in COMMANDS if name.startswith("t")]
    assert completed("groups", "d") == ["delete", "delete-offsets", "describe"]
    assert "--timeout" in completed("groups", "wait", "--t")
    assert completed("help", "exi") == ["exit-codes"]


def test_commands_are_completed_without_importing_them() -> None:
    script = (
        "import sys; from click.shell_completion import ShellComplete; from ottla.cli.main import command\n"
        "assert len(ShellComplete(command, {}, 'ottla', '_').get_completions([], '')) > 15\n"
        "assert not [name for name in sys.modules if name.startswith('ottla.cli.') and name != 'ottla.cli.main']"
    )
    processes.run(sys.executable, "-c", script)


GROUP = ("groups describe", "groups delete", "groups wait", "groups watch", "groups reset-offsets", "why", "timeline",
         "groups delete-offsets", "consume orders --group", "groups describe --group", "why -G",
         "offsets decode -G", "configs alter --entity-type groups")  # fmt: skip
TOPIC = ("topics describe", "topics delete", "topics grow", "consume", "produce", "produce -t", "configs describe",
         "configs alter", "transactions abort", "transactions find-hanging", "transactions describe-producers",
         "groups reset-offsets billing --topic", "groups delete-offsets billing -t", "topics describe -t")  # fmt: skip


def test_groups_and_topics_are_completed(ottla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("billing", "bad one"):
        ottla.make_group(name)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", ottla.bootstrap)
    for words in GROUP:
        assert completed(*words.split(), "b") == ["billing"], words
    for words in TOPIC:
        assert completed(*words.split(), "o") == ["orders"], words
    assert completed("topics", "describe", "__c") == ["__consumer_offsets"]
    assert completed("topics", "create", "o") == []
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS")
    assert completed("topics", "describe", "-b", ottla.bootstrap, "o") == ["orders"]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and says nothing."""
    over = threading.Event()
    with server(lambda connection: over.wait(30) and None) as port:
        yield f"127.0.0.1:{port}"
        over.set()


def test_a_broker_that_does_not_answer_completes_nothing_and_is_not_waited_for(
    silent: str, unused_tcp_port: int
) -> None:
    for address in (silent, f"127.0.0.1:{unused_tcp_port}"):
        asked = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": "ottla why b", "COMP_CWORD": "2"}
        with Ottla(address).spawn(env=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=20)
        assert (out.strip(), err) == (b"", b"")


# -- exit codes

CODES = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
ENDS = {"sys.exit", "os._exit", "SystemExit", "click.exceptions.Exit", "ctx.exit", "context.exit"}


def codes_in(module: ast.Module) -> Iterator[int]:
    """The numbers with which a module ends the process."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ENDS:
            for argument in node.args:
                yield from values(argument)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("exit_code", "INTERRUPTED"):
            yield ast.literal_eval(node.value)


def values(node: ast.expr) -> Iterator[int]:
    """The values of an expression, as far as they can be known without running the module."""
    if isinstance(node, ast.IfExp):
        yield from values(node.body)
        yield from values(node.orelse)
    elif not any(isinstance(one, ast.Name) for one in ast.walk(node)):
        yield eval(ast.unparse(node))


def test_every_exit_code_is_in_the_table() -> None:
    used = {code for path in (ROOT / "cli").glob("*.py") for code in codes_in(ast.parse(path.read_text()))}
    assert {0, 1, 70, 130} <= used
    assert used | {2, 143} == CODES  # click ends with 2; 128 and the number of SIGTERM is 143


def test_codes_are_found() -> None:
    found = codes_in(ast.parse("sys.exit(5)\nos._exit(128 + 9)\nraise SystemExit(1 if bad else 0)\nexit_code = 3"))
    assert set(found) == {5, 137, 1, 0, 3}


def test_commands_end_as_the_table_says(ottla: Any) -> None:
    run("--version")
    run("groups", "--nonsense", expect=2)
    ottla.run("topics", "describe", "nope", expect=1)
    ottla.run("groups", "wait", "nope", "--timeout", "0", "--format", "json", expect=1)
    run("serve", "--set", "num.partitions=none", expect=2)
