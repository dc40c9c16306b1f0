"""The demo of several nodes itself, with nodes of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.processes import python


@pytest.mark.e2e
def test_a_group_goes_on_when_its_coordinator_is_killed(tmp_path: Path) -> None:
    text = python("examples.nodes", "--quick", "--lines", "20000", "--directory", str(tmp_path / "run"), timeout_s=240)
    assert re.search(r"^lost +0$", text, re.MULTILINE), text
    assert text.count("asked for the group: NOT_COORDINATOR") == 2
    assert "FindCoordinator → COORDINATOR_NOT_AVAILABLE" in text
    for what in (r"node \d killed \(SIGKILL\)", r"node \d restarted \(SIGTERM\)"):
        assert re.search(rf"^{what} +[\d.]+ s +\d+ goes on$", text, re.MULTILINE), text
    assert "Passed: " in text
