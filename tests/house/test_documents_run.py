"""Every command and snippet of the README, the tutorial and the pages on testing and the client does what is said."""

from __future__ import annotations

import re
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.house.fences import Fence, Reader, fences, lacking, missing_tools, shown
from tests.house.sources import ROOT
from tests.support.processes import Child
from tests.support.waiting import wait_for

README = fences(ROOT / "README.md")
TUTORIAL = fences(ROOT / "docs/tutorial.md")
ELSEWHERE = ("make ", "pip ", "python -m venv ")
"""Installing is tried with the distributions (test_distributions.py), and `make demo` is part of CI."""


def containing(part: str, document: str) -> Fence:
    (found,) = [one for one in fences(ROOT / document) if part in one.text]
    return found


def await_line(pattern: str, snippet: Child, printed: list[str]) -> None:
    """Wait until a snippet prints a line that matches; one that ends before has failed."""

    def is_there() -> bool:
        ended = snippet.wait(0)
        found = any(re.search(pattern, line) for line in printed)
        assert found or not ended, "".join(printed)
        return found

    wait_for(is_there, pattern, show=lambda: "".join(printed))


@pytest.mark.e2e
def test_the_readme(tmp_path: Path) -> None:
    """The first five minutes, with the broker of the first block."""
    without = (*ELSEWHERE, *missing_tools("kcat"))
    with Reader(tmp_path) as reader:
        begin, five_minutes = (one for one in README if one.language == "console" and "$ ottla" in one.text)
        install, serve, why = begin.commands()
        assert install[0].startswith("pip install") and why[0] == "ottla why payments"
        reader.say(*serve)
        with urllib.request.urlopen(f"http://127.0.0.1:{reader.http_port}/", timeout=10) as console:
            assert console.status == 200
        reader.follow(five_minutes, without)
        rows = [line.split() for line in reader.say("ottla groups describe billing --offsets")]
        lags = {row[1]: row[4] for row in rows if row[:1] == ["orders"]}
        assert sorted(lags) == ["0", "1", "2"] and "0" not in lags.values()  # each partition has got records
        reader.say("ottla why payments", code=1)  # a reader's own group, which is not there


@pytest.mark.e2e
@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    """Half a minute, most of it the session of a member that was killed."""
    with Reader(tmp_path) as reader:
        for fence in TUTORIAL:
            reader.follow(fence, ELSEWHERE)
        assert "Stopped" in (tmp_path / "broker.log").read_text(encoding="utf-8")
        assert "<html" in (tmp_path / "billing.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", ["README.md", "docs/testing.md"])
def test_a_broker_in_a_test(document: str) -> None:
    run(containing("def test_my_consumer():", document).text, "test_my_consumer")


def test_a_fixture(ottla_broker_factory: object) -> None:
    run(containing("def test_with_a_fixture", "docs/testing.md").text, "test_with_a_fixture", ottla_broker_factory)


@pytest.mark.e2e
def test_a_broker_that_is_killed(tmp_path: Path) -> None:
    text = containing("def test_my_consumer_survives", "docs/testing.md").text
    assert run(text, "test_my_consumer_survives", tmp_path) == 2


def run(text: str, name: str, *arguments: object) -> int:
    """Run a test that a document shows. Returns how often it ran the reader's code, which finds a broker each time."""
    calls: list[str] = []

    def run_my_code(bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.partition(":")
        socket.create_connection((host, int(port)), 5).close()
        calls.append(bootstrap_servers)

    names = {"run_my_code": run_my_code}
    exec(compile(text, name, "exec"), names)
    names[name](*arguments)
    assert calls
    return len(calls)


@pytest.mark.e2e
def test_the_client(tmp_path: Path) -> None:
    """The first snippet writes and reads; the second makes prices of it, exactly once."""
    snippets = [one for one in fences(ROOT / "docs/client.md") if "from ottla.clients import" in one.text]
    first, second = snippets
    with Reader(tmp_path) as reader:
        reader.say("ottla serve --ephemeral --set group.initial.rebalance.delay.ms=0 &")
        printed: list[str] = []
        running = [reader.snippet(first.text, printed.append)]
        try:
            await_line(r"^orders \d 0 b'one'$", running[0], printed)
            reader.say("ottla topics create prices --partitions 1")
            running.append(reader.snippet(second.text, printed.append))
            reader.say("ottla consume prices --from-beginning --max-messages 1", ["price of one"])
        finally:
            for process in running:
                process.kill()


def test_what_is_shown_is_looked_for() -> None:
    assert re.fullmatch(shown("ben  joined; … after 78 ms."), "ben joined; generation 2 was Stable after 1,078 ms.")
    assert not re.search(shown("6 partitions"), "six partitions")
    output = ["one 1", "two 2", "three 3"]
    assert lacking(["one 7", "…", "three 9"], output) == []
    assert lacking(["three 3", "one 1"], output) == ["one 1"]
    assert lacking(["four"], output) == ["four"]


def test_commands_are_read() -> None:
    fence = Fence("console", "$ a b    # comment\nout 1\n\n$ c & D=$!\n   # more of a comment\n")
    assert fence.commands() == [("a b", ["out 1"]), ("c & D=$!", [])]
