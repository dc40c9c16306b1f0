"""One broker for the live tests of a worker; tests take names of their own for topics and groups."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.testing import Broker

_numbers = count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for topics and groups."""
    return f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:60]}-{next(_numbers)}"
