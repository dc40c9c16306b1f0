"""Names that somebody makes up raise no alarms."""

from __future__ import annotations

from ottla.broker.core.events import RequestRefused
from tests.observe.sentinels.stage import Stage


def refused(group_id: str) -> RequestRefused:
    return RequestRefused(group_id=group_id, cause=1, api="OffsetCommit", member_id="m", error="ILLEGAL_GENERATION")


def test_a_commit_to_a_group_that_is_not_there_is_no_alarm() -> None:
    stage = Stage()
    stage.form({"a": {"orders": [0, 1, 2, 3]}})
    for number in range(100):
        stage.sentinels(refused(f"nobody-{number}"))
    assert stage.log.of("warning") == []
    stage.sentinels(refused("g"))
    assert stage.active == ["fenced_commit"]
