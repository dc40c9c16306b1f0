"""Scripts with the answers of Apache Kafka 4.3, which `tests/differential/group_functions.py` recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.consumer_groups.functions import Group

LINES = (Path(__file__).parent / "kafka_answers.txt").read_text("utf-8").splitlines()
ROWS = list(zip(LINES[::2], LINES[1::2], strict=True))
BEGINNINGS = [number for number, (command, _) in enumerate(ROWS) if command == "new"]
GROUPS = [ROWS[begin:end] for begin, end in zip(BEGINNINGS, [*BEGINNINGS[1:], len(ROWS)], strict=True)]


@pytest.mark.parametrize("rows", GROUPS, ids=lambda rows: f"{len(rows)}-commands-{rows[1][0].split()[2][:6]}")
def test_as_kafka(rows: list[tuple[str, str]]) -> None:
    """Targets, hashes, the type of subscriptions, the preferred assignor, patterns (R2.24, 3.2, 3.4, R3.26, 4)."""
    group = Group()
    for command, answer in rows:
        assert group.answer(command) == answer, command


def test_there_is_something_of_everything() -> None:
    """It would prove nothing without."""
    answers = "\n".join(answer for _, answer in ROWS)
    for word in ("homogeneous range", "heterogeneous uniform", "refused", "matches 01", ";u:"):
        assert word in answers
    commands = [command.split(" ") for command, _ in ROWS]
    assert {words[0] for words in commands} >= {"topic", "delete", "leave", "resolved", "pattern"}
    assert {words[-1] for words in commands if len(words) == 6} == {"uniform", "range"}
