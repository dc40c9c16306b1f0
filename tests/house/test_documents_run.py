"""Every command and snippet of the README, the tutorial and the pages on testing and the client does what is said."""

from __future__ import annotations

import re
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
ON_TESTING = [f"docs/{name}.md" for name in ("testing", "testing-pytest", "faults", "time", "failures", "workbench")]
MY_FILES = ("billing.py", "running.py")
"""The service of docs/testing.md, and what runs it."""
START = "start_my_service"
MY_SERVICE = """
from atexit import register
from threading import Event, Thread

from billing import bill_orders


def start_my_service(bootstrap_servers):
    bills, stop = [], Event()
    config = {"bootstrap.servers": bootstrap_servers}
    service = Thread(target=bill_orders, args=(config, bills, stop), daemon=True)
    service.start()
    register(service.join, 10)
    register(stop.set)
    return bills
"""
"""What blocks call that begin with the reader's own service; it gives a list of what the service has read."""
ONLY_OTTLA = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "ottla.testing.plugin"}
"""As in an environment that has no other plugin: those of this one take a second to load."""


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


@pytest.mark.e2e
@pytest.mark.skipif(bool(missing_tools("openssl")), reason="there is no openssl")
def test_the_first_minutes_of_security(tmp_path: Path) -> None:
    """A broker with TLS, passwords and rules; the files of other clients, further down, are to be read."""
    begin = [one for one in fences(ROOT / "docs/security.md") if one.language == "console" or one.file_name]
    with Reader(tmp_path) as reader:
        reader.say("unset OTTLA_LISTENERS OTTLA_BOOTSTRAP_SERVERS")
        for fence in begin:
            reader.follow(fence)
        secrets = [path.read_text(encoding="utf-8").strip() for path in tmp_path.glob("*.password")]
        told = [(tmp_path / name).read_text(encoding="utf-8") for name in ("broker.log", "audit.jsonl")]
        assert len(secrets) == 3 and not any(secret in text for secret in secrets for text in told)


@pytest.mark.e2e
@pytest.mark.parametrize("page", ["README.md", *ON_TESTING])
def test_pages_on_testing(page: str, tmp_path: Path) -> None:
    """All its Python is saved, and each test in it is run: by the commands of the page, or else at the end."""
    without, left = (*ELSEWHERE, *missing_tools("curl")), []
    with Reader(tmp_path, **ONLY_OTTLA) as reader:
        (tmp_path / "my_service.py").write_text(MY_SERVICE, encoding="utf-8")
        for fence in fences(ROOT / "docs/testing.md"):
            if fence.file_name in MY_FILES:
                reader.follow(fence)  # other pages build on them
        for number, fence in enumerate(fences(ROOT / page)):
            if page == "README.md" and fence.language != "python":
                continue  # test_the_readme has these
            reader.follow(fence, without)
            name = fence.file_name
            if fence.language == "python" and name is None:
                assert fence.has_tests, f"make a test of this, or name its file: {fence.text}"
                name = f"test_{number}.py"
                begin = f"from my_service import {START}\n" * (START in fence.text)
                (tmp_path / name).write_text(begin + fence.text, encoding="utf-8")
            if name is not None and fence.has_tests:
                left.append(name)
            run = [command for command, _ in fence.commands() if command.startswith("pytest")]
            left = [name for name in left if not any(command == "pytest" or name in command for command in run)]
        if left:
            reader.say(f"pytest {' '.join(left)}")


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


@pytest.mark.e2e
def test_settings_of_groups(tmp_path: Path) -> None:
    """A broker for fast tests, and both ways to set something for a group."""
    page = fences(ROOT / "docs/consumer-protocol.md")
    (serve,) = [one for one in page if one.text.startswith("$ ottla serve")]
    (configs,) = [one for one in page if one.text.startswith("$ ottla configs alter")]
    (snippet,) = [one for one in page if "AdminClient" in one.text]
    with Reader(tmp_path) as reader:
        reader.say(f"{serve.commands()[0][0]} &")
        reader.follow(configs, ("kafka-configs.sh",))
        reader.say("ottla configs alter billing --entity-type groups --delete-config consumer.session.timeout.ms")
        (tmp_path / "snippet.py").write_text(reader.here(snippet.text), encoding="utf-8")
        reader.say("python snippet.py")
        reader.say("ottla configs describe billing --entity-type groups", ["consumer.session.timeout.ms 50000 group"])


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


def test_files_are_changed(tmp_path: Path) -> None:
    file = tmp_path / "billing.py"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    reader = Reader(tmp_path)
    reader.change("--- billing.py\n-one\n+1\n+1.5\n two\n-three\n+3\n")
    assert file.read_text(encoding="utf-8") == "1\n1.5\ntwo\n3\n"
    with pytest.raises(AssertionError):
        reader.change("--- billing.py\n-four\n+4\n")


def test_tests_are_recognised() -> None:
    assert Fence("python", "class TestIt:\n    async def test_one(self):\n        pass\n").has_tests
    assert not Fence("python", "# def test_one\nbroker.clock.advance(days=7)\n").has_tests
