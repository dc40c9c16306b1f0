"""What repeats itself is an alarm while it does: members that are turned away, and members that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.events import RequestRefused
from ottla.observe.sentinels.repeats import REFUSALS
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.observe.sentinels.stage import GROUP, Stage
from tests.observe.sentinels.test_sentinels import FAIR, MINUTE
from tests.observe.why.stories import played
from tests.support.requests import join_fields, request


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.form(FAIR)
    return stage


def knock(stage: Stage, **options: Any) -> int:
    """Ask to join with an assignor that nobody else has; the error that this hears."""
    fields = join_fields(GROUP, **{"protocols": {"own": b""}} | options)
    return int(stage.ask("late", ApiKey.JOIN_GROUP, 5, request(ApiKey.JOIN_GROUP, fields)).answer.error_code)


def test_members_that_are_turned_away_again_and_again_are_an_alarm(stage: Stage) -> None:
    for _ in range(2):
        assert knock(stage) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        stage.wait(5_000)
    assert stage.active == []
    knock(stage)
    stage.wait(1_000)
    alarm = stage.alarm("refused_member")
    assert alarm.text == (
        "Group g turned members away 3 times within 10 s, the last was late (127.0.0.1): it has no assignor that all "
        "others have, too, or no classic ones are let in"
    )
    assert alarm.facts["member"] == "late"
    for _ in range(242):
        knock(stage)
    stage.wait(1_000)
    assert stage.alarm("refused_member").facts["refused"] == "245"
    stage.wait(5 * MINUTE)
    assert stage.active == []
    knock(stage)
    stage.wait(1_000)
    assert stage.active == [], "what was before is over"


def test_a_member_that_is_turned_away_now_and_then_is_none(stage: Stage) -> None:
    for _ in range(12):
        knock(stage)
        stage.wait(3 * MINUTE)
    assert stage.log.of("warning") == []


def test_what_belongs_to_the_life_of_clients_is_no_refusal(stage: Stage) -> None:
    for _ in range(9):
        knock(stage, member_id="of yesterday", protocols={"range": b""})
    stage.wait(1_000)
    assert stage.active == []
    assert not {"MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"} & set(REFUSALS)


def test_groups_that_are_none_have_no_alarms_and_leave_nothing_behind(stage: Stage) -> None:
    for number in range(2_000):
        stage.sentinels(
            RequestRefused(
                group_id=f"made up {number}", cause=0, api="JoinGroup", member_id="", error="GROUP_MAX_SIZE_REACHED"
            )
        )
    assert list(stage.sentinels._repeats._groups) == [GROUP]
    stage.wait(6 * MINUTE)
    assert not stage.sentinels._repeats._groups, "what is quiet is forgotten"


def test_a_member_that_comes_and_goes_is_an_alarm_until_it_stays(stage: Stage) -> None:
    """As often as an explanation says so: the sentinel has no second opinion."""
    for one in played("rolling restart").episodes():
        one.group_id = GROUP
        stage.sentinels.on_episode(one)
    stage.wait(2_000)
    assert stage.active == []
    told = [one for one in played("flapping").episodes() if one.triggers[-1].cause == "flapping-member"]
    assert told
    for one in told:
        one.group_id = GROUP
        stage.sentinels.on_episode(one)
    stage.wait(2_000)
    alarm = stage.alarm("flapping_member")
    last = told[-1].triggers[-1]
    assert alarm.facts["times"] == last.facts["times"]
    assert alarm.facts["member"] == told[-1].members[last.member].client_id
    assert f"leaves and comes back again and again, {last.facts['times']} times within ten minutes" in alarm.text
    stage.wait(6 * MINUTE)
    assert stage.active == []
