"""Quotas at work, without sockets: who has to wait is told at once, and is not read from for so long (KIP-219)."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.core.quotas.entities import entity_of
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.core.security.session import ANONYMOUS, Session
from ottla.broker.dispatch import Dispatcher
from ottla.broker.handlers.permits import permit, permit_by_asking
from ottla.broker.net.connection import Connection
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.runtime.metering import ConnectionMeter
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from tests.shell import host
from tests.shell.host import Clock, Log, Loop, Transport
from tests.support.peer import request_frame
from tests.support.requests import produce_fields, request
from tests.support.rules import OPEN


class World:
    """A broker that answers heartbeats, ListGroups and Produce; ``loop`` has what would be done next."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = Loop()
        self.ns = 0
        self.parked: list[RequestContext] = []
        self.services = SimpleNamespace(
            cluster=SimpleNamespace(has_others=False, placement=SimpleNamespace(has_lease=True)),
            host=SimpleNamespace(enter=lambda entry, request, ctx: entry(request, ctx)),
            groups=SimpleNamespace(heartbeat=lambda request, now_ms: 0, list_groups=self.list_groups),
            clock=self.clock,
            settings=Settings(),
            topics=SimpleNamespace(topics={}, by_id={}),
            **OPEN,
        )
        self.dispatcher = Dispatcher(self.services, Log())
        self.quotas = ClientQuotas(Settings())
        self.meter = ConnectionMeter(self.quotas, self.clock, lambda: self.ns)
        self.server = SocketServer(Settings(), self.clock, self.dispatcher.receive, Log())

    def list_groups(self, request: Any, ctx: RequestContext) -> Any:
        if "park" in request.states_filter:
            self.parked.append(ctx)
            return None
        return api(ApiKey.LIST_GROUPS).response()

    def limit(self, **values: float) -> None:
        self.quotas.set({entity_of([("client-id", "c")]): dict(values)} if values else {}, {})
        self.dispatcher.meter = self.meter if self.quotas.of_requests else None

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.loop.run()

    def connect(self, address: str = "10.0.0.7") -> Connection:
        connection = Connection(self.server, self.loop)  # type: ignore[arg-type]
        connection.connection_made(Transport(address))  # type: ignore[arg-type]
        return connection


@pytest.fixture
def world() -> World:
    return World()


def frame(key: ApiKey, version: int, client_id: str = "c", **fields: Any) -> bytes:
    return request_frame(key, version, request(key, fields), 1, client_id)


def groups(client_id: str = "c", *states: str) -> bytes:
    return frame(ApiKey.LIST_GROUPS, 4, client_id, states_filter=list(states))


def produce(size: int, acks: int = -1) -> bytes:
    """A Produce of so many bytes, for a topic that there is not."""

    def made(records: bytes) -> bytes:
        return frame(ApiKey.PRODUCE, 9, **produce_fields("t", records, acks=acks))

    whole = made(b"x" * (1000 + size - (len(made(b"x" * 1000)) - 4)))
    assert len(whole) == size + 4
    return whole


def heartbeat() -> bytes:
    return frame(ApiKey.HEARTBEAT, 4, group_id="g", member_id="m", generation_id=1)


def transport(connection: Connection) -> Transport:
    return connection._transport  # type: ignore[return-value]


def answers(connection: Connection, key: ApiKey, version: int) -> list[Any]:
    """The answers since the last look, all to requests of one kind."""
    return [answer for _, answer in host.answers(transport(connection).take(), key, version)]


@pytest.fixture
def connection(world: World) -> Connection:
    return world.connect()


@pytest.fixture
def muted(world: World, connection: Connection) -> Connection:
    """A connection that has produced so much that it has to wait for two seconds."""
    world.limit(producer_byte_rate=1_000)
    connection.data_received(produce(12_000))
    return connection


def only(connection: Connection, key: ApiKey, version: int) -> Any:
    """The one answer since the last look."""
    (answer,) = answers(connection, key, version)
    return answer


def test_without_a_quota_there_is_no_meter_and_no_timer(world: World, connection: Connection) -> None:
    for data in (heartbeat(), heartbeat(), groups(), produce(5_000)):
        connection.data_received(data)
    assert connection.open is None
    assert connection.repeat is not None
    assert world.clock.timers == []
    assert world.loop.soon == []


def test_a_client_that_produced_too_much_is_told_at_once_and_not_read_from(world: World, muted: Connection) -> None:
    assert only(muted, ApiKey.PRODUCE, 9).throttle_time_ms == 2_000
    assert not transport(muted).reading
    muted.data_received(groups())  # what the transport had read already
    assert transport(muted).written == b""
    world.advance(1_999)
    assert transport(muted).written == b""
    world.advance(1)
    assert only(muted, ApiKey.LIST_GROUPS, 4).throttle_time_ms == 0
    assert transport(muted).reading
    assert muted.open is None


def test_frames_of_one_read_wait_too(world: World, connection: Connection) -> None:
    world.limit(producer_byte_rate=1_000)
    connection.data_received(produce(12_000) + groups() + groups())
    assert len(answers(connection, ApiKey.PRODUCE, 9)) == 1
    world.advance(2_000)
    assert len(answers(connection, ApiKey.LIST_GROUPS, 4)) == 2


def test_produce_requests_are_served_one_by_one(world: World, connection: Connection) -> None:
    world.limit(producer_byte_rate=1_000)
    connection.data_received(produce(6_000) + produce(6_000) + produce(6_000))
    assert [answer.throttle_time_ms for answer in answers(connection, ApiKey.PRODUCE, 9)] == [0, 2_000]
    world.advance(2_000)
    assert len(answers(connection, ApiKey.PRODUCE, 9)) == 1


def test_who_wants_no_answer_waits_as_well(world: World, connection: Connection) -> None:
    world.limit(producer_byte_rate=1_000, request_percentage=0.001)
    code = ApiKey.PRODUCE << 16 | 9
    route = world.dispatcher._route(code)
    world.dispatcher.routes[code] = dataclasses.replace(route, handle=lambda request, ctx, services: ctx.no_reply())
    connection.data_received(produce(12_000, acks=0) + groups())
    world.advance(1_999)
    assert transport(connection).written == b""
    world.advance(1)
    assert len(answers(connection, ApiKey.LIST_GROUPS, 4)) == 1


def test_others_do_not_wait(world: World, muted: Connection) -> None:
    other = world.connect()
    other.data_received(groups())
    assert len(answers(other, ApiKey.LIST_GROUPS, 4)) == 1
    assert muted.is_muted


def test_time_is_counted(world: World, connection: Connection) -> None:
    world.limit(request_percentage=1)

    def slow(request: Any, now_ms: int) -> int:
        world.ns += 110_000_000
        return 0

    world.services.groups.heartbeat = slow
    connection.data_received(heartbeat())
    # 11 % in ten seconds for 1 %, and no longer than a window
    assert only(connection, ApiKey.HEARTBEAT, 4).throttle_time_ms == 1_000
    world.advance(1_000)
    world.services.groups.heartbeat = lambda request, now_ms: 0
    world.limit()
    connection.data_received(heartbeat())
    assert only(connection, ApiKey.HEARTBEAT, 4).throttle_time_ms == 0  # the answer of all others was not touched


def test_a_request_is_not_charged_for_the_time_that_it_waits(world: World, connection: Connection) -> None:
    world.limit(request_percentage=1)
    connection.data_received(groups("c", "park"))
    world.ns += 1_000_000_000_000
    world.parked[0].reply(api(ApiKey.LIST_GROUPS).response())
    world.loop.run()
    assert only(connection, ApiKey.LIST_GROUPS, 4).throttle_time_ms == 0


def test_brokers_among_themselves_do_not_wait(world: World) -> None:
    ctx = SimpleNamespace(charged=False, api_key=ApiKey.WRITE_TXN_MARKERS, began_ns=0, spent_ns=None, client_id="c")
    world.limit(request_percentage=0.001)
    world.ns = 1_000_000_000
    assert world.meter._spent(ctx, 0) == 0  # type: ignore[arg-type]


def test_a_connection_that_is_lost_lets_go_of_its_timer(world: World, muted: Connection) -> None:
    muted.connection_lost(None)
    assert [timer.cancelled for timer in world.clock.timers] == [True]


def test_a_client_that_ended_its_side_is_closed_after_it_has_waited(world: World, muted: Connection) -> None:
    assert muted.eof_received()
    world.advance(2_000)
    assert transport(muted).closed


def test_a_client_that_waits_too_long_is_closed_as_idle(world: World, connection: Connection) -> None:
    world.limit(producer_byte_rate=0.001)
    connection.data_received(produce(12_000))
    assert world.clock.timers[0].when_ms > 10 * Settings().connections_max_idle_ms
    world.server._sweep()
    world.clock.advance(Settings().connections_max_idle_ms - 1)
    world.server._sweep()
    assert not transport(connection).closed
    world.clock.advance(1)
    world.server._sweep()
    assert transport(connection).closed
    connection.connection_lost(None)
    assert world.clock.timers[0].cancelled


def test_nobody_is_waited_for_at_the_end(world: World, muted: Connection) -> None:
    assert muted.is_waited_for
    world.meter.unmute_all()
    assert not muted.is_waited_for
    assert not muted.is_muted


def test_nobody_is_muted_after_the_end(world: World) -> None:
    world.limit(request_percentage=0.001, producer_byte_rate=1_000)
    connection, parked = world.connect(), world.connect()
    parked.data_received(groups("c", "park"))
    world.meter.unmute_all()
    connection.data_received(produce(12_000))
    assert only(connection, ApiKey.PRODUCE, 9).throttle_time_ms == 2_000
    world.parked[0].reply(api(ApiKey.LIST_GROUPS).response())
    assert not connection.is_waited_for
    assert not parked.is_waited_for
    assert not connection.is_muted
    assert world.clock.timers == []


def test_what_repeats_is_measured_once_there_is_a_quota(world: World, connection: Connection) -> None:
    connection.data_received(heartbeat())
    assert connection.repeat is not None
    connection.repeat = None  # as the broker does when quotas change
    world.limit(request_percentage=1)
    connection.data_received(heartbeat())
    connection.data_received(heartbeat())
    assert connection.repeat is None
    assert len(world.quotas.request.meters) == 1


def test_a_bug_is_answered_and_nobody_waits(world: World, connection: Connection) -> None:
    world.limit(request_percentage=1)

    def broken(request: Any, now_ms: int) -> int:
        raise LookupError("a bug of ours")

    world.services.groups.heartbeat = broken
    connection.data_received(heartbeat())
    assert only(connection, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert connection.open is None


def test_partitions_are_permitted(world: World) -> None:
    assert permit(RequestContext(world.connect(), 7, 1, "c", lambda response, _: b""), 6) is None
    world.limit(controller_mutation_rate=1)
    ctx: Any = SimpleNamespace(meter=world.meter, api_version=6, client_id="c", session=ANONYMOUS, owed_ms=0)
    ask = permit(ctx, 6)
    assert ask is not None
    assert ask(15) is None
    refusal = ask(1)
    assert refusal is not None
    assert (refusal.error_code, ctx.owed_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 4_000)
    old: Any = SimpleNamespace(meter=world.meter, api_version=5, client_id="c", session=ANONYMOUS, owed_ms=0)
    ask = permit(old, 6)
    assert ask is not None
    assert ask(1) is None
    assert old.owed_ms == 5_000


def test_partitions_by_asking_are_not_waited_for(world: World) -> None:
    assert permit_by_asking(RequestContext(world.connect(), 7, 1, "c", lambda response, _: b"")) is None
    world.limit(controller_mutation_rate=1)
    ctx: Any = SimpleNamespace(meter=world.meter, api_version=0, client_id="c", session=ANONYMOUS, owed_ms=0)
    ask = permit_by_asking(ctx)
    assert ask is not None
    assert ask(12) is None
    refusal = ask(1)
    assert refusal is not None
    assert (refusal.error_code, ctx.owed_ms) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_too_many_connections_of_an_address_are_closed_after_a_while(world: World) -> None:
    world.quotas.set({(("ip", None),): {"connection_creation_rate": 1.0}}, {})
    world.server.wait_of = lambda address: world.quotas.addresses.opened(address, world.clock.now_ms)
    welcome = [world.connect() for _ in range(10)]
    turned_away = world.connect()
    world.loop.run()
    assert all(transport(connection).reading for connection in welcome)
    assert not transport(turned_away).reading
    turned_away.data_received(groups())
    assert transport(turned_away).written == b""
    welcome[0].data_received(groups())
    assert len(answers(welcome[0], ApiKey.LIST_GROUPS, 4)) == 1
    world.clock.advance(999)
    assert not transport(turned_away).closed
    world.clock.advance(1)
    assert transport(turned_away).closed
    turned_away.connection_lost(None)
    assert turned_away not in world.server.connections
    assert transport(world.connect("10.0.0.8")).reading


def test_a_stopping_broker_does_not_wait_for_those_it_turned_away(world: World) -> None:
    world.server.wait_of = lambda address: 500
    connection = world.connect()
    world.server.stop_accepting()
    assert transport(connection).closed


def test_quotas_of_users_go_by_the_session(world: World) -> None:
    """Two clients with the same client id are two users, and have a quota each."""
    limits = {"request_percentage": 1.0}
    world.quotas.set({entity_of([("user", "alice")]): limits, entity_of([("user", "ANONYMOUS")]): limits}, {})
    world.dispatcher.meter = world.meter
    alice, nobody, bob = world.connect(), world.connect(), world.connect()
    alice.session = Session(principal="User:alice", mechanism="PLAIN")
    bob.session = Session(principal="User:bob", mechanism="PLAIN")

    def list_slowly(request: Any, ctx: RequestContext) -> Any:
        world.ns += 1_000_000_000
        return api(ApiKey.LIST_GROUPS).response()

    world.services.groups.list_groups = list_slowly
    waits = []
    for connection in (alice, nobody, bob):
        connection.data_received(groups())
        (answer,) = answers(connection, ApiKey.LIST_GROUPS, 4)
        waits.append(answer.throttle_time_ms > 0)
    assert waits == [True, True, False]
