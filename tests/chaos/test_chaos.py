"""A few rounds of what ``make chaos`` does at length.

ROUNDS says how many there are with one broker, half as many for exactly-once; with several nodes NODES_ROUNDS of each.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos.run import run

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROUNDS = int(os.environ.get("ROUNDS", "20"))
NODES_ROUNDS = int(os.environ.get("NODES_ROUNDS", "3"))
SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))


def test_nothing_acknowledged_is_lost_under_load() -> None:
    run("load", ROUNDS, SEED)


def test_exactly_one_result_of_each_record() -> None:
    run("exactly-once", max(1, ROUNDS // 2), SEED)


@pytest.mark.parametrize("kind", ["load", "exactly-once"])
def test_the_same_with_several_nodes(kind: str) -> None:
    run(kind, NODES_ROUNDS, SEED, nodes=3)
