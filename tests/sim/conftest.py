"""The number of seeds: ``--sim-seeds N``, or ``OTTLA_SIM_SEEDS``; of clusters ``--cluster-seeds``."""

from __future__ import annotations

import os

import pytest

DEFAULT_LONG = 2_000
DEFAULT_LONG_CLUSTER = 800


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seeds", type=int, default=None, help="seeds of the long simulation")
    parser.addoption("--cluster-seeds", type=int, default=None, help="seeds of the long simulation of clusters")


@pytest.fixture(scope="session")
def long_seeds(pytestconfig: pytest.Config) -> int:
    """The number of seeds of the long run."""
    given = pytestconfig.getoption("--sim-seeds", default=None)
    return int(os.environ.get("OTTLA_SIM_SEEDS", DEFAULT_LONG)) if given is None else int(given)


@pytest.fixture(scope="session")
def long_cluster_seeds(pytestconfig: pytest.Config) -> int:
    """The same for clusters."""
    given = pytestconfig.getoption("--cluster-seeds", default=None)
    return int(os.environ.get("OTTLA_CLUSTER_SEEDS", DEFAULT_LONG_CLUSTER)) if given is None else int(given)
