"""The scripts that `docker compose up` runs, as processes without containers."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.fences import Reader, missing_tools
from tests.support.processes import ROOT, Child

SCRIPTS = ROOT / "examples" / "compose"
TIMEOUT_S = 60


class Script(Child):
    """A running script whose output can be waited for."""

    def __init__(self, name: str, bootstrap: str, **environment: str) -> None:
        self.text = ""
        self._news = threading.Condition()
        command = [sys.executable, "-u", str(SCRIPTS / name)]
        env = os.environ | {"OTTLA_BOOTSTRAP_SERVERS": bootstrap} | environment
        super().__init__(command, self._heard, subprocess.STDOUT, env=env)

    def _heard(self, line: str) -> None:
        with self._news:
            self.text += line
            self._news.notify_all()

    def wait_for(self, pattern: str) -> str:
        """The first group of the pattern, once it was printed."""
        with self._news:
            assert self._news.wait_for(lambda: re.search(pattern, self.text), TIMEOUT_S), self.text
            found = re.search(pattern, self.text)
        assert found is not None
        return found[1]

    def stop(self) -> int:
        self.process.terminate()
        assert self.wait(TIMEOUT_S), self.text
        return self.process.returncode


@pytest.fixture
def start(ottla_broker_factory: Callable[..., Any]) -> Iterator[Callable[..., Script]]:
    broker = ottla_broker_factory(topics={"lines": 4})
    with ExitStack() as stack:

        def run(name: str, **environment: str) -> Script:
            script = Script(name, broker.bootstrap_servers, **environment)
            stack.callback(script.stop)
            return script

        yield run


@pytest.mark.e2e
def test_consumers_share_the_partitions_and_print_rebalances(start: Callable[..., Script]) -> None:
    producer = start("producer.py", LINES_PER_SECOND="200")
    first = start("consumer.py", REPORT_EVERY_S="1")
    assert first.wait_for(r"now mine: (.+)") == "0 1 2 3"
    assert int(first.wait_for(r"([1-9]\d*) lines a second from 4 partitions; last \w+: ")) > 0
    second = start("consumer.py")
    # Only what moves is given up: the group is cooperative.
    moved = first.wait_for(r"gave up partitions (.+)").split()
    assert len(moved) == 2
    assert second.wait_for(r"now mine: (\d.*)").split() == moved
    assert second.stop() == 0
    assert second.text.endswith("left the group\n")
    assert first.wait_for(r"got partitions \d \d; now mine: (.+)") == "0 1 2 3"
    assert producer.stop() == 0
    assert int(producer.wait_for(r"stopped: (\d+) lines acknowledged$")) > 0
    assert first.stop() == 0


@pytest.mark.e2e
@pytest.mark.skipif(bool(missing_tools("openssl")), reason="there is no openssl")
def test_the_secure_profile_lets_in_those_who_may(tmp_path: Path) -> None:
    """What its containers do, without containers, and with a directory in the place of the volume."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    with Reader(tmp_path) as reader:

        def environment(service: str) -> dict[str, str]:
            found: dict[str, str] = services[service]["environment"]
            here = {"/secrets": str(tmp_path), "0.0.0.0:9092": reader.bootstrap, "secure-broker:9092": reader.bootstrap}
            return {key: _replaced(value, here) for key, value in found.items()}

        def as_in(service: str) -> str:
            return "export " + " ".join(f"{key}={shlex.quote(text)}" for key, text in environment(service).items())

        reader.say(f"sh {SCRIPTS / 'secure.sh'} {tmp_path}")
        users = (tmp_path / "users").read_bytes()
        reader.say(f"sh {SCRIPTS / 'secure.sh'} {tmp_path}")
        assert (tmp_path / "users").read_bytes() == users, "a second start makes nothing anew"
        assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.p*"))
        reader.say(as_in("secure-broker"))
        command = " ".join(services["secure-broker"]["command"]).replace("/secrets", str(tmp_path))
        reader.say(f"ottla {command} --ephemeral 2> broker.log &")
        reader.say(as_in("secure-rules"))
        reader.say(services["secure-rules"]["command"][0])
        scripts = [Script(f"{name}.py", "", **environment(f"secure-{name}")) for name in ("producer", "consumer")]
        try:
            scripts[1].wait_for(r"([1-9]\d*) lines a second from 12 partitions")
            reader.say(as_in("secure-guest"))
            refused = ["Error: Describe topic 'lines': topic authorization failed; ask for access to the topic."]
            reader.say(f"ottla {' '.join(services['secure-guest']['command'])}", refused, code=1)
        finally:
            codes = [script.stop() for script in scripts]
        assert codes == [0, 0]


def _replaced(text: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        text = text.replace(old, new)
    return text


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["producer.py", "consumer.py"])
def test_a_script_that_starts_before_the_broker_waits_with_one_line(name: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        script = Script(name, f"127.0.0.1:{closed.getsockname()[1]}")
        try:
            script.wait_for("(trying again for up to 60 s)")
        finally:
            code = script.stop()
    assert code == 0
    said, last = script.text.splitlines()
    assert "no broker answers: cannot connect to 127.0.0.1:" in said
    assert last.startswith("stopped before it ")
