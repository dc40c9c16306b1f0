"""The demo itself, smaller and with shorter sessions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import python, run


@pytest.mark.e2e
def test_the_quick_demo_passes_and_says_what_happened(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    text = python("examples.demo", "--quick", "--lines", "15000", "--directory", directory, timeout_s=150)
    (count,) = re.findall(r"^lines in +([\d,]+) ", text, re.MULTILINE)
    assert int(count.replace(",", "")) >= 15_000
    assert re.search(rf"^lines seen +{count} ", text, re.MULTILINE)
    assert re.search(r"^lost +0$", text, re.MULTILINE)
    assert "12 of 12  partitions, at their log ends" in text
    for cause in ("ottla-2 joined late", "confluent-2 left cleanly", "ottla-1 was killed"):
        assert re.search(rf"^ +\d+ +[345]  .*{cause}", text, re.MULTILINE), cause
    for client in ("ottla ", "confluent-kafka ", "aiokafka "):
        assert client in text


@pytest.mark.e2e
@pytest.mark.slow
def test_the_secure_demo_refuses_those_who_may_not_and_writes_it_down(tmp_path: Path) -> None:
    """Half a minute, as the commands that an operator types are processes, too."""
    directory = tmp_path / "run"
    text = python(
        "examples.demo", "--secure", "--quick", "--lines", "15000", "--directory", str(directory), timeout_s=150
    )
    assert re.search(r"^lost +0$", text, re.MULTILINE)
    assert re.search(r"^Passed: .* 5 clients that may not were refused\.$", text, re.MULTILINE)
    assert "confluent-1:3" in text and "aiokafka-1:3" in text, "those who may have done their work"
    audit = (directory / "audit.jsonl").read_text(encoding="utf-8")
    for password in (directory / "security").glob("*.password"):
        secret = password.read_text(encoding="utf-8")
        logs = [path.read_text(encoding="utf-8") for path in (directory / "logs").iterdir()]
        assert not any(secret in one for one in (text, audit, *logs)), password.name


@pytest.mark.e2e
def test_a_demo_that_cannot_start_its_broker_fails_and_says_where_to_look(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ["-m", "--lines", "100", "--directory", str(directory)]
    blocked = (
        "import runpy, sys; from examples.demo import play; play.TOPIC = 'not a topic';"
        f"sys.argv = {arguments!r}; runpy.run_module('examples.demo', run_name='__main__')"
    )
    text = run(sys.executable, "-c", blocked, code=1)
    assert "FAILED after" in text and str(directory / "logs" / "broker.log") in text
    assert "Passed" not in text
