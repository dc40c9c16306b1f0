"""`Broker` as tests use it: topics and records, and groups that are looked at, waited for and evicted from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer

from ottla.clients import Producer
from ottla.testing import Broker

pytestmark = pytest.mark.e2e


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        yield running


class Service:
    """A confluent consumer in a thread, as a service has one: it commits what it has read."""

    def __init__(self, broker: Broker, name: str, group: str = "billing", topic: str = "orders") -> None:
        config = broker.client_config("confluent") | {
            "group.id": group, "client.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "heartbeat.interval.ms": 100, "session.timeout.ms": 6000,
        }  # fmt: skip
        self.values: list[bytes] = []
        self._stop = threading.Event()
        self._consumer = ConfluentConsumer(config)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and not message.error():
                self.values.append(message.value())
                self._consumer.commit(message, asynchronous=False)
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def service(broker: Broker) -> Iterator[Callable[..., Service]]:
    running: list[Service] = []

    def start(name: str, **options: Any) -> Service:
        running.append(Service(broker, name, **options))
        return running[-1]

    yield start
    for one in running:
        one.stop()


# topics and records


def test_records_are_what_was_produced(broker: Broker) -> None:
    placed = broker.produce("orders", [b"a", "b", None])
    assert [(one.topic, one.partition, one.offset) for one in placed] == [("orders", 0, at) for at in range(3)]
    broker.produce("orders", b"alone", key="k")
    found = broker.records("orders")
    assert [one.value for one in found] == [b"a", b"b", None, b"alone"]
    assert [one.offset for one in found] == [0, 1, 2, 3]
    assert [one.key for one in found] == [None, None, None, b"k"]


def test_records_of_an_empty_topic_are_none_and_of_several_partitions_stand_by_partition() -> None:
    with Broker(topics={"orders": 3}) as broker:
        assert broker.records("orders") == []
        for partition in (2, 0):
            broker.produce("orders", [b"x", b"y"], partition=partition)
        assert [(one.partition, one.offset, one.value) for one in broker.records("orders")] == [
            (0, 0, b"x"), (0, 1, b"y"), (2, 0, b"x"), (2, 1, b"y"),
        ]  # fmt: skip


def test_a_topic_may_have_settings() -> None:
    topics = {"audit": {"partitions": 2, "cleanup.policy": "compact"}, "plain": {"retention.ms": 1000}, "more": 3}
    with Broker(topics=topics) as broker:
        assert broker.topics == {"audit": 2, "plain": 1, "more": 3}
        described = {one.topic: one.configs for one in broker.run(lambda: list(broker.observatory.view.topics()))}
        assert described["audit"] == {"cleanup.policy": "compact"}
        assert described["plain"] == {"retention.ms": "1000"}


def test_records_of_transactions_count_once_they_are_committed(broker: Broker) -> None:
    async def run() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"dropped")
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"kept")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"open")
            await producer.flush()
            assert [one.value for one in await asyncio.to_thread(broker.records, "orders")] == [b"kept"]
            await producer.abort_transaction()

    asyncio.run(run())


# groups


def test_a_group_is_waited_for_and_looked_at(broker: Broker, service: Callable[..., Service]) -> None:
    broker.produce("orders", [b"a", b"b", b"c"])
    reader = service("reader-1")
    group = broker.group("billing")
    group.wait(members=1, lag=0)
    assert reader.values == [b"a", b"b", b"c"]
    assert (group.state, group.generation, group.lag) == ("Stable", 1, 0)
    assert group.offsets["orders", 0] == 3
    ((member_id, member),) = group.members.items()
    assert member.member_id == member_id
    assert (member.client_id, member.is_leader, member.assignment) == ("reader-1", True, {"orders": [0]})
    assert list(broker.groups) == ["billing"]
    assert broker.groups["billing"].state == "Stable"
    assert "reader-1 started the group" in group.why()


def test_what_nobody_has_read_is_lag(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    assert group.lag is None
    service("reader-1").stop()
    group.wait(members=0)
    broker.produce("orders", [b"a", b"b"])
    service("reader-2")
    group.wait(lag=0)
    assert group.offsets == {("orders", 0): 2}
    broker.produce("orders", [b"c"])
    group.wait(members=1, lag=0, timeout=20)
    assert group.offsets == {("orders", 0): 3}


def test_an_evicted_member_comes_back_as_another(broker: Broker, service: Callable[..., Service]) -> None:
    service("reader-1")
    group = broker.group("billing")
    group.wait(members=1)
    (first,) = group.members
    group.evict(first, reason="too slow")
    group.wait(members=1)
    (second,) = group.members
    assert second != first
    assert group.generation > 1
    assert "too slow" in group.why(last=10)


def test_a_group_that_is_not_there(broker: Broker) -> None:
    group = broker.group("nobody")
    assert (group.state, group.generation, group.members, group.offsets) == ("Dead", -1, {}, {})
    assert (group.lag, group.why(), broker.groups) == (None, "", {})
    group.wait(members=0)


def test_a_wait_in_vain_says_how_the_group_is(broker: Broker, service: Callable[..., Service]) -> None:
    service("reader-1")
    group = broker.group("billing")
    group.wait(members=1)
    said = r"was not as it should be in 0\.05 s: members=2, state='Stable'; at last it was Stable with 1 member, lag 0"
    with pytest.raises(TimeoutError, match=said):
        group.wait(members=2, timeout=0.05)


async def test_who_has_an_event_loop_waits_without_standing_still() -> None:
    async with Broker(topics=["orders"]) as broker:
        broker.produce("orders", [b"a"])
        options = broker.client_config("aiokafka") | {"group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", **options) as consumer:
            assert (await consumer.getone()).value == b"a"
            await consumer.commit()
            await broker.group("billing").wait_async(members=1, lag=0)


def test_kafka_python_connects_as_it_is_told(broker: Broker) -> None:
    broker.produce("orders", [b"a"])
    options = broker.client_config("kafka-python") | {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000}
    consumer = KafkaConsumer("orders", **options)
    assert next(consumer).value == b"a"
    consumer.close()


# what was meant


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda broker: broker.group(""), r"write the group's id, such as broker\.group\('billing'\)"),
        (lambda broker: broker.group("g").wait(members="2"), "members='2': write a number from 0"),
        (lambda broker: broker.group("g").wait(lag=-1), "lag=-1: write a number from 0"),
        (lambda broker: broker.group("g").wait(state="stable"), "state='stable': write one of PreparingRebalance"),
        (lambda broker: broker.group("g").evict("m"), r"group 'g' has no member 'm'; it has \[\]"),
        (lambda broker: broker.produce("orders", [1]), "values: 1 is neither bytes nor a text"),
        (lambda broker: broker.records("ordes"), r"there is no topic 'ordes'; there are \['orders'\]"),
        (lambda broker: broker.client_config("sarama"), "write one of 'confluent', 'aiokafka', 'kafka-python'"),
    ],
)
def test_a_wrong_argument_says_what_was_meant(broker: Broker, call: Callable[[Broker], Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        call(broker)


def test_a_process_has_no_settings_of_topics() -> None:
    from ottla.testing import BrokerProcess

    with pytest.raises(TypeError, match="settings of 'audit' are for Broker"):
        BrokerProcess(topics={"audit": {"cleanup.policy": "compact"}})
