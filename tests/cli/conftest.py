"""The ottla command against a broker in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ottla.testing.broker import Broker
from tests.cli.commands import Ottla as Ottla
from tests.support.members import Role, member
from tests.support.waiting import wait_for

Join = Callable[..., ExitStack]


@pytest.fixture
def broker(ottla_broker_factory: Callable[..., Broker]) -> Broker:
    """With a topic ``orders`` of three partitions."""
    return ottla_broker_factory(topics={"orders": 3})


@pytest.fixture
def ottla(broker: Broker) -> Ottla:
    return Ottla(broker.bootstrap_servers)


@contextmanager
def membership(bootstrap: str, group: str, client_id: str) -> Iterator[None]:
    """A member of a group for as long as the block lasts."""
    options = {"heartbeat_interval_ms": 2_000}  # with the default, it would take little for a member to be late
    one = member(Role("ottla", bootstrap, group, ("orders",), client_id, session_timeout_ms=45_000, options=options))
    one.start()
    try:
        wait_for(lambda: one.changes, f"{client_id} to join", show=lambda: one)
        yield
    finally:
        one.stop()


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """Let a member join; closing what is returned lets it leave."""
    with ExitStack() as members:

        def start(group: str, client_id: str) -> ExitStack:
            member = members.enter_context(ExitStack())
            member.enter_context(membership(broker.bootstrap_servers, group, client_id))
            return member

        yield start
