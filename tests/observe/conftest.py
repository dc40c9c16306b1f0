"""The flag that writes the texts of stories and scenes instead of comparing them."""

from __future__ import annotations

import pytest


@pytest.fixture
def record(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--record-stories", default=False))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-stories", action="store_true", help="write the texts of stories; review the diff")
