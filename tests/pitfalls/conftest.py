"""One broker for each file of tests; a file may give it settings in ``SETTINGS``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla.testing import Broker
from tests.support.client import Client, fresh

Connect = Callable[[], Client]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/pitfalls/" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(getattr(request.module, "SETTINGS", None)) as broker:
        yield broker


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Makes connections that are closed when the test is over."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Client(broker.port))


@pytest.fixture
def client(connect: Connect) -> Client:
    return connect()


@pytest.fixture
def topic(client: Client) -> str:
    """A topic of one partition that no other test has."""
    return client.topic()


@pytest.fixture
def group() -> str:
    """A group id that no other test has."""
    return fresh("group")
