"""The operators' questions: the same answers as when they were recorded, and values that are bound.

``OTTLA_RECORD_ANSWERS=1`` records the answers anew; look at what changes.
"""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.lake import Lake, LakeError
from ottla.pipeline.queries import QUERIES, ask
from ottla.pipeline.tables import TABLES
from tests.pipeline.gold.conftest import Built
from tests.pipeline.parquet import put

ANSWERS = Path(__file__).with_name("answers.json")
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("findings", {"since": "2026-03-02T08:20"}),
    ("lag", {"limit": 6}),
    ("lag", {"group": "g-stop", "at": "2026-03-02T08:25:30+00:00"}),
    ("status", {}),
    ("storms", {}),
    ("rebalances", {"limit": 5}),
    ("rebalances", {"group": "g-storm", "since": "2026-03-02T08:10"}),
    ("owner", {"group": "g-deploy", "topic": "g-deploy-topic", "partition": 2, "at": "2026-03-02T08:12:01"}),
    ("breaches", {"topic": "g-slow-topic"}),
    ("forecast", {"group": "g-slow"}),
    ("flapping", {}),
    ("hotspots", {"limit": 3}),
    ("rewinds", {"limit": 4}),
)


def test_answers(built: Built) -> None:
    answers = []
    for name, parameters in ASKED:
        asked = ask(built.lake, name, **parameters)
        rows = [[_plain(value) for value in row.values()] for row in asked.to_pylist()]
        answers.append({"query": name, "parameters": parameters, "columns": asked.column_names, "rows": rows})
    if os.environ.get("OTTLA_RECORD_ANSWERS"):
        ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
    assert answers == json.loads(ANSWERS.read_text())
    assert {name for name, _ in ASKED} == set(QUERIES)
    assert all(answer["rows"] for answer in answers)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    return value if value is None or isinstance(value, int | list | str) else str(value)


def test_every_question_is_asked_in_a_sentence() -> None:
    for query in QUERIES.values():
        assert query.text[0].isupper() and query.text.endswith("?")
        has = {column.name for column in TABLES[query.table].all_columns}
        assert {*query.columns, *query.parameters.values(), *(one.lstrip("-") for one in query.order)} <= has
        assert {one.lstrip("-") for one in query.order} <= set(query.columns), "rows are sorted by what is shown"


def test_values_are_values(built: Built) -> None:
    assert ask(built.lake, "storms", group="x' OR '1'='1").num_rows == 0


def test_a_lake_without_gold_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=f"no table findings yet: ottla pipeline gold --lake {tmp_path}"):
        ask(Lake(str(tmp_path)), "findings")


def test_lag_now_is_of_the_last_minute_that_is_over(tmp_path: Path) -> None:
    """The newest in which ends of logs were sampled is not over yet; without one before it there is no other."""
    lake, newest = Lake(str(tmp_path)), datetime(2026, 3, 2, 0, 1, tzinfo=UTC)
    rows = [
        {"cluster_id": cluster, "group_id": "g", "topic": "t", "minute": newest - timedelta(minutes=before)}
        | {"lag_records": lag, "partitions": 1}
        for cluster, before, lag in (("a", 0, 1), ("a", 1, 2), ("a", 2, 3), ("b", 0, 4), ("b", 2, 5), ("c", -1, None))
    ]
    for number, row in enumerate(rows):
        put(tmp_path / "gold/lag_by_topic", "lag_by_topic", [row], row["minute"].date(), str(number))
    answer = ask(lake, "lag").to_pylist()
    assert {(row["cluster_id"], row["lag_records"]) for row in answer} == {("a", 2), ("b", 4)}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("lags", {}, "no question 'lags'; there are findings, lag, "),
        ("storms", {"topic": "t"}, "no parameter 'topic' of storms; there are group, since, limit"),
        ("lag", {"at": "noon"}, "at is 'noon', and must be a day or a time in UTC"),
        ("lag", {"limit": "0"}, "limit 0 must be 1 to 1000000"),
        ("owner", {"partition": "x"}, "partition 'x' is no number"),
    ],
)
def test_bad_questions(built: Built, name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(built.lake, name, **parameters)
