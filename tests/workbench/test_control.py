"""A workbench as it is asked from outside: the verbs, and the API that carries them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import dispatch
from ottla.broker.handlers import HANDLERS
from ottla.broker.handlers.services import ControlRefused
from ottla.clients.errors import KafkaError, UnsupportedByBroker
from ottla.clients.workbench import WorkbenchAdmin
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from ottla.workbench import control
from ottla.workbench.bench import Workbench
from ottla.workbench.control import Control
from tests.support.client import Client
from tests.support.waiting import wait_for

LOST_SYNC = {"api": "SyncGroup", "group": "billing", "drop": "response"}
DAY_MS = 86_400_000

Ask = Callable[..., Any]


@pytest.fixture
def ask(broker: Broker) -> Ask:
    """Asks the workbench on the broker's loop."""

    def ask(verb: str, **arguments: Any) -> Any:
        return json.loads(broker.call(broker.workbench.control().ask(verb, json.dumps(arguments).encode())))

    return ask


def refused(ask: Ask, verb: str, **arguments: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(ControlRefused) as error:
        ask(verb, **arguments)
    return error.value.code, str(error.value)


# faults


def test_a_fault_is_set_told_of_and_removed(ask: Ask, client: Client) -> None:
    set_ = ask("faults.add", **LOST_SYNC, times=1)
    told = {
        "number": 1,
        "name": "'SyncGroup', group='billing', times=1, drop='response'",
        "rule": {**LOST_SYNC, "times": 1},
        "hits": 0,
        "seen": 0,
        "missed": "",
        "held": 0,
    }
    assert set_ == told
    client.stable("shipping")
    missed = {"seen": 1, "missed": "its group was 'shipping', not 'billing'"}
    assert ask("faults.list") == {"faults": [{**told, **missed}]}
    assert ask("faults.remove", number=1) == {"removed": 1}
    assert ask("faults.list") == {"faults": []}
    assert ask("faults.add", api="*", close=True)["number"] == 2, "a number is that of one fault for good"


def test_what_is_held_is_let_go_of(ask: Ask, connect: Callable[..., Client]) -> None:
    for group in ("billing", "shipping"):
        ask("faults.add", api="JoinGroup", group=group, hold="request")
    one, other = connect(), connect()
    one.start_join("billing")
    other.start_join("shipping")
    wait_for(lambda: [fault["held"] for fault in ask("faults.list")["faults"]] == [1, 1], "both to be held")
    assert ask("faults.release", number=2) == {"released": 1}
    assert other.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert ask("faults.release") == {"released": 1}
    assert one.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert ask("faults.remove") == {"removed": 2}


def test_there_are_not_too_many_faults(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_FAULTS", 2)
    ask("faults.add", **LOST_SYNC)
    ask("groups.pause", group="billing")
    full = (ErrorCode.POLICY_VIOLATION, "2 faults are in force, and no more may be: remove some")
    assert refused(ask, "faults.add", **LOST_SYNC) == full
    assert refused(ask, "groups.pause", group="shipping") == full
    assert ask("groups.pause", group="billing") == {"group": "billing", "is_paused": True}


# time


def test_time_is_frozen_moved_and_let_go(ask: Ask, broker: Broker) -> None:
    frozen = ask("clock.freeze")
    assert frozen["pace"] == 0
    assert ask("clock.show")["now_ms"] == frozen["now_ms"]
    moved = ask("clock.advance", ms=7 * DAY_MS)
    assert moved["now_ms"] - frozen["now_ms"] == 7 * DAY_MS
    assert ask("clock.scale", factor=60)["pace"] == 60
    assert ask("clock.resume")["pace"] == 1
    assert not broker.clock.is_frozen


@pytest.mark.parametrize("hold", [True, ["billing"]])
def test_members_can_live_through_a_jump(ask: Ask, broker: Broker, client: Client, hold: object) -> None:
    ask("clock.freeze")
    joined = client.stable("billing", session_ms=6_000)
    ask("clock.advance", ms=DAY_MS, hold=hold)
    assert list(broker.group("billing").members) == [joined.member_id]
    ask("clock.advance", ms=DAY_MS)
    assert broker.group("billing").members == {}


def test_a_jump_that_cannot_be_done_says_so() -> None:
    async def stuck(ms: float, hold: bool) -> None:
        raise TimeoutError("records on their way are not durable")

    bench: Any = SimpleNamespace(time=SimpleNamespace(advance=stuck))

    def ask(verb: str, **arguments: Any) -> Any:
        return asyncio.run(Control(bench).do(verb, arguments))

    assert refused(ask, "clock.advance", ms=1) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "records on their way are not durable",
    )


# pauses


def test_a_group_is_paused_and_goes_on(ask: Ask, broker: Broker, client: Client) -> None:
    assert ask("groups.pause", group="billing") == {"group": "billing", "is_paused": True}
    assert ask("clock.show")["held"] == ["billing"]
    client.start_join("billing")
    wait_for(lambda: ask("faults.list")["faults"][0]["held"], "the join to be held")
    assert ask("groups.resume", group="billing") == {"group": "billing", "is_paused": False}
    assert client.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused(ask, "groups.resume", group="billing") == (
        ErrorCode.RESOURCE_NOT_FOUND,
        "group 'billing' is not paused",
    )


def test_a_group_is_paused_where_it_is_coordinated() -> None:
    elsewhere: Any = SimpleNamespace(coordinates=lambda group_id: False)
    with pytest.raises(ControlRefused) as error:
        asyncio.run(Control(elsewhere).ask("groups.pause", b'{"group": "billing"}'))
    assert (error.value.code, str(error.value)) == (
        ErrorCode.NOT_COORDINATOR,
        "another node coordinates group 'billing'",
    )


def test_removing_the_fault_of_a_pause_ends_the_pause(ask: Ask, broker: Broker) -> None:
    ask("groups.pause", group="billing")
    ask("groups.pause", group="shipping")
    assert [fault["name"] for fault in ask("faults.list")["faults"]] == ["pause of billing", "pause of shipping"]
    ask("faults.remove", number=1)
    assert ask("clock.show")["held"] == broker.run(lambda: broker.workbench.paused) == ["shipping"]


# what cannot be


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "said"),
    [
        ("faults.ad", {}, ErrorCode.INVALID_REQUEST, "there is no 'faults.ad': write one of faults.list, faults.add,"),
        ("faults.add", {}, ErrorCode.INVALID_REQUEST, "a fault needs an API"),
        ("faults.add", {"api": "SyncGroup"}, ErrorCode.INVALID_REQUEST, "a fault does one thing: there is none"),
        ("faults.add", {"api": "SyncGroup", "drop": 7}, ErrorCode.INVALID_REQUEST, "drop=7: "),
        ("faults.remove", {"number": 7}, ErrorCode.RESOURCE_NOT_FOUND, "there is no fault 7 in force"),
        ("faults.remove", {"number": "1"}, ErrorCode.INVALID_REQUEST, "faults.remove takes number: "),
        ("faults.list", {"all": 1}, ErrorCode.INVALID_REQUEST, "faults.list takes no arguments: "),
        (
            "clock.scale",
            {"factor": 0},
            ErrorCode.INVALID_REQUEST,
            "clock.scale takes factor: Expected `float` >= 0.001",
        ),
        ("clock.scale", {}, ErrorCode.INVALID_REQUEST, "clock.scale takes factor: Object missing"),
        ("clock.advance", {"ms": 0}, ErrorCode.INVALID_REQUEST, "clock.advance takes ms, hold: Expected `float` >= 1"),
        ("clock.advance", {"ms": 1e18}, ErrorCode.INVALID_REQUEST, "beyond the year 9999"),
        ("groups.pause", {"group": ""}, ErrorCode.INVALID_GROUP_ID, "the group id is empty"),
    ],
)
def test_what_cannot_be_asked_says_why(
    ask: Ask, verb: str, arguments: dict[str, Any], code: ErrorCode, said: str
) -> None:
    got, why = refused(ask, verb, **arguments)
    assert got == code
    assert said in why


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "no JSON object: Expected `object`, got `array`"),
        (b"{", "no JSON object: "),
        (b"\xff", "no JSON object: "),
        (b'{"api": "%b"}' % (b"x" * 65_536), "the body is longer than 65,536 bytes"),
    ],
)
def test_a_body_that_is_no_object(broker: Broker, body: bytes, said: str) -> None:
    with pytest.raises(ControlRefused, match=said):
        broker.call(broker.workbench.control().ask("faults.add", body))


# by the wire


def test_no_fault_takes_hold_of_who_sets_it(broker: Broker) -> None:
    async def play() -> None:
        async with WorkbenchAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            number = (await admin.ask("faults.add", api="*", close=True))["number"]
            other = partial(WorkbenchAdmin, client_id="mine")
            with pytest.raises(KafkaError):
                await other(bootstrap_servers=broker.bootstrap_servers).start()
            async with WorkbenchAdmin(bootstrap_servers=broker.bootstrap_servers) as again:
                (fault,) = (await again.ask("faults.list"))["faults"]
                assert (fault["number"], fault["hits"]) == (number, 1)
                await again.ask("faults.remove", number=number)
            async with other(bootstrap_servers=broker.bootstrap_servers) as mine:
                assert await mine.ask("faults.list") == {"faults": []}

    asyncio.run(play())


def test_a_refusal_has_its_code_and_its_reason(broker: Broker) -> None:
    async def play() -> None:
        async with WorkbenchAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            with pytest.raises(KafkaError, match=r"^there is no fault 7 in force$") as error:
                await admin.ask("faults.remove", number=7)
            assert error.value.code is ErrorCode.RESOURCE_NOT_FOUND

    asyncio.run(play())


@pytest.mark.parametrize("which", ["an older Ottla", "one without a workbench"])
def test_a_broker_without_a_workbench_closes_the_connection(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    if which == "an older Ottla":
        kept = {key: served for key, served in HANDLERS.items() if not key.is_private}
        monkeypatch.setattr(dispatch, "HANDLERS", kept)
    else:
        monkeypatch.setattr(Workbench, "control", lambda bench: None)

    async def play(bootstrap: str) -> None:
        async with WorkbenchAdmin(bootstrap_servers=bootstrap) as admin:
            with pytest.raises(UnsupportedByBroker, match="start it with `ottla serve --workbench`"):
                await admin.ask("faults.list")
            assert await admin.list_groups() == []

    with Broker() as broker:
        asyncio.run(play(broker.bootstrap_servers))
