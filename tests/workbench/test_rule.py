"""`Rule`: what is typed for a fault, and what is said to those who type it wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import api
from ottla.protocol.errors import ErrorCode
from ottla.workbench.named import names
from ottla.workbench.rule import API_KEYS, BadRule, Rule
from tests.support.requests import commit_fields, join_fields, leave_fields, request, sync_fields

WRONG = [
    (("SyncGrup",), {"drop": "request"}, "there is no API 'SyncGrup'; did you mean SyncGroup?"),
    ((), {"drop": "request"}, "a fault needs an API"),
    (("SyncGroup",), {"grup": "a", "drop": "request"}, "a fault has no 'grup'; did you mean group?"),
    (("SyncGroup",), {}, "a fault does one thing: there is none; write one of error, delay"),
    (("SyncGroup",), {"drop": "request", "hold": True}, "drop, hold are 2"),
    (("SyncGroup",), {"drop": "both"}, "drop='both': write 'request' or 'response'"),
    (("SyncGroup",), {"error": "NOT_COORD"}, "error='NOT_COORD' is no error of Kafka's; did you mean NOT_COORDINATOR?"),
    (("SyncGroup",), {"error": 0}, "error='NONE' is no error"),
    (("SyncGroup",), {"topic": "t", "drop": "request"}, "SyncGroup requests name no topic"),
    (("Fetch",), {"group": "g", "drop": "request"}, "Fetch requests name no group"),
    (("Fetch",), {"phase": "Stable", "drop": "request"}, "Fetch requests name no group"),
    (("Fetch",), {"elsewhere": 1}, "Fetch requests name no group"),
    (("SyncGroup",), {"phase": "stable", "drop": "request"}, "phase='stable': write one of Empty, PreparingRebalance"),
    (("SyncGroup",), {"times": 0, "drop": "request"}, "times=0: write a number from 1"),
    (("SyncGroup",), {"nth": "two", "drop": "request"}, "nth='two': write a number"),
    (("SyncGroup",), {"drop": True}, "drop=True: write 'request' or 'response'"),
    (("SyncGroup",), {"drop": "request", "group": 7}, "group=7: write a text"),
    ((7,), {"drop": "request"}, "api=7: write the name of an API"),
    (("SyncGroup",), {"delay": -1}, "delay=-1.0: write seconds"),
    (("SyncGroup",), {"delay": float("nan")}, "delay=nan: write seconds"),
    (("SyncGroup",), {"chance": 2, "drop": "request"}, "chance=2.0: write a number above 0, up to 1"),
    (("SyncGroup",), {"drop": "request", "on": "response"}, "on='response' is for error and delay"),
]


@pytest.mark.parametrize(("apis", "given", "told"), WRONG)
def test_a_wrong_rule_says_what_was_meant(apis: tuple[Any, ...], given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRule) as caught:
        Rule.of(*apis, **given)
    assert told in str(caught.value)


def test_something_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(BadRule, match="is no fault: write a mapping"):
        Rule.read(["SyncGroup"])  # type: ignore[arg-type]


def test_apis_are_named_as_in_their_messages() -> None:
    assert {name: key for name, key in API_KEYS.items() if api(key).request.__name__ != f"{name}Request"} == {}
    assert set(API_KEYS.values()) == set(HANDLERS)


@pytest.mark.parametrize("written", ["SyncGroup", "SYNC_GROUP", "syncgroup"])
def test_apis_may_be_written_in_other_ways(written: str) -> None:
    assert Rule.of(written, drop="request").api == "SyncGroup"


def test_a_rule_is_shown_as_it_is_typed() -> None:
    rule = Rule.of("SyncGroup", group="billing", drop="response", times=1)
    assert str(rule) == "'SyncGroup', group='billing', times=1, drop='response'"
    assert Rule.read({"api": ["JoinGroup", "SYNC_GROUP"], "hold": True}).apis == ["JoinGroup", "SyncGroup"]


@pytest.mark.parametrize(
    ("given", "action", "side"),
    [
        ({"error": 16}, "error", "request"),
        ({"error": "not_coordinator", "on": "response"}, "error", "response"),
        ({"drop": "response"}, "drop", "response"),
        ({"hold": True}, "hold", "request"),
        ({"hold": "response"}, "hold", "response"),
        ({"delay": 0}, "delay", "request"),
        ({"corrupt": True}, "corrupt", "response"),
        ({"throttle": 2}, "throttle", "response"),
        ({"elsewhere": True}, "elsewhere", "request"),
        ({"restart": 0.5}, "restart", "request"),
    ],
)
def test_a_rule_has_one_action_on_one_side(given: dict[str, Any], action: str, side: str) -> None:
    rule = Rule.of("SyncGroup", **given)
    assert (rule.action, rule.side) == (action, side)
    if action == "error":
        assert rule.code is ErrorCode.NOT_COORDINATOR


def test_requests_name_what_their_messages_have() -> None:
    join = request(API_KEYS["JoinGroup"], join_fields("g", member_id="m", instance="i"))
    assert [names(API_KEYS["JoinGroup"], join, kind) for kind in ("group", "member", "instance")] == [
        ["g"],
        ["m"],
        ["i"],
    ]
    commit = request(API_KEYS["OffsetCommit"], commit_fields("g", [("a", 0, 1), ("b", 0, 1)]))
    assert names(API_KEYS["OffsetCommit"], commit, "topic") == ["a", "b"]
    leave = request(API_KEYS["LeaveGroup"], leave_fields("g", ("m1", None), ("m2", "i2")))
    assert set(names(API_KEYS["LeaveGroup"], leave, "member")) == {"m1", "m2"}
    assert names(API_KEYS["LeaveGroup"], leave, "instance") == ["i2"]
    sync = request(API_KEYS["SyncGroup"], sync_fields("g", 1, "leader", [("other", b"")]))
    assert names(API_KEYS["SyncGroup"], sync, "member") == ["leader"], "whom a leader gives partitions sends nothing"
