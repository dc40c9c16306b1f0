"""A broker with its HTTP port, and a client that says what it got."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.testing import Broker

Ask = Callable[..., "Answer"]


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """What a problem says."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["detail"])


def ask(url: str, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
    """Send one request; the path as it is."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())
    finally:
        connection.close()


def commit(broker: Broker, group_id: str) -> None:
    """Commit offset 5 of a partition of orders."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id})
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for the tests of a file; they do not change it."""
    with Broker(http=True, topics={"orders": 3, "payments": 1}) as running:
        yield running


@pytest.fixture
def get(broker: Broker) -> Ask:
    """Ask that broker."""
    return lambda path, **headers: ask(broker.http_url, path, **headers)
