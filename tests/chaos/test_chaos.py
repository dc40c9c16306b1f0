"""A few rounds of what ``make chaos`` does at length. ROUNDS says how many; half as many for exactly-once."""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos.run import run

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROUNDS = int(os.environ.get("ROUNDS", "20"))
SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))


def test_nothing_acknowledged_is_lost_under_load() -> None:
    run("load", ROUNDS, SEED)


def test_exactly_one_result_of_each_record() -> None:
    run("exactly-once", max(1, ROUNDS // 2), SEED)
