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
from tests.shell.host import Loop, Transport, UnboundedHost, framed


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
        if frame.startswith(b"park"):
            ctx = RequestContext(connection, 0, 1, "", lambda response, correlation_id: response)
            connection.open = ctx
            self.parked.append(ctx)
            return None
        if frame.startswith(b"quiet"):
            return None
        if frame.startswith(b"self"):
            ctx = connection.open = RequestContext(connection, 0, 1, "", lambda response, correlation_id: response)
            ctx.reply(b"<" + frame + b">")
            return None
        return b"<" + frame + b">"


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def transport() -> Transport:
    return Transport("::ffff:10.0.0.7")


@pytest.fixture
def connection(host: Host, loop: Loop, transport: Transport) -> Connection:
    made = Connection(host, loop)  # type: ignore[arg-type]
    made.connection_made(transport)  # type: ignore[arg-type]
    return made


def test_the_client_host_is_written_as_kafka_does(connection: Connection) -> None:
    assert connection.client_host == "/10.0.0.7"
    assert (connection.local_host, connection.local_port) == ("127.0.0.1", 9092)


def test_frames_of_one_read_are_answered_in_one_write(connection: Connection, transport: Transport) -> None:
    connection.data_received(framed(b"a", b"b", b"quiet", b"c"))
    assert transport.writes == [b"<a><b><c>"]


def test_bytes_one_at_a_time(connection: Connection, host: Host, transport: Transport) -> None:
    for byte in framed(b"hello", b"world"):
        connection.data_received(bytes([byte]))
    assert host.served == [b"hello", b"world"]
    assert transport.writes == [b"<hello>", b"<world>"]


def test_an_open_request_holds_the_next_ones_back(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"a", b"park", b"b"))
    connection.data_received(framed(b"c"))
    assert host.served == [b"a", b"park"]
    assert transport.writes == [b"<a>"]
    host.parked[0].reply(b"later")
    loop.run()
    assert transport.writes == [b"<a>", b"later", b"<b><c>"]


def test_several_parked_requests_are_answered_in_order(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"park1", b"park2", b"x"))
    host.parked[0].reply(b"1")
    loop.run()
    host.parked[1].reply(b"2")
    loop.run()
    assert transport.writes == [b"1", b"2", b"<x>"]


def test_a_request_without_an_answer_lets_the_next_one_go(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"park", b"a"))
    host.parked[0].no_reply()
    loop.run()
    assert transport.writes == [b"<a>"]


def test_an_answer_given_twice_is_a_bug_that_shows(connection: Connection, host: Host) -> None:
    connection.data_received(framed(b"park"))
    host.parked[0].reply(b"1")
    with pytest.raises(RuntimeError):
        host.parked[0].reply(b"2")


def test_reading_ahead_is_bounded(connection: Connection, host: Host, loop: Loop, transport: Transport) -> None:
    connection.data_received(framed(b"park"))
    filler = framed(b"x" * 1000)
    fed = 0
    while transport.reading:
        connection.data_received(filler)
        fed += len(filler)
    assert READ_AHEAD_BYTES <= fed < READ_AHEAD_BYTES + 2 * len(filler)
    host.parked[0].reply(b"go")
    loop.run()
    assert transport.reading
    assert connection.buffered_bytes == 0


def test_a_client_that_does_not_read_is_not_served(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.pause_writing()
    connection.data_received(framed(b"a"))
    assert host.served == []
    connection.resume_writing()
    loop.run()
    assert transport.writes == [b"<a>"]


@pytest.mark.parametrize("kinds", [[b"echo"], [b"self"], [b"echo", b"self"]])
def test_a_client_that_stops_reading_amid_its_requests_is_served_no_further(
    connection: Connection, host: Host, loop: Loop, transport: Transport, kinds: list[bytes]
) -> None:
    def write(data: bytes) -> None:
        transport.writes.append(data)
        connection.pause_writing()

    transport.write = write  # type: ignore[method-assign]
    bodies = [kinds[index % len(kinds)] * (COLLECT_BYTES // 16) for index in range(20)]
    connection.data_received(framed(*bodies))
    assert len(host.served) == 4
    connection.resume_writing()
    loop.run()
    assert len(host.served) == 8


def test_what_handlers_answer_themselves_goes_out_in_one_write_too(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"self1", b"a", b"self2", b"quiet", b"park", b"self3", b"b"))
    assert transport.writes == [b"<self1><a><self2>"]
    host.parked[0].reply(b"later")
    loop.run()
    assert transport.writes[1:] == [b"later", b"<self3><b>"]


def test_no_room_leaves_the_socket_unread_until_there_is(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    host.room = False
    connection.data_received(framed(b"x" * 100)[:50])
    assert not transport.reading
    host.room = True
    connection.wake()
    loop.run()
    assert transport.reading


@pytest.mark.parametrize("length", [0, -1, 1 << 21])
def test_a_bad_length_closes_and_says_why(
    connection: Connection, host: Host, transport: Transport, length: int
) -> None:
    connection.data_received(framed(b"a") + struct.pack(">i", length))
    assert transport.writes == [b"<a>"], "what came before the fault is answered"
    assert transport.closed
    assert len(host.rejections) == 1
    assert str(length) in host.rejections[0]


def test_a_broken_frame_closes_and_what_follows_is_not_served(
    connection: Connection, host: Host, transport: Transport
) -> None:
    connection.data_received(framed(b"a", b"bad", b"b"))
    assert transport.writes == [b"<a>"]
    assert transport.closed
    assert host.served == [b"a", b"bad"]


def test_a_broken_frame_in_the_buffer_closes_too(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"park", b"a", b"bad", b"b"))
    host.parked[0].reply(b"1")
    loop.run()
    assert transport.writes == [b"1", b"<a>"]
    assert transport.closed
    assert host.served[-1] == b"bad"


def test_a_lost_connection_tells_who_waits(connection: Connection, host: Host, loop: Loop) -> None:
    connection.data_received(framed(b"park", b"a"))
    told = []
    host.parked[0].on_close = lambda: told.append(True)
    connection.connection_lost(None)
    assert told == [True]
    host.parked[0].reply(b"nobody")  # goes nowhere
    loop.run()
    assert host.served == [b"park"]


def test_a_half_closed_client_gets_its_answer_and_is_closed(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    connection.data_received(framed(b"park"))
    assert connection.eof_received() is True
    host.parked[0].reply(b"1")
    loop.run()
    assert transport.writes == [b"1"]
    assert transport.closed


def test_a_client_that_is_done_is_closed(connection: Connection) -> None:
    assert connection.eof_received() is False


def test_an_answer_in_pieces_is_not_joined_and_keeps_its_place(
    connection: Connection, host: Host, loop: Loop, transport: Transport
) -> None:
    pieces = Gathered([b"head", b"records", b"tail"], 15)
    answers = {b"large": pieces}
    connection._receive = lambda frame, start, _: answers.get(frame[start:], b"<" + frame[start:] + b">")
    connection.data_received(framed(b"large"))
    connection.data_received(framed(b"a", b"large", b"b"))
    assert transport.writes == [*pieces.pieces, b"<a>", *pieces.pieces, b"<b>"]
    connection._receive = host.receive
    connection.data_received(framed(b"park"))
    host.parked[0].reply(pieces)
    assert transport.writes[-3:] == pieces.pieces


@pytest.mark.parametrize("ended_before", [False, True], ids=["lost at once", "its side was closed before"])
def test_who_wants_to_know_hears_once_that_the_client_is_gone(connection: Connection, ended_before: bool) -> None:
    told: list[bool] = []
    connection.on_gone = lambda: told.append(connection.half_closed)
    connection.data_received(framed(b"park"))
    ctx = connection.open
    assert ctx is not None and not ctx.is_gone
    if ended_before:
        assert connection.eof_received()
        assert told == [True]
        assert ctx.is_gone
    connection.connection_lost(None)
    assert told == [ended_before]
    assert ctx.is_gone


class Slow(Transport):
    """Takes what one write gives it, and no more until it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.holds: list[Any] = []

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, pieces: list[bytes]) -> None:
        super().writelines(pieces)
        self.holds += pieces
        if self.get_write_buffer_size() > 64 << 10:
            assert self.connection is not None
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.holds))

    def read(self) -> None:
        """The client reads all that was written."""
        assert self.connection is not None
        self.holds.clear()
        self.connection.resume_writing()


@pytest.fixture
def slow(host: Host, loop: Loop) -> Slow:
    made = Slow()
    made.connection = Connection(host, loop)  # type: ignore[arg-type]
    made.connection.connection_made(made)  # type: ignore[arg-type]
    return made


def answer(slow: Slow, *pieces: bytes) -> None:
    assert slow.connection is not None
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
    assert slow.connection is not None
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
    assert connection is not None
    connection._receive = lambda frame, start, _: b"<" + frame[start:] + b">"
    connection.data_received(framed(b"after"))
    assert connection.eof_received() is True
    while slow.holds:
        slow.read()
        connection._loop.run()  # type: ignore[attr-defined]
    assert b"".join(slow.writes) == b"".join(large) + b"<after>"
    assert slow.closed


def test_what_is_refused_is_no_longer_counted_though_the_connection_lasts(connection: Connection, host: Host) -> None:
    """Until its client has read what it was answered with, which it need not."""
    bad = framed(b"bad" + bytes(60_000))
    connection.data_received(bad[:31_000])
    assert host.held_bytes >= 31_000
    connection.data_received(bad[31_000:])
    assert host.rejections
    assert host.held_bytes == 0
