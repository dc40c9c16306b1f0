"""Jumps of a broker's time, with clients that do nothing by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ottla.broker.core.events import EveryEvent, GenerationStarted, SessionExpired
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC
from ottla.protocol.records import TopicPartition
from ottla.testing import Broker
from ottla.workbench import time as jumps
from tests.support.client import Client, batch, of
from tests.support.requests import subscribed
from tests.support.waiting import wait_for

GROUP = "billing"
DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        running.clock.freeze()
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.port) as connected:
        yield connected


def events(broker: Broker) -> list[Any]:
    """All events from now on."""
    seen: list[Any] = []
    broker.run(lambda: broker.observatory.observer.add(EveryEvent(seen.append)))
    return seen


# sessions and phases


def test_deadlines_take_effect_at_their_times_and_in_their_order(broker: Broker, client: Client) -> None:
    seen = events(broker)
    began_ms = broker.run(broker.observatory.clock.wall_ms)
    options = {"session_ms": 10_000, "rebalance_ms": 20_000}
    joined = client.stable(GROUP, **options)
    with Client(broker.port) as second:
        second.start_enter(GROUP, **options)
        client.await_rebalance(GROUP, joined)
        broker.clock.advance(seconds=9)
        assert client.heartbeat(GROUP, joined) == ErrorCode.REBALANCE_IN_PROGRESS
        broker.clock.advance(minutes=5)
        assert second.answer().generation_id == 2
    kinds = (SessionExpired, GenerationStarted)
    told = [(type(one), one.wall_ms - began_ms) for one in seen if isinstance(one, kinds)]
    assert told == [
        (GenerationStarted, 0),
        (SessionExpired, 19_000),  # of the first, ten seconds after its heartbeat
        (GenerationStarted, 19_000),  # for the second is there
        (SessionExpired, 29_000),  # it does not ask for its assignment
        (GenerationStarted, 29_000),
    ]
    assert broker.group(GROUP).state == "Empty"


def test_a_session_of_thirty_minutes(broker: Broker, client: Client) -> None:
    client.stable(GROUP, session_ms=1_800_000)
    group = broker.group(GROUP)
    broker.clock.advance(minutes=29, seconds=59)
    assert group.state == "Stable"
    broker.clock.advance(seconds=1)
    assert (group.state, group.members) == ("Empty", {})


def test_the_initial_delay(client: Client) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 240_000}) as broker, Client(broker.port) as joining:
        broker.clock.freeze()
        joining.start_enter(GROUP)
        broker.clock.advance(ms=239_999)
        assert broker.group(GROUP).state == "PreparingRebalance"
        broker.clock.advance(ms=1)
        assert joining.answer().generation_id == 1


def test_held_groups_live_through_a_jump(broker: Broker, client: Client) -> None:
    held = client.stable(GROUP)
    with Client(broker.port) as other:
        other.stable("search")
    broker.clock.advance(days=7, hold=[GROUP])
    assert broker.groups.keys() == {GROUP}  # the other has lost its member, and had no offsets
    assert client.heartbeat(GROUP, held) == ErrorCode.NONE
    broker.clock.advance(days=7, hold=True)
    assert client.heartbeat(GROUP, held) == ErrorCode.NONE
    broker.clock.advance(ms=29_999)
    assert broker.group(GROUP).state == "Stable"
    broker.clock.advance(ms=1)
    assert broker.group(GROUP).state == "Empty"


def test_a_group_that_is_held_is_not_let_go_of_by_a_jump(broker: Broker, client: Client) -> None:
    client.stable(GROUP)
    broker.run(lambda: broker.workbench.time.hold(GROUP))
    broker.clock.advance(days=1, hold=True)
    broker.clock.advance(days=1)
    assert broker.group(GROUP).state == "Stable"
    assert broker.run(lambda: broker.workbench.time.state.held) == [GROUP]
    broker.run(lambda: broker.workbench.time.let_go(GROUP))
    broker.clock.advance(seconds=30)
    assert broker.group(GROUP).state == "Empty"
    with pytest.raises(ValueError, match=r"group 'billing' is not held; these are: \[\]"):
        broker.run(lambda: broker.workbench.time.let_go(GROUP))


# what expires


def test_offsets_expire(broker: Broker, client: Client) -> None:
    assert client.commit(GROUP, "orders", 5) == ErrorCode.NONE
    broker.clock.advance(days=6, hours=23)
    assert broker.group(GROUP).offsets == {("orders", 0): 5}
    broker.clock.advance(hours=1)
    assert broker.group(GROUP).offsets == {}


def test_offsets_of_a_live_group_do_not_expire(broker: Broker, client: Client) -> None:
    joined = client.stable(GROUP, protocols={"range": subscribed("orders")})
    known = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    assert client.commit(GROUP, "orders", 5, **known) == ErrorCode.NONE
    broker.clock.advance(days=8, hold=True)
    assert broker.group(GROUP).offsets == {("orders", 0): 5}


def test_retention_is_over_when_a_jump_returns() -> None:
    with Broker(topics={"short": {"retention.ms": 60_000}, "orders": 1}) as broker:
        broker.clock.freeze()
        for topic in ("short", "orders"):
            broker.produce(topic, [b"a", b"b"])
        broker.clock.advance(minutes=4)
        assert len(broker.records("short")) == 2  # the broker looks every five minutes
        broker.clock.advance(minutes=1)
        assert not broker.records("short")
        assert len(broker.records("orders")) == 2
        broker.clock.advance(days=8)
        assert not broker.records("orders")


def test_a_transaction_is_aborted_at_its_time(broker: Broker, client: Client) -> None:
    producer = client.producer("t")  # a minute
    assert client.add_partitions("t", producer, TopicPartition("orders", 0)) == [ErrorCode.NONE]
    data = batch(b"lost", **of(producer, transactional=True))
    assert client.produce("orders", data, transactional_id="t").error_code == ErrorCode.NONE
    assert client.offset("orders", level=1).offset == 0
    broker.clock.advance(seconds=59)
    assert client.offset("orders", level=1).offset == 0
    broker.clock.advance(days=1)
    assert client.offset("orders", level=1).offset == 2  # the record and the marker
    assert broker.records("orders") == []
    assert client.end("t", producer, commit=True).error_code == ErrorCode.PRODUCER_FENCED
    described = broker.run(lambda: broker.workbench._services.transactions.find("t"))
    now_ms = broker.run(broker.observatory.clock.wall_ms)
    since_ms = now_ms - described.current.update_ms  # type: ignore[union-attr]
    assert DAY_MS - 20_000 < since_ms < DAY_MS + 20_000  # not at the end of the jump


def test_an_id_that_is_not_used_is_forgotten_within_one_jump(broker: Broker, client: Client) -> None:
    producer = client.producer("t")
    client.add_partitions("t", producer, TopicPartition("orders", 0))
    broker.clock.advance(days=7, hours=2)
    found = broker.run(lambda: broker.workbench._services.transactions.find("t"))
    assert found is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_quota_is_paid_back() -> None:
    with Broker(topics=["orders"]) as broker, Client(broker.port) as client:
        broker.clock.freeze()
        entity = {"entity": [{"entity_type": "client-id", "entity_name": "peer"}],
                  "ops": [{"key": "producer_byte_rate", "value": 10.0, "remove": False}]}  # fmt: skip
        answer = client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entity], validate_only=False)
        assert answer.entries[0].error_code == ErrorCode.NONE
        client.produce("orders", batch(b"x" * 1_000))
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(client.offset, "orders")
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            broker.clock.advance(minutes=5)
            assert waiting.result(10).offset == 1


# how time goes


def test_time_goes_on_as_it_did(broker: Broker) -> None:
    clock = broker.clock
    before = clock.now
    clock.advance(days=1, hours=2, minutes=3, seconds=4, ms=5)
    assert (clock.now - before).total_seconds() == 93_784.005
    assert clock.is_frozen and clock.now == clock.now
    assert repr(clock).endswith("frozen>")
    clock.scale(1_000)
    before = clock.now
    clock.advance(days=1)
    assert not clock.is_frozen
    wait_for(lambda: (clock.now - before).total_seconds() > 86_400 + 60, "a minute")
    assert repr(clock).endswith("at 1000 times the real pace>")
    clock.resume()
    assert broker.run(lambda: broker.workbench.time.state.pace) == 1


def test_a_session_at_sixty_times_the_pace(broker: Broker, client: Client) -> None:
    client.stable(GROUP, session_ms=45_000)
    broker.clock.scale(600)
    broker.group(GROUP).wait(members=0, timeout=5)


def test_waiting_for_records_takes_real_time(broker: Broker, client: Client) -> None:
    began = time.monotonic()
    client.fetch("orders", max_wait_ms=50, min_bytes=1)  # time stands
    assert 0.04 < time.monotonic() - began < 5
    broker.clock.scale(10_000)
    began = time.monotonic()
    client.fetch("orders", max_wait_ms=200, min_bytes=1)
    assert time.monotonic() - began > 0.15


def test_a_frozen_broker_tells_what_happens(tmp_path: Path) -> None:
    path = tmp_path / "events.rec"
    settings = {"ottla.group.events.enable": True, "ottla.recorder.file": str(path)}
    with Broker(settings, http=True) as broker, Client(broker.port) as client:
        broker.clock.freeze()
        with urlopen(f"{broker.http_url}/v1/stream", timeout=20) as stream:
            client.stable(GROUP)
            next(line for line in stream if line.startswith(b"data:") and GROUP.encode() in line)
        wait_for(lambda: client.offset(GROUP_EVENTS_TOPIC).offset, "records in the topic")
        wait_for(lambda: GROUP.encode() in path.read_bytes(), "events in the file")


def test_jumps_at_the_same_time_come_one_after_the_other(broker: Broker) -> None:
    before = broker.clock.now
    with ThreadPoolExecutor() as pool:
        for jump in [pool.submit(broker.clock.advance, days=1) for _ in range(4)]:
            jump.result(20)
    assert (broker.clock.now - before).days == 4


async def test_who_has_an_event_loop_jumps_without_standing_still() -> None:
    async with Broker() as broker:
        before = broker.clock.now
        await broker.clock.advance_async(days=7)
        assert (broker.clock.now - before).days == 7


def test_what_looks_at_everything_looks_once(broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        client.commit(f"group-{number}", "orders")
        client.stable(f"live-{number}", session_ms=10_000 + number)
        client.producer(f"t-{number}")
    host, sentinels = broker.workbench._services.host, broker.observatory.sentinels
    assert sentinels is None  # they begin in a second
    ring, rings = host.ring, []
    monkeypatch.setattr(host, "ring", lambda: (rings.append(1), ring()))
    broker.clock.advance(days=8)
    assert broker.groups == {}
    assert len(rings) < 20 + 2 * 50 + 20  # sessions, partitions of the two coordinators, and some more
    rings.clear()
    broker.clock.advance(days=8)
    assert len(rings) <= 2 * 50 + 1


# what cannot be


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({}, ValueError, r"write by how much, in days, hours, minutes, seconds, ms: such as advance\(days=7\)"),
        ({"days": 0}, ValueError, "write by how much"),
        ({"days": -1}, ValueError, r"advance\(days=-1\): time only goes forward"),
        ({"days": 1, "hours": -24}, ValueError, "hours=-24"),
        ({"minutes": float("nan")}, ValueError, "minutes=nan"),
        ({"seconds": float("inf")}, ValueError, "time only goes forward, by 1 ms or more"),
        ({"ms": 0.2}, ValueError, "by 1 ms or more"),
        ({"days": "7"}, TypeError, r"advance\(days='7'\): write a number, such as days=7"),
        ({"days": True}, TypeError, "write a number"),
        ({"weeks": 1}, TypeError, "weeks"),
        ({"days": 4_000_000}, ValueError, "beyond the year 9999"),
        ({"days": 1, "hold": GROUP}, TypeError, r"hold='billing': write True for all groups, or a list"),
        ({"days": 1, "hold": 5}, TypeError, "write True for all groups, or a list"),
        ({"days": 1, "hold": [5]}, TypeError, "5 is no group id"),
    ],
)
def test_a_jump_that_cannot_be(broker: Broker, arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    before = broker.clock.now
    with pytest.raises(error, match=said):
        broker.clock.advance(**arguments)
    assert broker.clock.now == before


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), 1e9, 1e-9])
def test_a_pace_that_cannot_be(broker: Broker, factor: float) -> None:
    with pytest.raises(ValueError, match=r"write a number from 0\.001 to 10,000; freeze\(\) stops it"):
        broker.clock.scale(factor)
    with pytest.raises(TypeError, match="write a number"):
        broker.clock.scale(True)
    assert broker.clock.is_frozen


def test_a_jump_that_does_not_come_to_an_end_says_why(
    broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.stable(GROUP)
    monkeypatch.setattr(jumps, "PATIENCE_S", 0.2)
    engine = broker.workbench._engine
    broker.run(lambda: monkeypatch.setattr(engine, "enqueue", lambda append: None))  # nothing becomes durable
    before = broker.clock.now
    with pytest.raises(
        TimeoutError, match=r"after 0\.2 s of real time 570,000 ms of the jump were left, because records"
    ):
        broker.clock.advance(minutes=10)
    assert (broker.clock.now - before).total_seconds() == 600
    assert broker.run(lambda: broker.workbench.time.state.jumps_to_ms) is None
