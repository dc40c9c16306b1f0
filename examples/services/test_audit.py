"""Audit with a broker in the test: each event is kept, or is a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
from audit import DEAD_LETTERS, Audit

from ottla.testing import Broker

EVENTS = [f'{{"who": "anna", "what": "opened door {number}"}}' for number in range(5)]
pytestmark = pytest.mark.ottla(topics={"events": 2, DEAD_LETTERS: 1})


class CarelessAudit(Audit):
    """Audit as it was at first: it sent dead letters, and did not look whether they arrived."""

    def bury(self, value: bytes, reason: str) -> None:
        self._producer.send(DEAD_LETTERS, value, headers=[("reason", reason.encode())])


@contextmanager
def running(broker: Broker, kept: list[dict[str, str]], service: type[Audit] = Audit) -> Iterator[None]:
    """Run a service in a thread. What it raises fails the test."""
    stop = Event()
    audit = service(kept.append, **broker.client_config("kafka-python"))
    with ThreadPoolExecutor() as pool:
        done = pool.submit(audit.run, stop)
        try:
            yield
        finally:
            stop.set()
            done.result(10)


def doors(kept: list[dict[str, str]]) -> list[str]:
    return sorted(event["what"] for event in kept)


def test_events_are_kept(ottla_broker: Broker) -> None:
    ottla_broker.produce("events", [*EVENTS, "no JSON", '{"who": "bert"}'])
    kept: list[dict[str, str]] = []
    with running(ottla_broker, kept):
        ottla_broker.group("audit").wait(members=1, lag=0)
    assert doors(kept) == [f"opened door {number}" for number in range(5)]
    letters = ottla_broker.records(DEAD_LETTERS)
    assert [letter.value for letter in letters] == [b"no JSON", b'{"who": "bert"}']
    assert letters[1].headers == [("reason", b"KeyError('what')")]


def test_a_restart(ottla_broker: Broker) -> None:
    group = ottla_broker.group("audit")
    kept: list[dict[str, str]] = []
    for event in EVENTS[:2]:
        for partition in (0, 1):
            ottla_broker.produce("events", event, partition=partition)
        with running(ottla_broker, kept):
            group.wait(members=1, lag=0)
    assert doors(kept) == ["opened door 0", "opened door 0", "opened door 1", "opened door 1"]


def test_a_rebalance(ottla_broker: Broker) -> None:
    group = ottla_broker.group("audit")
    kept: list[dict[str, str]] = []
    with running(ottla_broker, kept):
        group.wait(members=1)
        with running(ottla_broker, kept):
            group.wait(members=2)
            for partition in (0, 1):
                ottla_broker.produce("events", EVENTS[partition::2], partition=partition)
            group.wait(members=2, lag=0)
    assert doors(kept) == [f"opened door {number}" for number in range(5)]


@pytest.mark.parametrize(("service", "letters"), [(Audit, 1), (CarelessAudit, 0)])
@pytest.mark.ottla_fault("Produce", topic=DEAD_LETTERS, error="UNKNOWN_SERVER_ERROR", times=1)
def test_a_refused_dead_letter(service: type[Audit], letters: int, ottla_broker: Broker) -> None:
    """An event is not done before its dead letter is there."""
    ottla_broker.produce("events", "no JSON")
    with running(ottla_broker, [], service):
        ottla_broker.group("audit").wait(members=1, lag=0)
    assert len(ottla_broker.records(DEAD_LETTERS)) == letters
