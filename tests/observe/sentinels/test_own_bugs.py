"""Sentinels that fail: with one group, and with all."""

from __future__ import annotations

import pytest

from ottla.observe.sentinels.watch import MOST_FAILED
from tests.observe.sentinels.stage import Stage

FAIR = {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def fail_with(monkeypatch: pytest.MonkeyPatch, stage: Stage, names: list[str]) -> None:
    """Let there be groups that cannot be looked at for a bug."""
    group, group_ids = stage.view.group, stage.view.group_ids
    monkeypatch.setattr(stage.view, "group_ids", lambda: [*names, *group_ids()])
    monkeypatch.setattr(stage.view, "group", lambda name: 1 // 0 if name in names else group(name))


def test_a_bug_with_a_group_is_told_once_and_the_others_are_looked_at(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, stage, ["odd"])
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(20_000)
    assert stage.log.of("error") == [
        ("the sentinels failed with a group, and look at it no more", {"of": "odd", "exc_info": True})
    ]
    assert stage.active == ["two_believers"]


def test_a_bug_with_every_group_ends_the_looking(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.form(FAIR)
    fail_with(monkeypatch, stage, [f"odd-{number}" for number in range(100)])
    stage.wait(60_000)
    assert len(stage.log.of("error")) == MOST_FAILED + 2
    assert stage.log.of("error")[-1][0] == "the sentinels failed, and look no more"
    assert stage.commit("a", {0: 5}, generation=stage.generation - 1) == 22
    assert stage.active == ["fenced_commit"]
