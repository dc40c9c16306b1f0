"""A few of the faults that ``make chaos-cluster`` plays at length, and that a run of them finds what it must.

CLUSTER_ROUNDS says how many there are.
"""

from __future__ import annotations

import os
import random

import pytest

from examples.cluster.postgresql import programs

pytest.importorskip("asyncpg", reason="asyncpg is not installed: pip install 'ottla[cluster]'")

from tests.chaos.postgres.run import run

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "12"))
SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))
LOADS = ("confluent", "ottla")


def test_nothing_acknowledged_is_lost_whatever_happens() -> None:
    run({"load": ROUNDS - ROUNDS // 3, "exactly-once": ROUNDS // 3}, SEED, LOADS)


def test_half_an_append_that_nobody_ends_is_found() -> None:
    with pytest.raises(AssertionError, match=r"waited .* for every group to be answered"):
        run({"load": 5}, SEED, ("confluent",), only=["half-sent and paused"], planted="no eviction")
