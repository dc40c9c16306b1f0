"""The scripts that `docker compose up` runs, as processes without containers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.processes import ROOT, Child

SCRIPTS = ROOT / "examples" / "compose"
TIMEOUT_S = 60


class Script(Child):
    """A running script whose output can be waited for."""

    def __init__(self, name: str, bootstrap: str, **environment: str) -> None:
        self.text = ""
        self._news = threading.Condition()
        command = [sys.executable, "-u", str(SCRIPTS / name)]
        env = os.environ | environment | {"OTTLA_BOOTSTRAP_SERVERS": bootstrap}
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
