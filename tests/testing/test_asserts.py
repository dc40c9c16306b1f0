"""Assertions of `ottla.testing`: what they let pass, and what they say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer

from ottla.clients import Consumer
from ottla.testing import Broker, assert_no_loss, assert_rebalances, assert_stable, count_rebalances

Join = Callable[[str], Coroutine[Any, Any, Consumer]]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        yield running


@pytest.fixture
async def join(broker: Broker) -> AsyncIterator[Join]:
    """Lets a consumer join the group billing; those that are there come back, as they poll all the time."""
    consumers: list[Consumer] = []
    polling: list[asyncio.Task[None]] = []

    async def poll(consumer: Consumer) -> None:
        while True:
            await consumer.getmany(timeout_ms=50)

    async def start(name: str) -> Consumer:
        consumer = Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing", client_id=name,
            heartbeat_interval_ms=20,
        )  # fmt: skip
        consumers.append(consumer)
        await consumer.start()
        polling.append(asyncio.create_task(poll(consumer)))
        await broker.group("billing").wait_async(members=len(consumers))
        return consumer

    yield start
    for task in polling:
        task.cancel()
    await asyncio.gather(*polling, return_exceptions=True)
    for consumer in consumers:
        await consumer.stop()


# groups


@pytest.mark.e2e
async def test_a_group_becomes_stable(broker: Broker, join: Join) -> None:
    await join("billing-1")
    assert_stable(broker.group("billing"), timeout=0)
    assert_stable(broker.group("billing"), members=1, timeout=0)
    joining = asyncio.create_task(join("billing-2"))
    await asyncio.to_thread(assert_stable, broker.group("billing"), 2)
    await joining


@pytest.mark.e2e
async def test_a_group_that_is_not_stable_says_how_it_is_and_why(broker: Broker, join: Join) -> None:
    await join("billing-1")
    with pytest.raises(AssertionError) as failed:
        assert_stable(broker.group("billing"), members=2, timeout=0)
    assert str(failed.value).startswith(
        "group 'billing' was not as it should be in 0 s: members=2, state='Stable'; "
        "at last it was Stable with 1 member, lag 0\n\nbilling-1 started the group; generation 1 was Stable after"
    )
    with pytest.raises(AssertionError, match=re.escape("write `await asyncio.to_thread(assert_stable, …)`")):
        assert_stable(broker.group("other"), timeout=0.01)


def test_without_an_event_loop_nothing_is_said_of_one(broker: Broker) -> None:
    with pytest.raises(AssertionError, match=r"at last it was Dead with 0 members, lag unknown$"):
        assert_stable(broker.group("other"), timeout=0.01)


@pytest.mark.e2e
async def test_rebalances_are_counted_in_a_block_and_since_the_start(broker: Broker, join: Join) -> None:
    group = broker.group("billing")
    assert count_rebalances(group) == 0
    with assert_rebalances(group, 1):
        await join("billing-1")
    with assert_rebalances(group, 0):
        broker.produce("orders", "one")
    with assert_rebalances(group, 1):
        await join("billing-2")
    assert count_rebalances(group) == 2


@pytest.mark.e2e
async def test_other_rebalances_than_expected_are_told(broker: Broker, join: Join) -> None:
    group = broker.group("billing")
    await join("billing-1")
    with pytest.raises(AssertionError) as failed, assert_rebalances(group, 0):
        await join("billing-2")
    told = str(failed.value)
    assert told.startswith("group 'billing' rebalanced once in this block, not 0 times\n\nbilling-2 joined; ")
    assert "billing-1 started the group" not in told  # that was before
    with pytest.raises(AssertionError) as failed, assert_rebalances(group, 2):
        broker.produce("orders", "one")
    assert str(failed.value) == "group 'billing' rebalanced 0 times in this block, not 2 times"


def test_a_block_that_fails_is_not_judged(broker: Broker) -> None:
    with pytest.raises(ValueError, match="the real failure"), assert_rebalances(broker.group("billing"), 1):
        raise ValueError("the real failure")


def test_a_forgotten_with_is_told(broker: Broker) -> None:
    with pytest.warns(RuntimeWarning, match=re.escape("assert_rebalances(…) without `with` asserts nothing")):
        assert_rebalances(broker.group("billing"), 1)


def test_what_cannot_be_asserted_says_what_was_meant(broker: Broker) -> None:
    wrong: Any = "billing"
    with pytest.raises(TypeError, match=r"assert_stable\('billing'\): give the group, such as broker.group\('billing'"):
        assert_stable(wrong)
    with pytest.raises(TypeError, match=r"assert_rebalances\('billing'\): give the group"):
        assert_rebalances(wrong, 1)
    with pytest.raises(TypeError, match=r"count_rebalances\('billing'\): give the group"):
        count_rebalances(wrong)
    with pytest.raises(TypeError, match=r"assert_no_loss\('billing'\): give the group"):
        assert_no_loss([], [], group=wrong)
    with pytest.raises(TypeError, match="times='1': write a number from 0"):
        assert_rebalances(broker.group("billing"), "1")  # type: ignore[arg-type]


# records


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes | None


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


@pytest.mark.parametrize(
    ("produced", "consumed"),
    [
        ([], []),
        ([], [b"a"]),
        ([b"a", "b"], ["b", b"a", b"a"]),
        ([Record("t", 0, 0, b"a")], [Record("t", 0, 0, b"a")]),
        ([Place("t", 0, 0)], [Record("t", 0, 0, b"a")]),
        ([Record("t", 0, 0, b"a"), Record("t", 0, 1, None)], ["a", None]),
        (iter([1, 2]), iter([2, 1])),
    ],
)
def test_nothing_is_lost(produced: Any, consumed: Any) -> None:
    assert_no_loss(produced, consumed)


@pytest.mark.parametrize(
    ("produced", "consumed", "said"),
    [
        ([b"a", b"b", b"c"], [b"b"], ["2 of 3 records were never consumed:", "  b'a'", "  b'c'"]),
        ([b"a", b"a"], [b"a"], ["1 of 2 records was never consumed:", "  b'a'"]),
        (
            [Record("t", 0, 0, b"a"), Record("t", 0, 1, b"a")],
            [Record("t", 0, 1, b"a")] * 2,
            ["1 of 2 records was never consumed:", "  t-0 at offset 0: b'a'"],
        ),
        ([Place("t", 0, 3)], [], ["1 of 1 records was never consumed:", "  t-0 at offset 3"]),
        ([Record("t", 2, 7, b"a")], [b"b"], ["1 of 1 records was never consumed:", "  t-2 at offset 7: b'a'"]),
        (range(12), [], ["12 of 12 records were never consumed:", *(f"  {n}" for n in range(10)), "  and 2 more"]),
    ],
)
def test_what_is_lost_is_named(produced: Any, consumed: Any, said: list[str]) -> None:
    with pytest.raises(AssertionError) as failed:
        assert_no_loss(produced, consumed)
    assert str(failed.value).splitlines() == said


def test_what_cannot_be_compared_says_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"t-0 at offset 3 is a place without a value.*compare broker.records\('…'\)"):
        assert_no_loss([Place("t", 0, 3)], [b"a"])
    with pytest.raises(TypeError, match=r"\{'id': 1\} cannot be compared: give the bytes"):
        assert_no_loss([{"id": 1}], [{"id": 1}])


@pytest.mark.e2e
async def test_a_loss_tells_why_the_group_rebalanced(broker: Broker, join: Join) -> None:
    await join("billing-1")
    sent = broker.produce("orders", "one")
    with pytest.raises(AssertionError, match=r"(?s)  orders-0 at offset 0\n\nbilling-1 started the group"):
        assert_no_loss(sent, [], group=broker.group("billing"))


@pytest.mark.e2e
async def test_records_of_any_client_are_compared(broker: Broker) -> None:
    sent = broker.produce("orders", ["one", "two"])
    options = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("orders", **options, **broker.client_config("aiokafka")) as client:
        assert_no_loss(sent, [await client.getone(), await client.getone()])
    assert_no_loss(sent, await asyncio.to_thread(of_confluent, broker))
    assert_no_loss(sent, await asyncio.to_thread(of_kafka_python, broker))
    with pytest.raises(AssertionError, match=r"orders-0 at offset 1: b'two'"):
        assert_no_loss(broker.records("orders"), (await asyncio.to_thread(of_confluent, broker))[:1])


def of_confluent(broker: Broker) -> list[Any]:
    config = {"group.id": "c", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    client = ConfluentConsumer(config | broker.client_config("confluent"))
    client.subscribe(["orders"])
    seen: list[Any] = []
    while len(seen) < 2:
        seen += client.consume(2, timeout=0.1)
    client.close()
    return seen


def of_kafka_python(broker: Broker) -> list[Any]:
    client = KafkaConsumer("orders", auto_offset_reset="earliest", **broker.client_config("kafka-python"))
    seen = [next(client), next(client)]
    client.close()
    return seen
