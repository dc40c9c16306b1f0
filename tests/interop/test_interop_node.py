"""What the JavaScript suites and Spark's share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.confluent_javascript import suite as confluent_javascript
from tests.interop.programs import restarts
from tests.interop.suite import NotAvailable, Place, Run
from tests.support.waiting import wait_for


class Restarted:
    """Stands for the broker's process."""

    def __init__(self, log: str = "", error: str = "") -> None:
        self.log, self.error, self.calls = log, error, list[str]()

    def log_text(self) -> str:
        return self.log

    def kill(self) -> None:
        self.calls.append("kill")

    def restart(self) -> None:
        self.calls.append("restart")
        if self.error:
            raise RuntimeError(self.error)


def run_of(broker: Any, scratch: Path) -> Run:
    return Run(Place(scratch, scratch), "127.0.0.1:1", broker, scratch, print)


def answered(directory: str, number: int) -> str:
    (Path(directory) / f"wanted-{number}").touch()
    done = Path(directory) / f"done-{number}"
    wait_for(done.exists, "the answer")
    return done.read_text("utf-8")


def test_a_program_has_the_broker_restarted(tmp_path: Path) -> None:
    broker = Restarted()
    with restarts(run_of(broker, tmp_path)) as directory:
        assert answered(directory, 1) == ""
        assert answered(directory, 2) == ""
    assert broker.calls == ["kill", "restart"] * 2


@pytest.mark.parametrize(
    ("broker", "says"),
    [(Restarted(error="the port is taken"), "the port is taken"), (Restarted(log="a line\nTraceback (most"), "Traceb")],
)
def test_a_program_is_told_what_went_wrong_with_the_broker(broker: Restarted, says: str, tmp_path: Path) -> None:
    with restarts(run_of(broker, tmp_path)) as directory:
        assert answered(directory, 1).startswith(says)


def test_a_broker_from_outside_is_not_restarted(tmp_path: Path) -> None:
    with restarts(run_of(None, tmp_path)) as directory:
        assert directory == ""


def test_headers_that_cannot_be_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_javascript, "HEADERS", {"there/is/no/such.h": "libnone-dev"})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NotAvailable, match="libnone-dev"):
        confluent_javascript._install_headers()
