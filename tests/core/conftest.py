"""The flag that writes scenario outcomes instead of comparing them."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-scenarios",
        action="store_true",
        help="write the outcomes of scenarios into their files; review the diff",
    )
