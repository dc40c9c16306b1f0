"""Pytest fixtures, loaded by pytest wherever the package is installed; the broker is imported only when one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


@pytest.fixture
def ottla_broker_factory() -> Iterator[Callable[..., Broker]]:
    """Start brokers with the arguments of `ottla.testing.Broker`; they are stopped at the end of the test."""
    from ottla.testing.broker import Broker

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Broker:
            return stack.enter_context(Broker(*arguments, **options))

        yield start


@pytest.fixture
def ottla_broker(ottla_broker_factory: Callable[..., Broker]) -> Broker:
    """A fresh in-memory broker; ``ottla_broker.bootstrap_servers`` is its address."""
    return ottla_broker_factory()
