"""Produce requests that wait for the disk together, and large frames: answers are the same and in the same order."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.net.connection import OVERLAPPING_BYTES, OVERLAPPING_REQUESTS, Connection
from ottla.broker.net.large_frame import LARGE_BYTES, Buffers, LargeFrame
from tests.shell import host
from tests.shell.host import framed

PRODUCE, FETCH = b"\0\0", b"\0\1"


class Transport(host.Transport):
    """Gives what is read to the protocol of the moment, as asyncio's transports do."""

    protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        assert not self.reading, "a transport that reads does not notice"
        self.protocol = protocol

    def close(self) -> None:
        raise AssertionError("closed")

    def receive(self, data: bytes) -> None:
        """Read ``data``, in as many pieces as the protocols take it."""
        while data:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                buffer = self.protocol.get_buffer(-1)
                part, data = data[: len(buffer)], data[len(buffer) :]
                buffer[: len(part)] = part
                self.protocol.buffer_updated(len(part))
            else:
                data, part = b"", data
                self.protocol.data_received(part)


class Host(host.UnboundedHost):
    """Parks what begins with PRODUCE and says that it overlaps; parks ``FETCH`` without; answers ``!`` at once."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.parked: list[tuple[RequestContext, bytes]] = []

    def receive(self, frame: bytes, start: int, connection: Connection) -> bytes | None:
        frame = bytes(frame[start:])
        self.served.append(frame)
        if frame[2:3] == b"!":
            return answer_to(frame)
        ctx = RequestContext(connection, 0, 1, "", lambda response, correlation_id: response)
        connection.open = ctx
        ctx.overlaps = frame.startswith(PRODUCE)
        self.parked.append((ctx, frame))
        return None


class World(host.Sockets):
    transport: Transport

    def __init__(self) -> None:
        self.host = Host()
        super().__init__(self.host, Transport())
        self.transport.protocol = self.connection

    def send(self, *bodies: bytes) -> None:
        self.transport.receive(framed(*bodies))

    def finish(self, index: int = 0) -> None:
        """Answer one of the parked requests."""
        ctx, frame = self.host.parked.pop(index)
        ctx.reply(answer_to(frame))
        self.run()


def answer_to(frame: bytes) -> bytes:
    return b"<%s:%d>" % (frame[2:8], sum(frame) % 1009)


@pytest.fixture
def world() -> World:
    return World()


def test_produce_requests_wait_together_and_are_answered_in_order(world: World) -> None:
    bodies = [PRODUCE + b"%d" % number for number in range(4)]
    world.send(*bodies)
    assert world.host.served == bodies
    for index in (2, 1, 1):
        world.finish(index)
        assert world.transport.written == b"", "the first one is owed"
    world.finish()
    assert world.transport.written == b"".join(map(answer_to, bodies))
    assert not world.connection.is_waited_for


def test_a_produce_may_overlap_later(world: World) -> None:
    """One whose batches took long to look at, once they are in the queues of their logs."""
    first, second = FETCH + b"1", PRODUCE + b"2"  # the host lets only those overlap that begin with PRODUCE
    world.send(first, second)
    assert world.host.served == [first]
    world.host.parked[0][0].let_overlap()
    world.run()
    assert world.host.served == [first, second]
    world.finish(1)
    assert world.transport.written == b"", "the first one is owed"
    world.finish()
    assert world.transport.written == answer_to(first) + answer_to(second)


def test_another_request_waits_for_them(world: World) -> None:
    world.send(PRODUCE + b"1", PRODUCE + b"2", FETCH + b"3", PRODUCE + b"4")
    assert len(world.host.served) == 2
    world.finish(1)
    assert len(world.host.served) == 2, "the first one is owed yet"
    world.finish()
    assert len(world.host.served) == 3
    world.finish()
    assert len(world.host.served) == 4


def test_they_wait_for_another_request(world: World) -> None:
    world.send(FETCH + b"1", PRODUCE + b"2")
    assert len(world.host.served) == 1
    world.finish()
    assert len(world.host.served) == 2


def test_an_answer_given_at_once_waits_for_its_turn(world: World) -> None:
    world.send(PRODUCE + b"1", PRODUCE + b"!", PRODUCE + b"3")
    assert world.transport.written == b""
    world.finish(1)
    world.finish()
    assert world.transport.written == b"".join(map(answer_to, (PRODUCE + b"1", PRODUCE + b"!", PRODUCE + b"3")))


def test_a_request_without_an_answer_keeps_the_order(world: World) -> None:
    world.send(PRODUCE + b"1", PRODUCE + b"2", PRODUCE + b"3")
    world.finish(2)
    world.host.parked[1][0].no_reply()
    world.finish()
    assert world.transport.written == answer_to(PRODUCE + b"1") + answer_to(PRODUCE + b"3")


def test_only_so_many_overlap(world: World) -> None:
    world.send(*[PRODUCE + b"%d" % number for number in range(3 * OVERLAPPING_REQUESTS)])
    assert len(world.host.served) == OVERLAPPING_REQUESTS + 1
    world.finish()
    assert len(world.host.served) == OVERLAPPING_REQUESTS + 2


def test_only_so_many_bytes_overlap(world: World) -> None:
    body = PRODUCE + bytes(3 << 20)
    for _ in range(6):
        world.send(body)
    most = OVERLAPPING_BYTES // len(body) + 1
    assert len(world.host.served) == most
    while world.host.parked:
        world.finish()
    assert len(world.host.served) == 6
    assert world.connection.buffered_bytes == 0


def test_what_was_answered_makes_room_for_the_next(world: World) -> None:
    """Though somebody is always waited for, requests go on being served: only what is open counts."""
    body = PRODUCE + bytes(3 << 20)
    most = OVERLAPPING_BYTES // len(body) + 1
    for _ in range(most):
        world.send(body)
    for number in range(10):
        world.send(body)
        assert len(world.host.served) == most + number
        world.finish()
        assert len(world.host.served) == most + number + 1
        assert world.connection.is_waited_for


def test_a_lost_connection_tells_everybody_who_waits(world: World) -> None:
    world.send(PRODUCE + b"1", PRODUCE + b"2", PRODUCE + b"3")
    world.finish(1)
    told: list[int] = []
    for number, (ctx, _) in enumerate(world.host.parked):
        ctx.on_close = lambda number=number: told.append(number)  # type: ignore[misc]
    world.connection.connection_lost(None)
    assert told == [0, 1]
    assert all(ctx.closed for ctx, _ in world.host.parked)


def test_an_answer_given_twice_is_a_bug_that_shows(world: World) -> None:
    world.send(PRODUCE + b"1", PRODUCE + b"2")
    ctx = world.host.parked[1][0]
    world.finish(1)
    with pytest.raises(RuntimeError):
        ctx.reply(b"again")


def test_memory_follows_what_was_received(world: World) -> None:
    """A length of 60 MB that is announced and not sent costs next to nothing."""
    world.transport.receive(struct.pack(">i", 60 << 20) + bytes(1000))
    assert isinstance(world.transport.protocol, LargeFrame)
    assert len(world.transport.protocol.get_buffer(-1)) <= LARGE_BYTES
    world.transport.receive(bytes(100_000))
    assert len(world.transport.protocol.get_buffer(-1)) <= 1_000_000


def test_a_large_frame_is_one_and_small_ones_follow(world: World) -> None:
    bodies = [PRODUCE + b"!" + random.Random(1).randbytes(3_000_000), FETCH + b"!", PRODUCE + b"!"]
    data = framed(*bodies)
    world.transport.receive(data[:70_000])
    assert isinstance(world.transport.protocol, LargeFrame)
    world.transport.receive(data[70_000:])
    assert world.transport.protocol is world.connection
    assert world.host.served == bodies
    assert world.transport.written == b"".join(map(answer_to, bodies))


def test_memory_in_use_is_not_given_again() -> None:
    memory = Buffers()
    first = memory.get(1000)
    view = memoryview(first)[10:20]
    del first
    view[:] = b"0123456789"
    for size in (1000, 10, 5000, 1000):
        other = memory.get(size)
        other[:] = b"x" * size
        assert len(other) == size
    assert view == b"0123456789"
    address = id(view.obj)
    view.release()
    del view
    again = memory.get(900)
    assert id(again) == address, "what is free is used again"
    assert len(again) == 900


def test_memory_that_nobody_asks_for_is_let_go() -> None:
    memory = Buffers()
    kept = id(memory.get(1000))
    memory.sweep()
    assert id(memory.get(1000)) == kept
    memory.sweep()
    memory.sweep()
    assert len(memory._kept) == 0


@pytest.mark.parametrize("seed", range(40))
def test_any_pieces_any_order_of_completion(seed: int) -> None:
    """However the bytes arrive and the disk answers, every request is served once, in order, and answered in order."""
    rng = random.Random(seed)
    world = World()
    bodies = []
    for number in range(rng.randrange(5, 40)):
        size = rng.choice([0, 10, 1000, LARGE_BYTES, 3 * LARGE_BYTES, 400_000])
        kind = rng.choice([PRODUCE, PRODUCE, PRODUCE, FETCH])
        bodies.append(kind + rng.choice([b"", b"", b"!"]) + b"%04d" % number + bytes([number % 251]) * size)
    data = framed(*bodies)
    while data or world.host.parked:
        if data and world.transport.reading and rng.random() < 0.6:
            size = rng.choice([1, 5, 100, 10_000, 200_000, 1_000_000])
            piece, data = data[:size], data[size:]
            world.transport.receive(piece)
        elif world.host.parked:
            world.finish(rng.randrange(len(world.host.parked)))
        world.run()
    assert world.host.served == bodies
    assert world.transport.written == b"".join(map(answer_to, bodies))
    assert not world.connection.is_waited_for
    assert world.connection.buffered_bytes == 0
