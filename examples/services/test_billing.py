"""Billing with a broker in the test: it books each order once, whatever becomes of its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from billing import Billing

from ottla.testing import Broker

ORDERS = [b"order %d" % number for number in range(10)]
pytestmark = pytest.mark.ottla(topics={"orders": 2})


class CarelessBilling(Billing):
    """Billing as it was at first: it did not care whether it still had the partitions of what it had collected."""

    def on_revoke(self, *_: Any) -> None:
        pass

    def on_lost(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def orders(ottla_broker: Broker) -> None:
    """Each partition has some."""
    for partition in (0, 1):
        ottla_broker.produce("orders", ORDERS[partition::2], partition=partition)


@pytest.fixture
def config(ottla_broker: Broker) -> dict[str, Any]:
    return {**ottla_broker.client_config("confluent"), "heartbeat.interval.ms": 100}


@contextmanager
def running(service: Billing) -> Iterator[None]:
    """Run a service in a thread. What it raises fails the test."""
    stop = Event()
    with ThreadPoolExecutor() as pool:
        done = pool.submit(service.run, stop)
        try:
            yield
        finally:
            stop.set()
            done.result(10)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_orders_are_booked(ottla_broker: Broker, config: dict[str, Any]) -> None:
    booked: list[bytes] = []
    with running(Billing(config, booked.extend, batch_size=5)):
        ottla_broker.group("billing").wait(members=1, lag=0)
    assert sorted(booked) == ORDERS


def test_a_restart(ottla_broker: Broker, config: dict[str, Any]) -> None:
    """An end in order books what was collected, and a new start does not book it again."""
    booked: list[bytes] = []
    service = Billing(config, booked.extend)
    with running(service):
        wait_for(lambda: len(service.orders) == len(ORDERS))
    ottla_broker.produce("orders", "one more")
    with running(Billing(config, booked.extend, batch_size=1)):
        ottla_broker.group("billing").wait(members=1, lag=0)
    assert sorted(booked) == [b"one more", *ORDERS]


@pytest.mark.parametrize(("service", "times"), [(Billing, 1), (CarelessBilling, 2)])
def test_a_rebalance(service: type[Billing], times: int, ottla_broker: Broker, config: dict[str, Any]) -> None:
    """What was collected is booked by the one that collected it, and by nobody else."""
    booked: list[bytes] = []
    first, second = service(config, booked.extend), service(config, booked.extend)
    with running(first):
        wait_for(lambda: len(first.orders) == len(ORDERS))
        with running(second):
            ottla_broker.group("billing").wait(members=2)
            wait_for(lambda: len(booked) + len(first.orders) + len(second.orders) == len(ORDERS) * times)
    assert sorted(booked) == sorted(ORDERS * times)


@pytest.mark.parametrize(("service", "times"), [(Billing, 1), (CarelessBilling, 2)])
def test_a_lost_membership(service: type[Billing], times: int, ottla_broker: Broker, config: dict[str, Any]) -> None:
    """The coordinator has forgotten the member: it must not book what is read again, and it joins again."""
    booked: list[bytes] = []
    billing = service(config, booked.extend)
    with running(billing):
        wait_for(lambda: len(billing.orders) == len(ORDERS))
        with ottla_broker.fault("Heartbeat", hold="request") as fault:
            fault.wait()
            ottla_broker.clock.advance(minutes=1)  # its session ends
        ottla_broker.group("billing").wait(members=1)
        wait_for(lambda: len(billing.orders) == len(ORDERS) * times)
    assert sorted(booked) == sorted(ORDERS * times)
