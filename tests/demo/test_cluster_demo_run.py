"""The demo of nodes over PostgreSQL itself, with servers of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from examples.cluster.postgresql import programs
from tests.support.processes import python, run


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it")
def test_a_group_goes_on_whatever_becomes_of_nodes_and_database(tmp_path: Path) -> None:
    """Half a minute: a node stands still for eight seconds."""
    text = python(
        "examples.cluster", "--quick", "--lines", "20000", "--directory", str(tmp_path / "run"), timeout_s=240
    )
    for what in ("lost", "doubled"):
        assert re.search(rf"^{what} +0( |$)", text, re.MULTILINE), text
    assert "12 of 12  partitions, at their log ends" in text
    for what in (
        r"node \d killed \(SIGKILL\)",
        r"node \d stood still for 8 s \(SIGSTOP\)",
        "database crashed and restarted",
        "database gone, standby promoted",
    ):
        assert re.search(rf"^{what} +[\d.]+ s +[\d.]+ s +1 goes on$", text, re.MULTILINE), text
    assert "Passed: " in text


@pytest.mark.e2e
def test_without_postgresql_it_says_how_to_get_it() -> None:
    without = (
        "import sys; from examples.cluster import __main__ as demo;"
        "demo.programs = demo.install = lambda: None; sys.exit(demo.main())"
    )
    assert run(sys.executable, "-c", without).startswith("skipped: there is no PostgreSQL. Install it")
