"""The ottla command against a broker in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

import pytest

from ottla.clients import Consumer
from ottla.testing.broker import Broker
from tests.cli.commands import Ottla as Ottla

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
    """A member of a group, on an event loop of its own, for as long as the block lasts."""
    joined: Future[None] = Future()
    loop = asyncio.new_event_loop()
    leaving = asyncio.Event()

    async def stay() -> None:
        try:
            async with Consumer(
                "orders",
                bootstrap_servers=bootstrap,
                group_id=group,
                client_id=client_id,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=2_000,  # with the default, it would take little for a member to be late
            ) as consumer:
                joined.set_result(None)
                while not leaving.is_set():
                    await consumer.getmany(timeout_ms=50)
        except BaseException as error:
            if not joined.done():
                joined.set_exception(error)
            raise

    thread = threading.Thread(target=lambda: loop.run_until_complete(stay()), daemon=True)
    thread.start()
    try:
        joined.result(30)
        yield
    finally:
        loop.call_soon_threadsafe(leaving.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """Let a member join; closing what is returned lets it leave."""
    with ExitStack() as members:

        def start(group: str, client_id: str) -> ExitStack:
            member = members.enter_context(ExitStack())
            member.enter_context(membership(broker.bootstrap_servers, group, client_id))
            return member

        yield start
