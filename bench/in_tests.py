#!/usr/bin/env python3
"""Measure what a broker of its own costs each test, and what rules for faults cost requests that they are not about.

The tests are run by pytest with pytest-xdist, each in a fresh broker of the plugin. Heartbeats are given to the
dispatcher of an embedded broker, without sockets; the kinds of rules take turns.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.clients import Consumer
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.testing import Broker
from ottla.workbench.rule import Rule

HEARTBEATS = 20_000
SMALL = """
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_fresh(ottla_broker, number):
    assert ottla_broker.topics == {{}}
"""
WITH_CLIENT = """
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

@pytest.mark.parametrize("number", range({tests}))
def test_fresh(ottla_broker, number):
    config = ottla_broker.client_config("confluent")
    admin = AdminClient(config)
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(10)
    producer = Producer(config)
    producer.produce("orders", b"%d" % number)
    producer.flush(10)
    consumer = Consumer({{**config, "group.id": "billing"}})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert consumer.poll(10).value() == b"%d" % number
    consumer.close()
"""
RULES = {
    "no rule": None,
    "a rule for SyncGroup": Rule.of("SyncGroup", drop="request"),
    "a rule for another group's Heartbeat": Rule.of("Heartbeat", group="other", drop="request"),
}


def tests_took_s(text: str, tests: int, workers: int) -> float:
    """The time in which pytest runs so many tests.

    Raises:
        RuntimeError: one failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_fresh.py").write_text(text.format(tests=tests), encoding="utf-8")
        began_s = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        took_s = time.monotonic() - began_s
        if done.returncode or f"{tests} passed" not in done.stdout:
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return took_s


class _Peer:
    """A connection that only sends heartbeats."""

    def __init__(self) -> None:
        self.open = self.repeat = self.prepared = self.on_gone = None
        self.client_id, self.client_id_bytes, self.client_host, self.client_software = "", b"", "/bench", ""
        self.half_closed = False


def heartbeats_us(broker: Broker, rule: Rule | None) -> Callable[[], float]:
    """The function that gives the time of a heartbeat while a rule is in force; to be called on the broker's loop."""
    (member_id,) = broker.group("billing").members
    request = HeartbeatRequest(group_id="billing", generation_id=1, member_id=member_id)
    body = HeartbeatRequest.layout(4).encode(request)
    frame = frame_request(ApiKey.HEARTBEAT, 4, 1, "bench", body, flexible=True)[4:]

    def measure() -> float:
        bench = broker.workbench
        fault = None if rule is None else bench.faults.add(rule)
        peer: Any = _Peer()
        receive = bench._dispatcher.receive
        receive(frame, 0, peer)
        began_s = time.perf_counter()
        for _ in range(HEARTBEATS):
            receive(frame, 0, peer)
        took_s = time.perf_counter() - began_s
        if fault is not None:
            fault.remove()
        return took_s / HEARTBEATS * 1e6

    return measure


@click.command()
@click.option("--tests", default=1000, help="How many tests.")
@click.option("--workers", default=2, help="Of pytest-xdist.")
@click.option("--rounds", default=21, help="Of heartbeats.")
def main(tests: int, workers: int, rounds: int) -> None:
    """Measure brokers in tests."""
    for name, text in (
        ("a fresh broker each", SMALL),
        ("with a topic, a record written and read by confluent-kafka", WITH_CLIENT),
    ):
        click.echo(f"{tests} tests, {name}: {tests_took_s(text, tests, workers):.1f} s")
    times: dict[str, list[float]] = {name: [] for name in RULES}
    with Broker(topics=["orders"]) as broker:
        consumer = Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing")
        broker.call(consumer.start())
        broker.group("billing").wait(members=1)
        for _ in range(rounds):
            for name in random.sample(list(RULES), len(RULES)):
                times[name].append(broker.run(heartbeats_us(broker, RULES[name])))
        broker.call(consumer.stop())
    without = times["no rule"]
    for name, found in times.items():
        ratios = sorted(one / other for one, other in zip(found, without, strict=True))
        middle = statistics.median(found)
        click.echo(
            f"a heartbeat in the dispatcher, {name}: {middle:.2f} µs, {statistics.median(ratios):.3f} of no rule "
            f"({ratios[len(ratios) // 4]:.3f}–{ratios[-len(ratios) // 4]:.3f})"
        )


if __name__ == "__main__":
    main()
