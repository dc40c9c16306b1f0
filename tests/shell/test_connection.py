"""A connection without sockets: one open request at a time, answers in order, bounds in both directions."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.net.answers import PIECE_BYTES
from ottla.broker.net.connection import COLLECT_BYTES, READ_AHEAD_BYTES, Connection
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.framing import Gathered
from tests.shell.host import Sockets, Transport, UnboundedHost, framed


class Host(UnboundedHost):
    """Answers a frame with itself; frames that begin with ``park`` stay open, ``bad`` ones break the protocol.

    What begins with ``self`` is answered by its handler, before it returns.
    """

    max_request_bytes = 1 << 20

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.parked: list[RequestContext] = []
        self.rejections: list[str] = []
        self.room = True
        self.held_bytes = 0

    def rejected(self, connection: Connection, reason: str) -> None:
        self.rejections.append(reason)

    def holds(self, connection: Connection, held_bytes: int) -> bool:
        self.held_bytes = held_bytes
        return True

    def room_for(self, connection: Connection, held_bytes: int, more_bytes: int) -> bool:
        self.held_bytes = held_bytes
        return self.room

    def receive(self, frame: bytes, start: int, connection: Connection) -> bytes | None:
        frame = frame[start:]
        self.served.append(frame)
        if frame.startswith(b"bad"):
            raise MalformedFrame("bad frame")
        if frame.startswith(b"quiet"):
            return None
        if frame.startswith((b"park", b"self")):
            ctx = connection.open = RequestContext(connection, 0, 1, "", lambda response, correlation_id: response)
            if frame.startswith(b"park"):
                self.parked.append(ctx)
            else:
                ctx.reply(b"<" + frame + b">")
            return None
        return b"<" + frame + b">"


class World(Sockets):
    def __init__(self, transport: Transport | None = None) -> None:
        self.host = Host()
        super().__init__(self.host, transport)

    def reply(self, answer: Any, index: int = 0) -> None:
        """Answer one of the parked requests."""
        self.host.parked[index].reply(answer)
        self.run()


@pytest.fixture
def world() -> World:
    return World(Transport("::ffff:10.0.0.7"))


def test_the_client_host_is_written_as_kafka_does(world: World) -> None:
    assert world.connection.client_host == "/10.0.0.7"
    assert (world.connection.local_host, world.connection.local_port) == ("127.0.0.1", 9092)


def test_frames_of_one_read_are_answered_in_one_write(world: World) -> None:
    world.send(b"a", b"b", b"quiet", b"c")
    assert world.transport.writes == [b"<a><b><c>"]


def test_bytes_one_at_a_time(world: World) -> None:
    for byte in framed(b"hello", b"world"):
        world.connection.data_received(bytes([byte]))
    assert world.host.served == [b"hello", b"world"]
    assert world.transport.writes == [b"<hello>", b"<world>"]


def test_an_open_request_holds_the_next_ones_back(world: World) -> None:
    world.send(b"a", b"park", b"b")
    world.send(b"c")
    assert world.host.served == [b"a", b"park"]
    assert world.transport.writes == [b"<a>"]
    world.reply(b"later")
    assert world.transport.writes == [b"<a>", b"later", b"<b><c>"]


def test_several_parked_requests_are_answered_in_order(world: World) -> None:
    world.send(b"park1", b"park2", b"x")
    world.reply(b"1")
    world.reply(b"2", 1)
    assert world.transport.writes == [b"1", b"2", b"<x>"]


def test_a_request_without_an_answer_lets_the_next_one_go(world: World) -> None:
    world.send(b"park", b"a")
    world.host.parked[0].no_reply()
    world.run()
    assert world.transport.writes == [b"<a>"]


def test_an_answer_given_twice_is_a_bug_that_shows(world: World) -> None:
    world.send(b"park")
    world.host.parked[0].reply(b"1")
    with pytest.raises(RuntimeError):
        world.host.parked[0].reply(b"2")


def test_reading_ahead_is_bounded(world: World) -> None:
    world.send(b"park")
    filler = framed(b"x" * 1000)
    fed = 0
    while world.transport.reading:
        world.connection.data_received(filler)
        fed += len(filler)
    assert READ_AHEAD_BYTES <= fed < READ_AHEAD_BYTES + 2 * len(filler)
    world.reply(b"go")
    assert world.transport.reading
    assert world.connection.buffered_bytes == 0


def test_a_client_that_does_not_read_is_not_served(world: World) -> None:
    world.connection.pause_writing()
    world.send(b"a")
    assert world.host.served == []
    world.connection.resume_writing()
    world.run()
    assert world.transport.writes == [b"<a>"]


@pytest.mark.parametrize("kinds", [[b"echo"], [b"self"], [b"echo", b"self"]])
def test_a_client_that_stops_reading_amid_its_requests_is_served_no_further(world: World, kinds: list[bytes]) -> None:
    def write(data: bytes) -> None:
        world.transport.writes.append(data)
        world.connection.pause_writing()

    world.transport.write = write  # type: ignore[method-assign]
    bodies = [kinds[index % len(kinds)] * (COLLECT_BYTES // 16) for index in range(20)]
    world.send(*bodies)
    assert len(world.host.served) == 4
    world.connection.resume_writing()
    world.run()
    assert len(world.host.served) == 8


def test_what_handlers_answer_themselves_goes_out_in_one_write_too(world: World) -> None:
    world.send(b"self1", b"a", b"self2", b"quiet", b"park", b"self3", b"b")
    assert world.transport.writes == [b"<self1><a><self2>"]
    world.reply(b"later")
    assert world.transport.writes[1:] == [b"later", b"<self3><b>"]


def test_no_room_leaves_the_socket_unread_until_there_is(world: World) -> None:
    world.host.room = False
    world.connection.data_received(framed(b"x" * 100)[:50])
    assert not world.transport.reading
    world.host.room = True
    world.connection.wake()
    world.run()
    assert world.transport.reading


@pytest.mark.parametrize("length", [0, -1, 1 << 21])
def test_a_bad_length_closes_and_says_why(world: World, length: int) -> None:
    world.connection.data_received(framed(b"a") + struct.pack(">i", length))
    assert world.transport.writes == [b"<a>"], "what came before the fault is answered"
    assert world.transport.closed
    assert len(world.host.rejections) == 1
    assert str(length) in world.host.rejections[0]


def test_a_broken_frame_closes_and_what_follows_is_not_served(world: World) -> None:
    world.send(b"a", b"bad", b"b")
    assert world.transport.writes == [b"<a>"]
    assert world.transport.closed
    assert world.host.served == [b"a", b"bad"]


def test_a_broken_frame_in_the_buffer_closes_too(world: World) -> None:
    world.send(b"park", b"a", b"bad", b"b")
    world.reply(b"1")
    assert world.transport.writes == [b"1", b"<a>"]
    assert world.transport.closed
    assert world.host.served[-1] == b"bad"


def test_a_lost_connection_tells_who_waits(world: World) -> None:
    world.send(b"park", b"a")
    told = []
    world.host.parked[0].on_close = lambda: told.append(True)
    world.connection.connection_lost(None)
    assert told == [True]
    world.reply(b"nobody")  # goes nowhere
    assert world.host.served == [b"park"]


def test_a_half_closed_client_gets_its_answer_and_is_closed(world: World) -> None:
    world.send(b"park")
    assert world.connection.eof_received() is True
    world.reply(b"1")
    assert world.transport.writes == [b"1"]
    assert world.transport.closed


def test_a_client_that_is_done_is_closed(world: World) -> None:
    assert world.connection.eof_received() is False


def test_an_answer_in_pieces_is_not_joined_and_keeps_its_place(world: World) -> None:
    pieces = Gathered([b"head", b"records", b"tail"], 15)
    answers = {b"large": pieces}
    world.connection._receive = lambda frame, start, _: answers.get(frame[start:], b"<" + frame[start:] + b">")
    world.send(b"large")
    world.send(b"a", b"large", b"b")
    assert world.transport.writes == [*pieces.pieces, b"<a>", *pieces.pieces, b"<b>"]
    world.connection._receive = world.host.receive
    world.send(b"park")
    world.host.parked[0].reply(pieces)
    assert world.transport.writes[-3:] == pieces.pieces


@pytest.mark.parametrize("ended_before", [False, True], ids=["lost at once", "its side was closed before"])
def test_who_wants_to_know_hears_once_that_the_client_is_gone(world: World, ended_before: bool) -> None:
    told: list[bool] = []
    world.connection.on_gone = lambda: told.append(world.connection.half_closed)
    world.send(b"park")
    ctx = world.connection.open
    assert ctx is not None and not ctx.is_gone
    if ended_before:
        assert world.connection.eof_received()
        assert told == [True]
        assert ctx.is_gone
    world.connection.connection_lost(None)
    assert told == [ended_before]
    assert ctx.is_gone


class Slow(Transport):
    """Takes what one write gives it, and no more until it is read."""

    connection: Connection

    def __init__(self) -> None:
        super().__init__()
        self.holds: list[Any] = []

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, pieces: list[bytes]) -> None:
        super().writelines(pieces)
        self.holds += pieces
        if self.get_write_buffer_size() > 64 << 10:
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.holds))

    def read(self) -> None:
        """The client reads all that was written."""
        self.holds.clear()
        self.connection.resume_writing()


@pytest.fixture
def slow() -> Slow:
    made = Slow()
    made.connection = World(made).connection
    return made


def answer(slow: Slow, *pieces: bytes) -> None:
    slow.connection._receive = lambda frame, start, _: Gathered(list(pieces), sum(map(len, pieces)))
    slow.connection.data_received(framed(b"ask"))


def test_what_partitions_are_answered_with_is_not_copied(slow: Slow) -> None:
    partitions = [bytes([number]) * (1 << 20) for number in range(3)]
    answer(slow, b"head", *partitions, b"tail")
    assert sum(map(len, slow.holds)) <= 2 * PIECE_BYTES
    while slow.holds:
        slow.read()
    assert b"".join(slow.writes) == b"head" + b"".join(partitions) + b"tail"
    assert all(any(one is part for one in slow.writes) for part in partitions)


def test_of_what_is_larger_than_a_piece_the_transport_keeps_nothing_alive(slow: Slow) -> None:
    whole = bytes(range(256)) * (10 << 12)
    answer(slow, b"head", whole, b"tail")
    assert slow.connection.kept_bytes >= len(whole) + PIECE_BYTES
    while slow.holds:
        assert not any(piece is whole or isinstance(piece, memoryview) for piece in slow.holds)
        assert (
            slow.connection.unread_bytes == len(whole) + 8 - len(b"".join(slow.writes)) + slow.get_write_buffer_size()
        )
        slow.read()
    assert b"".join(slow.writes) == b"head" + whole + b"tail"


def test_a_half_closed_client_gets_a_large_answer_whole_and_what_else_it_asked(slow: Slow) -> None:
    connection, large = slow.connection, [b"x" * (1 << 20)] * 5
    answer(slow, *large)
    connection._receive = lambda frame, start, _: b"<" + frame[start:] + b">"
    connection.data_received(framed(b"after"))
    assert connection.eof_received() is True
    while slow.holds:
        slow.read()
        connection._loop.run()  # type: ignore[attr-defined]
    assert b"".join(slow.writes) == b"".join(large) + b"<after>"
    assert slow.closed


def test_what_is_refused_is_no_longer_counted_though_the_connection_lasts(world: World) -> None:
    """Until its client has read what it was answered with, which it need not."""
    bad = framed(b"bad" + bytes(60_000))
    world.connection.data_received(bad[:31_000])
    assert world.host.held_bytes >= 31_000
    world.connection.data_received(bad[31_000:])
    assert world.host.rejections
    assert world.host.held_bytes == 0
