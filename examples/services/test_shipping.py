"""Shipping with a broker in the test: a shipment for each payment, exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from shipping import Batch, Shipping

from ottla.testing import Broker

PAYMENTS = [b"payment %d" % number for number in range(10)]
pytestmark = [pytest.mark.asyncio, pytest.mark.ottla(topics={"payments": 2, "shipments": 1})]


class CarelessShipping(Shipping):
    """Shipping as it was at first: it believed that the payments of a failed transaction come again by themselves."""

    def go_back(self, batch: Batch) -> None:
        pass


@pytest.fixture(autouse=True)
def payments(ottla_broker: Broker) -> None:
    """Each partition has some."""
    for partition in (0, 1):
        ottla_broker.produce("payments", PAYMENTS[partition::2], partition=partition)


@asynccontextmanager
async def running(broker: Broker, service: type[Shipping] = Shipping, name: str = "1") -> AsyncIterator[None]:
    """Run a service beside the test. What it raises fails the test."""
    stop = asyncio.Event()
    task = asyncio.create_task(service(broker.bootstrap_servers, name).run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await task


def shipments(broker: Broker) -> list[bytes]:
    """Those that count: `Broker.records` leaves out what was aborted."""
    return sorted(record.value or b"" for record in broker.records("shipments"))


async def test_payments_are_shipped(ottla_broker: Broker) -> None:
    async with running(ottla_broker):
        await ottla_broker.group("shipping").wait_async(members=1, lag=0)
    assert shipments(ottla_broker) == [b"ship " + payment for payment in PAYMENTS]


async def test_a_restart(ottla_broker: Broker) -> None:
    group = ottla_broker.group("shipping")
    async with running(ottla_broker):
        await group.wait_async(members=1, lag=0)
    ottla_broker.produce("payments", "one more")
    async with running(ottla_broker):
        await group.wait_async(members=1, lag=0)
    assert shipments(ottla_broker) == [b"ship one more", *(b"ship " + payment for payment in PAYMENTS)]


async def test_a_rebalance(ottla_broker: Broker) -> None:
    """The second instance begins where the first has committed, and both work."""
    group = ottla_broker.group("shipping")
    async with running(ottla_broker):
        await group.wait_async(members=1, lag=0)
        async with running(ottla_broker, name="2"):
            await group.wait_async(members=2)
            for partition in (0, 1):
                ottla_broker.produce("payments", "one more", partition=partition)
            await group.wait_async(members=2, lag=0)
    assert shipments(ottla_broker) == [b"ship one more"] * 2 + [b"ship " + payment for payment in PAYMENTS]


REFUSED = [
    ("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED"),
    ("Produce", "UNKNOWN_SERVER_ERROR"),
    ("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED"),
]


async def shipped_in_spite_of(api: str, error: str, service: type[Shipping], broker: Broker) -> list[bytes]:
    """What is shipped when the first transaction is refused; two payments come when that has happened."""
    topic = "shipments" if api == "Produce" else None
    fault = broker.fail(api, topic=topic, error=error, times=1)
    async with running(broker, service):
        await fault.wait_async()
        for partition in (0, 1):
            broker.produce("payments", "one more", partition=partition)
        await broker.group("shipping").wait_async(members=1, lag=0)
    return shipments(broker)


@pytest.mark.parametrize(("api", "error"), REFUSED)
async def test_a_refused_transaction(api: str, error: str, ottla_broker: Broker) -> None:
    shipped = await shipped_in_spite_of(api, error, Shipping, ottla_broker)
    assert shipped == [b"ship one more"] * 2 + [b"ship " + payment for payment in PAYMENTS]


async def test_a_refused_transaction_was_lost_at_first(ottla_broker: Broker) -> None:
    shipped = await shipped_in_spite_of(*REFUSED[0], CarelessShipping, ottla_broker)
    assert len(shipped) < len(PAYMENTS) + 2
