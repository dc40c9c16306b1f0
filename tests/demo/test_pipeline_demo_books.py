"""The reckoning of the pipeline's demo: it must not pass when something is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from examples.pipeline import verdict
from examples.pipeline.ledger import Ledger
from examples.pipeline.play import PLANTED
from examples.pipeline.steps import OBJECTIVE_S

PLACE = ("billing", "orders", 0)


def committed(*offsets: int) -> Ledger:
    ledger = Ledger()
    for offset in offsets:
        ledger.acknowledged("billing", {("orders", 0): offset})
    return ledger


def test_every_commit_once_and_in_order() -> None:
    ledger = committed(3, 7, 7, 9)
    compared = ledger.compare({PLACE: [3, 7, 7]}, {PLACE: 3})
    assert (compared.acknowledged, compared.found, compared.wrong) == (3, 3, [])


@pytest.mark.parametrize(
    "found",
    [[3, 7, 9], [3, 3, 7, 7, 9], [7, 3, 7, 9], [3, 7, 7, 9, 11]],
    ids=["lost", "doubled", "in another order", "never acknowledged"],
)
def test_commits_that_differ(found: list[int]) -> None:
    assert committed(3, 7, 7, 9).compare({PLACE: found}, {}).wrong


def test_a_lake_that_ends_too_early() -> None:
    ledger = committed(3, 7)
    assert ledger.compare({PLACE: [3]}, ledger.lengths()).wrong
    assert ledger.compare({}, ledger.lengths()).wrong
    assert not ledger.compare({PLACE: [3]}, {PLACE: 1}).wrong


def test_commits_of_which_nobody_knows() -> None:
    assert Ledger().compare({PLACE: [1]}, {}).wrong


class Lake:
    """Gold tables as they are when everything is told as it was."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {
            "findings": [
                {"group_id": one.group, "kind": one.finding, "suspect": one.suspect or None, "evidence": "seen"}
                for one in PLANTED
                if one.finding
            ],
            "slo_breaches": [
                {"group_id": one.group, "worst_lag_seconds": OBJECTIVE_S + 9.0} for one in PLANTED if one.breaches
            ],
            "partition_status": [{"group_id": one.group, "status": one.status or "OK"} for one in PLANTED],
            "rebalances": [
                {"group_id": one.group, "generation": number, "duration_ms": 5 if number else None}
                for one in PLANTED
                for number in range(3)
            ],
        }

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.tables[table]

    def wrong(self) -> set[str]:
        return {one.planted.group for one in verdict.judge(self) if one.wrong}  # type: ignore[arg-type]


def test_what_was_planted_is_found() -> None:
    assert Lake().wrong() == set()


@pytest.mark.parametrize("table", ["findings", "slo_breaches", "partition_status"])
def test_what_was_planted_and_is_not_found(table: str) -> None:
    lake = Lake()
    concerned = {row["group_id"] for row in lake.tables[table]}
    lake.tables[table] = []
    assert lake.wrong() <= concerned
    assert lake.wrong()


def test_somebody_else_is_named() -> None:
    lake = Lake()
    next(row for row in lake.tables["findings"] if row["suspect"])["suspect"] = "somebody else"
    assert lake.wrong() == {"stormy"}


def test_what_was_not_planted() -> None:
    lake = Lake()
    lake.tables["findings"].append({"group_id": "healthy", "kind": "storm", "suspect": None, "evidence": ""})
    assert lake.wrong() == {"healthy"}
    lake = Lake()
    lake.tables["slo_breaches"].append({"group_id": "healthy", "worst_lag_seconds": 99.0})
    assert lake.wrong() == {"healthy"}


def test_a_rebalance_of_which_the_duration_is_not_known() -> None:
    lake = Lake()
    lake.tables["rebalances"][1]["duration_ms"] = None
    assert lake.wrong() == {"healthy"}
