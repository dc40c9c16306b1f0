"""A bug in a handler that works on in a task: its client is answered all the same, and goes on."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from ottla.broker.core.quotas.entities import entity_of
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.dispatch import Dispatcher
from ottla.broker.net.connection import Connection
from ottla.broker.runtime.metering import ConnectionMeter
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.shell.host import Log, Transport, UnboundedHost, answers
from tests.support.peer import request_frame

_VERSION = 4
_CODE = ApiKey.INIT_PRODUCER_ID << 16 | _VERSION


class World(UnboundedHost):
    """A connection whose requests are all served by `serve`; ``unheard`` is what tasks failed with."""

    max_request_bytes = 1 << 20

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = Log()
        self.unheard: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.unheard.append(context))
        self.dispatcher = Dispatcher(SimpleNamespace(), self.log)
        self.receive = self.dispatcher.receive
        self.transport = Transport()
        self.connection = Connection(self, self.loop)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def rejected(self, connection: Connection, reason: str) -> None: ...

    def limit(self) -> None:
        quotas = ClientQuotas(Settings())
        quotas.set({entity_of([("client-id", "c")]): {"request_percentage": 1.0}}, {})
        clock: Any = SimpleNamespace(monotonic_ms=lambda: 0)
        self.dispatcher.meter = ConnectionMeter(quotas, clock, lambda: 0)

    def serve(self, handle: Callable[..., Any], **changes: Any) -> None:
        route = self.dispatcher._route(_CODE)
        self.dispatcher.routes[_CODE] = dataclasses.replace(route, handle=handle, **changes)

    async def ask(self, *correlation_ids: int) -> None:
        asked = InitProducerIdRequest(transaction_timeout_ms=1)
        code = ApiKey.INIT_PRODUCER_ID, _VERSION
        frames = [request_frame(*code, asked, number, "c") for number in correlation_ids]
        self.connection.data_received(b"".join(frames))
        for _ in range(20):
            await asyncio.sleep(0)

    def answers(self) -> list[tuple[int, int]]:
        """Correlation ids and error codes."""
        told = answers(self.transport.written, ApiKey.INIT_PRODUCER_ID, _VERSION)
        return [(correlation_id, answer.error_code) for correlation_id, answer in told]


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """At the end no task has failed unheard."""
    made = World()
    yield made
    assert made.unheard == []


async def broken(request: Any, ctx: Any, services: Any) -> Any:
    await asyncio.sleep(0)
    raise LookupError("a bug of ours")


@pytest.mark.parametrize("metered", [False, True])
async def test_the_client_hears_of_it_and_goes_on(world: World, metered: bool) -> None:
    if metered:
        world.limit()
    world.serve(broken)
    await world.ask(1, 2)
    await world.ask(3)
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.answers() == [(1, error), (2, error), (3, error)]
    assert world.connection.open is None
    assert world.log.events == ["request failed"] * 3


async def test_what_was_answered_before_the_bug_is_not_answered_again(world: World) -> None:
    async def answers_first(request: Any, ctx: Any, services: Any) -> None:
        ctx.reply(api(ApiKey.INIT_PRODUCER_ID).response())
        raise LookupError("a bug of ours")

    world.serve(answers_first)
    await world.ask(1)
    assert world.answers() == [(1, 0)]
    assert world.log.events == ["request failed"]


async def test_a_bug_after_the_client_has_gone_is_logged(world: World) -> None:
    gone = asyncio.Event()

    async def waits(request: Any, ctx: Any, services: Any) -> None:
        await gone.wait()
        raise LookupError("a bug of ours")

    world.serve(waits)
    await world.ask(1)
    world.connection.connection_lost(None)
    gone.set()
    await world.ask()
    assert world.answers() == []
    assert world.log.events == ["request failed"]


async def test_a_bug_that_no_answer_can_tell_of_closes_the_connection(world: World) -> None:
    def unanswerable(response: Any, correlation_id: int) -> Any:
        raise TypeError("not to be encoded")

    world.serve(broken, encode=unanswerable)
    await world.ask(1)
    assert world.transport.closed
    assert world.log.events == ["request failed", "request cannot be answered"]
