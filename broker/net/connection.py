"""One client connection: bytes to frames, one open request at a time, frames to bytes.

Kafka serves one request per connection at a time and mutes the socket until it is answered; so do we. Frames that
come meanwhile wait in the buffer, up to a bound behind which the socket is not read. Answers that are ready at once
are written together, one write for all frames of one read.

Produce requests are the exception. Once all batches of one are queued in their logs it waits for nothing but the disk,
and so may the next: they share one sync. Answers go out in the order of the requests all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.broker.core.security.session import ANONYMOUS
from ottla.broker.net.accepting import plain
from ottla.broker.net.answers import PIECE_BYTES, Answers, Buffer, Frame
from ottla.broker.net.large_frame import LARGE_BYTES, LargeFrame
from ottla.protocol.errors import FrameTooLarge, ProtocolError
from ottla.protocol.framing import ANY_REQUEST_BYTES, KEY_BYTES, FrameReader, Gathered, check_length

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

_LENGTH = Struct(">i").unpack_from

# While a request is open, this much of what follows it is read ahead before the socket is left alone.
READ_AHEAD_BYTES = 256 << 10

# Answers are collected for one write up to this much. Then they are handed to the transport, which says whether the
# client still reads: many small requests may come in one read, and each may ask for megabytes.
COLLECT_BYTES = 64 << 10

# So many Produce requests, and bytes of them, of one connection may wait for the disk together.
OVERLAPPING_REQUESTS = 16
OVERLAPPING_BYTES = 8 << 20

# The first request of a connection may be so long, unless it is a Produce: nobody has asked for anything yet.
FIRST_REQUEST_BYTES = 1 << 20

CLIENT_CLOSED, WE_CLOSED = "the client closed it", "the broker closed it"
_PRODUCE = b"\0\0"  # how its frames begin


class Host(Protocol):
    """The listener, as far as a connection needs it.

    `room_for` and `holds` are those of `ottla.broker.net.unfinished`, `unread` counts what the client does not read.
    """

    @property
    def max_request_bytes(self) -> int: ...
    @property
    def least_request_bytes(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def receive(self) -> Callable[[Any, int, Connection], Frame | None]: ...
    def most_request_bytes(self, api_key: int) -> int: ...
    def opened(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection) -> None: ...
    def rejected(self, connection: Connection, reason: str) -> None: ...
    def room_for(self, connection: Connection, held_bytes: int, more_bytes: int) -> bool: ...
    def holds(self, connection: Connection, held_bytes: int) -> bool: ...
    def unread(self, connection: Connection) -> None: ...
    def reads_again(self, connection: Connection) -> None: ...
    @property
    def answer_room_bytes(self) -> int: ...


class Guest(Protocol):
    """What looks after a connection that authenticates, or whose session ends; see `ottla.broker.net.guests`."""

    def receive(self, frame: Any, start: int, connection: Connection) -> Frame | None: ...
    def broken(self, reason: str) -> bool: ...
    def expire(self) -> bool: ...
    def gone(self) -> None: ...


class Connection(asyncio.Protocol):
    """See the module.

    Attributes:
        guest: None where nobody is asked who he is, nor any more.
        open: the request that waits for its answer; of several Produce requests that do, the last one.
        half_closed: the client sends nothing more; it may be gone, or wait for its answer.
        on_gone: called once when that is so, or the connection is lost; for who has to know of it.
        why_closed: the first reason for its end; empty as long as it is open.
    """

    __slots__ = (
        "_answers",
        "_buffered",
        "_counted_bytes",
        "_ending",
        "_finished_bytes",
        "_host",
        "_large",
        "_line",
        "_line_bytes",
        "_line_sizes",
        "_loop",
        "_open_bytes",
        "_out",
        "_pump_scheduled",
        "_read_paused",
        "_reader",
        "_receive",
        "_serving",
        "_starved",
        "_transport",
        "_write",
        "active",
        "client_host",
        "client_id",
        "client_id_bytes",
        "client_port",
        "client_software",
        "guest",
        "half_closed",
        "local_host",
        "local_port",
        "on_gone",
        "open",
        "prepared",
        "quiet_since_ms",
        "repeat",
        "session",
        "why_closed",
    )  # fmt: skip

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._receive: Callable[[Any, int, Connection], Frame | None] = _receive_first
        self._transport: asyncio.Transport | None = None
        self._answers: Answers
        self._write: Callable[[bytes], None] = _nowhere
        self._reader = FrameReader(host.max_request_bytes, host.least_request_bytes)
        self._large: LargeFrame | None = None  # receives instead of us
        # Answers in the order of the requests, _UNANSWERED where one is missing: of Produce requests before the open
        # one, and of everything behind one of those.
        self._line: dict[object, Any] = {}
        self._line_sizes: dict[object, int] = {}  # of the requests in line that are not answered
        self._line_bytes = 0  # their sum
        self._open_bytes = 0
        self._counted_bytes = 0  # what the host thinks that our requests hold
        self._buffered = False  # frames or parts of frames wait in the reader
        self._serving = False  # a request of ours is being handled: answers are collected
        self._out: list[Frame] = []
        self._finished_bytes = 0  # of those that handlers put there by themselves, until they are counted
        self.half_closed = False
        self._ending = False  # closes when that is sent
        self._read_paused = False
        self._starved = False  # not read because the broker holds too many bytes of unfinished requests
        self._pump_scheduled = False
        self.open: RequestContext | None = None
        self.on_gone: Callable[[], None] | None = None
        self.repeat: Any = None  # the dispatcher's
        self.prepared: Any = None  # as well: commits that may come again
        self.active = True  # since the last sweep for idle connections
        self.quiet_since_ms = 0
        self.client_id = ""
        self.client_id_bytes = b""
        self.client_software = ""
        self.session = ANONYMOUS
        self.guest: Guest | None = None
        self.client_host = ""
        self.client_port = 0
        self.why_closed = ""
        self.local_host = ""
        self.local_port = 0

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        has_tls = transport.get_extra_info("ssl_object") is not None
        self._answers = Answers(self._transport, has_tls=has_tls)
        self._write = self._send if has_tls else self._transport.write
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.client_host = "/" + (plain(peer[0]) if peer else "?")
        self.client_port = peer[1] if peer else 0
        self.local_host, self.local_port = (plain(local[0]), local[1]) if local else ("", 0)
        self._host.opened(self)
        if has_tls and self._transport is not None:
            self._transport.set_write_buffer_limits(high=1)  # below it is another one, with a limit of its own
            # Where we do not read, it reads no further either: it would go on up to 256 KiB that nobody counts.
            cast(Any, self._transport).set_read_buffer_limits(high=1)

    def data_received(self, data: bytes) -> None:
        self.active = True
        if len(data) >= LARGE_BYTES and not self._buffered and self._begin_large(data):
            return
        if self._buffered or self.open is not None or self._answers.paused or self._line:
            self._reader.feed(data)
            self._buffered = True
            self._pump()
            return
        size = len(data) - 4
        if not 0 < size <= self._reader.max_frame_bytes or _LENGTH(data)[0] != size:
            self._serve_many(data)
            return
        # The common case: nothing waits, and one whole frame was read.
        self._serving = True
        try:
            frame = self._receive(data, 4, self)
        except ProtocolError as error:
            self._flush()
            self.abort(str(error))
            return
        finally:
            self._serving = False
        if frame.__class__ is bytes and len(frame) <= PIECE_BYTES:
            self._write(frame)
        elif frame is not None:
            self._send(frame)
        else:
            self._open_bytes = size
            if size > LARGE_BYTES:
                self._hold_open(data[4:6])
            if self._out:
                self._flush()

    def _serve_many(self, data: bytes) -> None:
        """Nothing waits, and several frames were read, or parts of some."""
        end, position, collected = len(data), 0, 0
        self._serving = True
        host, receive, limit = self._host, self._receive, self._reader.max_frame_bytes
        unchecked = min(limit, ANY_REQUEST_BYTES)
        try:
            while end - position >= 4:
                size = _LENGTH(data, position)[0]
                if size <= 0 or size > unchecked:
                    check_length(size, limit, self._reader.min_frame_bytes)
                if size > unchecked:
                    if end - position < 4 + KEY_BYTES:
                        break
                    self._check_start(size, data[position + 4 : position + 4 + KEY_BYTES])
                stop = position + 4 + size
                if stop > end:
                    break
                frame = receive(data[position + 4 : stop], 0, self)
                begin, position = position, stop
                self._open_bytes = size
                if frame is not None:
                    self._out.append(frame)
                    collected += len(frame)
                elif self.open is not None:
                    if size > LARGE_BYTES:
                        self._hold_open(data[begin + 4 : begin + 6])
                    break
                else:
                    collected += self._take_finished()
                    if self._host is not host:  # the client has authenticated: other bounds hold for what follows
                        break
                if collected >= COLLECT_BYTES:
                    collected = 0
                    self._flush()
                    if self._answers.paused:
                        break
        except ProtocolError as error:
            self._flush()
            self.abort(str(error))
            return
        finally:
            self._serving = False
        self._flush()
        if position < end:
            self._reader.feed(memoryview(data)[position:])
            self._buffered = True
            self._pump()

    def large_received(self, frame: bytearray) -> None:
        """A large frame is whole; what follows comes to us again."""
        self._large = None
        self._reader.put(frame)
        self.active = True
        self._receive_by(self)
        self._pump()

    def eof_received(self) -> bool:
        """Keep a connection whose request is open: it may be half-closed and want its answer.

        A client that is gone looks the same until we write to it. Kafka, which does not read from a connection with an
        open request, does not see it either. Nor is one closed that has yet to read what it was answered with.
        The end of TLS is that of both directions.
        """
        self.half_closed, self.why_closed = True, self.why_closed or CLIENT_CLOSED
        self._tell_gone()
        if self._transport is not None and self._transport.get_extra_info("ssl_object") is not None:
            return False
        return self.is_waited_for or self._pump_scheduled or self._answers.paused

    def connection_lost(self, exc: Exception | None) -> None:
        unanswered: list[RequestContext] = [ctx for ctx, answer in self._line.items() if answer is _UNANSWERED]  # type: ignore[misc]
        if self.open is not None:
            unanswered.append(self.open)
        self.open = self._large = None
        self._line.clear()
        self._line_sizes.clear()
        if self._transport is not None:  # a handshake that failed has made none
            self._answers.drop()
        self._transport = None
        self._write = _nowhere
        self._reader.clear()
        self._buffered = False
        if self.guest is not None:
            self.guest.gone()
        self.why_closed = self.why_closed or (CLIENT_CLOSED if exc is None else f"it was lost: {exc}")
        self._host.closed(self)
        self._tell_gone()
        if self.prepared is not None:
            self.prepared.forget()
        for ctx in unanswered:
            ctx.closed = True
            if ctx.on_close is not None:
                ctx.on_close()

    def _tell_gone(self) -> None:
        if (tell := self.on_gone) is not None:
            self.on_gone = None
            tell()

    def pause_writing(self) -> None:
        """The client does not read: no further request is served until it does."""
        self._answers.paused = True
        self._host.unread(self)
        self._bound_reading()

    def resume_writing(self) -> None:
        self._answers.paused = False
        self._answers.send_more()
        if self._answers.paused:
            return
        self._host.reads_again(self)
        if self._ending:
            self.close()
        else:
            self._schedule_pump()

    # -- from the dispatcher and the handlers

    def peer_certificate(self) -> bytes | None:
        """The certificate that the client has shown, as DER; None if it has not."""
        shown = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if shown is None else cast("bytes | None", shown.getpeercert(True))

    def tls(self) -> str:
        """The version of TLS and the cipher; empty without TLS."""
        shown = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return "" if shown is None else f"{shown.version()} {shown.cipher()[0]}"

    @property
    def has_asked(self) -> bool:
        """A request was whole and served, be it only the first."""
        return self._receive is not _receive_first

    @property
    def is_waited_for(self) -> bool:
        """A request waits for its answer."""
        return self.open is not None or bool(self._line)

    @property
    def is_muted(self) -> bool:
        """Nobody but the client waits: it was answered, and exceeded a quota."""
        return self.open is not None and self.open.mutes

    @property
    def answer_room_bytes(self) -> int:
        """The size limit of an answer that can be made smaller: the room that is left for unread answers."""
        return self._host.answer_room_bytes

    def finish(self, ctx: RequestContext, frame: Frame | None) -> None:
        """End an open request with an answer (or, acks=0, without) and go on to the frames that wait."""
        if self.open is ctx:
            self.open = None
            if self._counted_bytes:
                self._hold()
            if self._line:
                self._line[ctx] = frame
                return
        elif self._line.get(ctx) is _UNANSWERED:
            self._line[ctx] = frame
            self._line_bytes -= self._line_sizes.pop(ctx)
            if self._counted_bytes:
                self._hold()
            self._shorten_line()
            return
        else:
            raise RuntimeError("a request was answered twice")
        if self._serving:
            if frame is not None:
                self._out.append(frame)
                self._finished_bytes += len(frame)
            return
        if frame is not None:
            self._send(frame)
        if self._buffered or self._read_paused or self.half_closed:
            self._schedule_pump()

    def go_on(self) -> None:
        """The open request overlaps now, unless it was answered: serve what waits, if it may be."""
        if self.open is not None and (self._buffered or self._read_paused):
            self._schedule_pump()

    def move(self, host: Host, receive: Callable[[Any, int, Connection], Frame | None]) -> None:
        """Let another host bound the connection, and its requests be served by ``receive``, from the next one on."""
        if self._counted_bytes:
            self._host.holds(self, 0)
        self._host, self._receive = host, receive
        self._reader.max_frame_bytes, self._reader.min_frame_bytes = host.max_request_bytes, host.least_request_bytes
        if self._counted_bytes:
            self._hold()

    def forget_requests(self) -> None:
        """Serve the next request as any: what is known of those that come again holds for another session, or rules."""
        self.repeat = None
        if self.prepared is not None:
            self.prepared.forget()

    def mute(self, hold: RequestContext) -> None:
        """Read and serve nothing more until ``hold`` is finished, as if it were an open request."""
        self.open = hold
        self._open_bytes = 0
        self._bound_reading()

    def _shorten_line(self) -> None:
        """Send the answers that have none missing before them."""
        line, out = self._line, self._out
        while line:
            first = next(iter(line))
            if line[first] is _UNANSWERED:
                break
            answer = line.pop(first)
            if answer is not None:
                out.append(answer)
                self._finished_bytes += len(answer)
        if not self._serving:
            self._flush()
            if self._buffered or self._read_paused or self.half_closed:
                self._schedule_pump()

    def _may_overlap(self) -> bool:
        """True if the next frame may be served although answers are owed, or if that is not known yet."""
        if self.open is not None and not self.open.overlaps:
            return False
        if len(self._line) >= OVERLAPPING_REQUESTS or self._line_bytes + self._open_bytes > OVERLAPPING_BYTES:
            return False
        begin = self._reader.peek(len(_PRODUCE))
        return begin is None or begin == _PRODUCE

    def abort(self, reason: str) -> None:
        """Close because the peer, or an answer that cannot be given, leaves no other way; the host logs one line."""
        if self._transport is not None and not self.is_closing and not (self.guest and self.guest.broken(reason)):
            self._host.rejected(self, reason)
            self.close(reason)
        self._reader.clear()
        self._buffered = False
        if self._transport is not None and self._counted_bytes:
            self._hold()  # it may last until the client has read what is sent yet

    @property
    def is_closing(self) -> bool:
        """True if it is closed, or will be as soon as what was written is sent."""
        return self._ending or self._transport is None or self._transport.is_closing()

    def close(self, reason: str = WE_CLOSED) -> None:
        """Close in an orderly way: what was written is sent."""
        self.why_closed = self.why_closed or reason
        if self._transport is not None and self._answers:
            self._ending = True
        elif self._transport is not None:
            self._transport.close()

    def kill(self, reason: str = "") -> None:
        """Close at once: what was written and not sent is lost. The host logs the reason if there is one."""
        self.why_closed = self.why_closed or reason or WE_CLOSED
        if reason:
            self._host.rejected(self, reason)
        self._write = _nowhere
        if self._transport is not None:
            self._answers.drop()
            self._transport.abort()

    # -- frames that wait

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet served."""
        return self._reader.buffered_bytes + (0 if self._large is None else self._large.received_bytes)

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that wait to be sent."""
        return 0 if self._transport is None else self._answers.unread_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes of memory that are held for them."""
        return 0 if self._transport is None else self._answers.kept_bytes

    def _held(self) -> int:
        """Bytes of memory that our requests hold: those that are not served, and Produce requests in the works."""
        held = self._reader.held_bytes if self._buffered else 0
        if self._large is not None:
            held += self._large.held_bytes
        held += self._line_bytes + (0 if self.open is None else self._open_bytes)
        self._counted_bytes = held
        return held

    def _hold(self) -> bool:
        """Tell the host what we hold; whether it has room."""
        return self._host.holds(self, self._held())

    def _hold_open(self, begin: bytes) -> None:
        """Tell the host of a large request that stays open: what is decoded of a Produce refers to the frame."""
        if begin != _PRODUCE and not (self.open is not None and self.open.is_long):
            self._open_bytes = 0
        self._hold()

    def _check_start(self, size: int, begin: bytes) -> None:
        """Refuse a request that is longer than any of its API, before the rest of it is there."""
        most = self._host.most_request_bytes(int.from_bytes(begin, "big", signed=True))
        if self._receive is _receive_first and begin != _PRODUCE:
            most = min(most, FIRST_REQUEST_BYTES)
        if size > most:
            key = int.from_bytes(begin, "big", signed=True)
            raise FrameTooLarge(f"frame of {size} bytes, allowed are {most} for a request with API key {key}")

    def large_grew(self) -> None:
        """More of a large frame was received: the broker may have no room for the rest now."""
        self._bound_reading()

    def wake(self) -> None:
        """Read again, after the broker had no room for more unfinished requests."""
        self._starved = False
        self._schedule_pump()

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Serve what waits in the reader, until a request stays open or nothing whole is left."""
        self._pump_scheduled = False
        if self._transport is None:
            return
        self._serving = True
        collected = 0
        try:
            while (
                not self._answers.paused
                and (not self.is_waited_for or self._may_overlap())
                and (frame := self._reader.next(self._check_start)) is not None
            ):
                collected += self._serve_one(frame)
                if collected >= COLLECT_BYTES:
                    collected = 0
                    self._flush()
        except ProtocolError as error:
            self._serving = False
            self._flush()
            self.abort(str(error))
            return
        finally:
            self._serving = False
        self._buffered = self._reader.buffered_bytes > 0
        self._flush()
        if self.half_closed and not self.is_waited_for and not self._answers.paused:
            self.close()
        else:
            self._bound_reading()

    def _serve_one(self, frame: bytes | bytearray) -> int:
        """Serve one of the frames that waited; returns the bytes that it added to what goes out at once."""
        if self.open is not None:
            self._line[self.open] = _UNANSWERED
            self._line_sizes[self.open] = self._open_bytes
            self._line_bytes += self._open_bytes
            self.open = None
        self._open_bytes = len(frame)
        if len(frame) > LARGE_BYTES and not frame.startswith(_PRODUCE):
            self._open_bytes = 0  # nothing that is decoded from it refers to it
            frame = bytes(frame)  # what is decoded from it may be kept as a key
        answer = self._receive(frame, 0, self)
        if answer is None:
            if self.open is not None and self.open.is_long:
                self._open_bytes = len(frame)
            return self._take_finished()
        if self._line:
            self._line[object()] = answer
            return 0
        self._out.append(answer)
        return len(answer)

    def _take_finished(self) -> int:
        """Count the answers that handlers gave by themselves while they were asked."""
        finished, self._finished_bytes = self._finished_bytes, 0
        return finished

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._finished_bytes = 0
        if len(out) == 1:
            self._send(out[0])
        elif any(frame.__class__ is Gathered for frame in out):
            for frame in out:
                self._send(frame)
        else:
            self._send(b"".join(out))  # type: ignore[arg-type]
        out.clear()

    def _send(self, frame: Frame) -> None:
        if self._transport is not None and self._answers.send(frame):
            self._host.unread(self)

    def _bound_reading(self) -> None:
        """Stop reading while enough waits behind an open request, or the broker holds enough; else read."""
        if self._transport is None or self._transport.is_closing():
            return
        waiting, large = self.buffered_bytes, self._large
        stuck = self._answers.paused or (self.is_waited_for and not self._may_overlap())
        if stuck:
            self._starved = False
            pause = not self._hold() and waiting > 0
            pause = pause or waiting >= READ_AHEAD_BYTES or self.is_muted
        else:
            more = 0 if large is None else large.lacks_bytes
            pause = self._starved = not self._host.room_for(self, self._held(), more)
            if more and not pause:
                cast(LargeFrame, large).grow()
        if pause != self._read_paused and not self._transport.is_closing():
            self._read_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if not stuck and large is None and self._reader.missing_bytes > LARGE_BYTES:
            self._receive_large(*self._reader.take())
            self._bound_reading()

    def _begin_large(self, data: bytes) -> bool:
        """Take ``data`` that begins a large frame, or for which there is no room; False if it is neither."""
        size = _LENGTH(data)[0]
        if size <= 0 or size > self._reader.max_frame_bytes:
            return False
        try:
            if size > ANY_REQUEST_BYTES:
                self._check_start(size, data[4 : 4 + KEY_BYTES])
        except ProtocolError as error:
            self.abort(str(error))
            return True
        if self._answers.paused or (self.is_waited_for and not (self._may_overlap() and data[4:6] == _PRODUCE)):
            return False
        if len(data) + LARGE_BYTES <= size:
            self._receive_large(size, memoryview(data)[4:])
        elif self._host.is_full:
            self._reader.feed(data)
            self._buffered = True
        else:
            return False
        self._bound_reading()
        if self._large is None and not self._starved:
            self._pump()
        return True

    def _receive_large(self, size: int, head: Buffer) -> None:
        self._buffered = False
        self._large = LargeFrame(self, size, head)
        self._receive_by(self._large)

    def _receive_by(self, protocol: asyncio.BaseProtocol) -> None:
        """Let the transport give what it reads to ``protocol``; it notices when reading begins."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._read_paused:
            self._transport.pause_reading()
        self._transport.set_protocol(protocol)
        if not self._read_paused:
            self._transport.resume_reading()


_UNANSWERED = object()


def _receive_first(frame: Any, start: int, connection: Connection) -> Frame | None:
    """Serve the first request; the others are the host's."""
    connection._receive = receive = connection._host.receive
    return receive(frame, start, connection)


def _nowhere(data: bytes) -> None:
    """Drop an answer: there is no transport yet, or no longer."""
