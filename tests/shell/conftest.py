"""A clock and a log by hand, for everything around a broker's connections."""

from __future__ import annotations

import pytest

from tests.shell.host import Clock, Log


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log() -> Log:
    return Log()
