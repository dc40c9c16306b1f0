"""Real clients at a broker whose time is moved: what takes days takes milliseconds here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ottla.broker.core.events import DeadlinesHeld, DeadlinesMoved, FaultFired, OffsetsRemoved, SessionExpired
from ottla.observe.recording import open_recording
from ottla.testing import Broker
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as running:
        yield running


def consumer(broker: Broker, **options: Any) -> Consumer:
    config = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    names = {name.replace("_", "."): value for name, value in options.items()}
    made = Consumer(broker.client_config("confluent") | config | names)
    made.subscribe(["orders"])
    return made


def read_one(reader: Consumer) -> Any:
    message = reader.poll(20)
    assert message is not None and not message.error(), message
    return message


class Service:
    """A consumer that polls in a thread of its own."""

    def __init__(self, broker: Broker, **options: Any) -> None:
        self.values: list[bytes] = []
        self.consumer = consumer(broker, **options)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self.consumer.poll(0.05)
            if message is not None and not message.error():
                self.values.append(message.value())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.consumer.close()


def test_offsets_expire_after_seven_days(broker: Broker) -> None:
    broker.produce("orders", [b"a"])
    reader = consumer(broker, group_protocol="classic")
    reader.commit(read_one(reader), asynchronous=False)
    reader.close()
    assert len(broker.group("billing").offsets) == 1
    broker.clock.advance(days=7, minutes=20)
    assert broker.group("billing").offsets == {}


def test_a_static_member_has_thirty_minutes_to_come_back(broker: Broker) -> None:
    options = {"group_instance_id": "one", "session_timeout_ms": 1_800_000, "max_poll_interval_ms": 1_800_000}
    broker.produce("orders", [b"a"])
    reader = consumer(broker, **options)
    read_one(reader)
    reader.close()  # static members do not leave
    group = broker.group("billing")
    broker.clock.advance(minutes=29)
    assert [one.group_instance_id for one in group.members.values()] == ["one"]
    broker.clock.advance(minutes=1)
    assert (group.state, group.members) == ("Empty", {})


def test_a_transaction_times_out(broker: Broker) -> None:
    config = {"transactional.id": "t", "transaction.timeout.ms": 60_000}
    writer = Producer(broker.client_config("confluent") | config)
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce("orders", b"lost", partition=0)
    writer.flush(20)
    broker.clock.advance(minutes=2)
    with pytest.raises(KafkaException):
        writer.commit_transaction(20)
    assert broker.records("orders") == []


def test_the_initial_delay_passes_when_time_does() -> None:
    with Broker({"group.initial.rebalance.delay.ms": 240_000}, topics=["orders"]) as broker:
        broker.clock.freeze()
        reader = Service(broker)
        try:
            group = broker.group("billing")
            group.wait(state="PreparingRebalance", members=1)
            broker.clock.advance(minutes=4)
            group.wait(members=1)
            assert group.generation == 1
        finally:
            reader.stop()


def test_members_that_are_held_live_through_a_week(broker: Broker) -> None:
    readers = [Service(broker), Service(broker)]
    try:
        group = broker.group("billing")
        group.wait(members=2)
        generation, members = group.generation, group.members.keys()
        broker.clock.advance(days=7, hold=True)
        for partition in (0, 1):
            broker.produce("orders", b"later", partition=partition)
        wait_for(lambda: all(reader.values == [b"later"] for reader in readers), "a record for each")
        broker.clock.advance(seconds=30)  # the sessions of 45 s have as much left as they had
        assert (group.state, group.generation, group.members.keys()) == ("Stable", generation, members)
    finally:
        for reader in readers:
            reader.stop()


def test_members_that_are_not_held_are_expelled_and_come_back(broker: Broker) -> None:
    reader = Service(broker, heartbeat_interval_ms=100)
    try:
        group = broker.group("billing")
        group.wait(members=1)
        before = group.members.keys()
        broker.clock.advance(minutes=1)
        group.wait(members=1)
        assert not before & group.members.keys()
    finally:
        reader.stop()


def test_what_was_recorded_under_faults_and_virtual_time_is_played_back(tmp_path: Path) -> None:
    """Whatever the order of sets may be."""
    path = tmp_path / "week.rec"
    with Broker({"ottla.recorder.file": str(path)}, topics={"orders": 2}) as broker:
        broker.produce("orders", [b"a"], partition=0)
        reader = consumer(broker)
        reader.commit(read_one(reader), asynchronous=False)
        lost = broker.fail("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", on="response", times=1)
        with lost, pytest.raises(KafkaException):
            reader.commit(offsets=reader.position(reader.assignment()), asynchronous=False)
        broker.clock.advance(days=7, hold=["billing", "not there"])
        reader.commit(offsets=reader.position(reader.assignment()), asynchronous=False)
        broker.clock.scale(100)
        broker.clock.freeze()
        broker.clock.advance(hours=1)
        reader.close()
        broker.clock.advance(days=8)
        assert not broker.groups
    kinds = {type(event) for event in open_recording(path).events()}
    assert {DeadlinesHeld, DeadlinesMoved, FaultFired, OffsetsRemoved, SessionExpired} < kinds
    told = [
        subprocess.run(
            [sys.executable, "-m", "ottla.cli", "replay", str(path), "--format", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert told[0] == told[1]
    assert '"differences": []' in told[0]
