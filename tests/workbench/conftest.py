"""A broker of its own for each test, and raw connections to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.testing import Broker
from tests.support.client import Client


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        yield running


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., Client]]:
    """Opens connections, which are closed in the end."""
    opened: list[Client] = []

    def connect(client_id: str = "peer") -> Client:
        opened.append(Client(broker.port, client_id))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()
