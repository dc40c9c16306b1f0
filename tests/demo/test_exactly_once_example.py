"""The example of exactly-once runs by itself and comes to the right verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_the_example() -> None:
    command = [sys.executable, "-m", "examples.exactly_once"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3000 bills for 3000 orders: 0 missing, 0 billed twice.\nExactly once." in done.stdout
