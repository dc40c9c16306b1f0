"""The migration demo itself, against a broker of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.processes import python


@pytest.mark.e2e
@pytest.mark.slow
def test_a_group_changes_its_protocol_there_and_back(tmp_path: Path) -> None:
    text = python("examples.migrate", "--directory", str(tmp_path / "run"), timeout_s=240)
    for what in ("lost", "seen twice", "doubled owners"):
        assert re.search(rf"^{what} +0$", text, re.MULTILINE), text
    assert "a consumer group with 1 classic and 3 consumer members" in text
    for part, kind in (("rolling, to consumer", "consumer"), ("rolling, back to classic", "classic")):
        assert re.search(rf"^{part} +[\d.]+ s +{kind} ", text, re.MULTILINE), text
    assert "Passed: " in text
