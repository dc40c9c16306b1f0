"""`Group` with a group of the protocol ``consumer``: waits, members, lag, evictions, pauses and faults."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from ottla.clients import Consumer, KafkaError
from ottla.testing import Broker

pytestmark = pytest.mark.e2e


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 4}) as running:
        yield running


class Service:
    """A consumer in a thread. While it is not ``free`` it works on its records, and so gives up nothing."""

    def __init__(self, broker: Broker, name: str, **more: Any) -> None:
        self.options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "billing", "client_id": name, **more}
        self.free = threading.Event()
        self.free.set()
        self.stopping = threading.Event()
        self.errors: list[str] = []
        self.thread = threading.Thread(target=asyncio.run, args=(self._run(),))
        self.thread.start()

    async def _run(self) -> None:
        fixed = {"group_protocol": "consumer", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 50}
        async with Consumer("orders", **self.options, **fixed) as consumer:
            while not self.stopping.is_set():
                try:
                    records = await consumer.getmany(timeout_ms=20)
                except KafkaError as error:
                    self.errors.append(error.code.name)
                    continue
                if records:
                    await asyncio.to_thread(self.free.wait)


@pytest.fixture
def service(broker: Broker) -> Iterator[Callable[..., Service]]:
    @contextmanager
    def living(name: str, **more: Any) -> Iterator[Service]:
        one = Service(broker, name, **more)
        try:
            yield one
        finally:
            one.free.set()
            one.stopping.set()
            one.thread.join()

    with ExitStack() as running:
        yield lambda name, **more: running.enter_context(living(name, **more))


def test_members_share_and_are_waited_for(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    assert (group.state, group.members, group.generation) == ("Dead", {}, -1)
    service("one")
    group.wait(members=1)
    before = group.generation
    service("two")
    group.wait(members=2)
    assert group.generation > before
    assert {one.client_id: len(one.assignment["orders"]) for one in group.members.values()} == {"one": 2, "two": 2}
    assert {one.epoch for one in group.members.values()} == {group.generation}
    broker.produce("orders", ["a", "b", "c"], partition=1)
    group.wait(lag=0)
    assert group.offsets["orders", 1] == 3
    assert "two joined" in group.why()


def test_a_member_that_does_not_give_up_what_it_shall(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    slow = service("slow")
    group.wait(members=1)
    slow.free.clear()
    for partition in range(4):
        broker.produce("orders", ["a"], partition=partition)
    service("other")
    group.wait(members=2, state="Reconciling")
    with pytest.raises(TimeoutError, match="at last it was Reconciling with 2 members"):
        group.wait(members=2, timeout=0.3)
    slow.free.set()
    group.wait(members=2, lag=0)


def test_who_is_evicted_joins_again(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    one = service("one")
    group.wait(members=1)
    before = group.generation
    group.evict(next(iter(group.members)))
    group.wait(members=1)
    assert group.generation > before and one.errors == []


def test_a_paused_group_stays_as_it_is(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    service("one")
    group.wait(members=1)
    group.pause()
    service("two")
    with pytest.raises(TimeoutError, match="it is paused"):
        group.wait(members=2, timeout=0.3)
    assert len(group.members) == 1
    group.resume()
    group.wait(members=2)


def test_a_fenced_epoch_by_a_fault(broker: Broker, service: Callable[..., Service]) -> None:
    """The member gives up what it had as lost, joins again with epoch 0, and the user sees no error."""
    group = broker.group("billing")
    one = service("one")
    group.wait(members=1)
    broker.fault("ConsumerGroupHeartbeat", group="billing", error="FENCED_MEMBER_EPOCH", times=1).wait()
    group.wait(members=1)
    broker.produce("orders", ["a"])
    group.wait(lag=0)
    assert one.errors == []


def test_a_fault_for_one_instance(broker: Broker, service: Callable[..., Service]) -> None:
    group = broker.group("billing")
    fault = broker.fault("ConsumerGroupHeartbeat", instance="i1", topic="orders", error="NOT_COORDINATOR", times=1)
    service("one")
    group.wait(members=1)
    assert fault.hits == 0
    service("two", group_instance_id="i1")
    fault.wait()
    group.wait(members=2)
