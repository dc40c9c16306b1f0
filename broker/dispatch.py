"""Frame → header → layout → handler → layout → frame, and the error boundary around it.

Three kinds of fault end here. The peer broke the protocol: its connection is closed, with one log line. The request
cannot be granted: that is an error code, and the handler's business. We have a bug: it is logged with its traceback and
answered UNKNOWN_SERVER_ERROR, and the connection goes on.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from inspect import isgenerator
from struct import Struct
from struct import error as struct_error
from types import GeneratorType
from typing import Any, Protocol

from ottla.broker.context import Meter, MeteredContext, RequestContext, Transport
from ottla.broker.handlers import HANDLERS, Handler, handler
from ottla.broker.logger import Logger
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame, ProtocolError, UnsupportedVersion
from ottla.protocol.framing import Gathered
from ottla.protocol.headers import START_SIZE, skip_tags
from ottla.protocol.schema import Layout
from ottla.protocol.steps import Steps

# API key and version are read as one number, which is the key of the route.
_START = Struct(">Iih").unpack_from
_REPEAT_BYTES = 1024  # longer requests are not kept: a connection's memory stays small
LONG_BYTES = 16 << 10
"""Longer requests may name so many things that they are decoded in steps. Those before the first pause are not."""
CORRELATION_ID = 4  # where in a request the correlation id begins,
CLIENT_ID = 8  # and where it ends and the client id begins
_RESPONSE_ID = 4  # where in a response frame, length included, the correlation id begins


class Peer(Transport, Protocol):
    """A connection, as the dispatcher needs it."""

    open: RequestContext | None
    client_id: str
    client_id_bytes: bytes
    repeat: Repeat | None
    prepared: Any
    """Its commits that may come again; see `ottla.broker.runtime.prepared_commits`."""


Handle = Callable[[Any, RequestContext, Any], Any]


class Gate(Protocol):
    """Stands between requests and their handlers, and may keep a request: faults do (`ottla.workbench.faults`)."""

    def takes(self, route: Route, request: Any, peer: Peer, version: int, correlation_id: int) -> Kept | None:
        """Say whether it keeps a request: with a context, which decides when it is served, and gives its answer."""
        ...

    def watches(self, route: Route, request: Any, peer: Peer) -> bool:
        """Whether it may want to keep a request that comes again as this one did."""
        ...


class Kept(RequestContext):
    """A request that a gate keeps."""

    __slots__ = ()

    def begin(self, serve: Callable[[], None]) -> None:
        """Take the request, which the function serves; its answer comes through the context."""
        raise NotImplementedError


@dataclasses.dataclass(slots=True, frozen=True)
class Route:
    """One API at one version.

    Attributes:
        layout: decodes long requests in steps. None for Produce, whose length is that of its records.
    """

    api: str
    decode: Callable[[bytes, int], Any]
    layout: Layout | None
    encode: Callable[[Any, int], bytes | Gathered]
    handler: Handler
    handle: Handle
    header_tags: bool
    is_async: bool
    is_commit: bool
    error_response: Callable[[Any, int], Any]


class Repeat:
    """The last request of a kind that clients send again and again, as it was decoded and answered.

    A member's heartbeats are the same bytes but for the correlation id. The next one with the same ``code`` (API key
    and version) that equals ``rest`` from its client id on is this request. If it can be answered at once, that is done
    with this context, which was answered at once and so is free; and if it is the same answer, that is the same bytes,
    too, around another correlation id.
    """

    __slots__ = ("after", "before", "code", "ctx", "handle", "request", "response", "rest", "route")

    def __init__(self, frame: bytes, start: int, route: Route, request: Any, ctx: RequestContext) -> None:
        self.code = frame[start : start + CORRELATION_ID]
        self.rest = frame[start + CLIENT_ID :]
        self.route = route
        assert route.handler.repeat is not None
        self.handle = route.handler.repeat
        self.request = request
        self.ctx = ctx
        self.response: Any = None
        self.before = self.after = b""

    def answer(self, response: Any, correlation_id: int) -> bytes:
        """Encode an answer, and keep its bytes for the next time."""
        frame = bytes(self.route.encode(response, correlation_id))
        self.response = response
        self.before, self.after = frame[:_RESPONSE_ID], frame[_RESPONSE_ID + 4 :]
        return frame


class Dispatcher:
    """Takes request frames from connections and gives response frames.

    Args:
        services: what handlers get as their third argument.
        codec: ``fused``, or ``construct`` to serve everything with the interpreted reference codecs.

    Attributes:
        meter: counts what clients use; None while there are no quotas.
        gate: may keep requests; None where nobody wants to. What it keeps is not metered.
    """

    def __init__(self, services: Any, log: Logger, codec: str = "fused") -> None:
        self.services = services
        self.log = log
        self.fused = codec == "fused"
        self.routes: dict[int, Route] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.meter: Meter | None = None
        self.gate: Gate | None = None
        self.new_repeat: Callable[[bytes, int, Route, Any, RequestContext], Repeat] = Repeat

    def receive(self, frame: bytes, start: int, peer: Peer) -> bytes | Gathered | None:
        """Serve one request.

        Args:
            frame: holds the request from ``start`` to its end, without a length prefix.
            peer: the connection; its ``open`` is the request while it waits for its answer.

        Returns:
            The response frame, or None: the answer comes later through the context (``peer.open`` is set), or was
            already handed to the connection, or there is none.

        Raises:
            ProtocolError: the connection is to be closed.
        """
        repeat = peer.repeat
        if (
            repeat is not None
            and frame[start + CLIENT_ID :] == repeat.rest
            and frame[start : start + CORRELATION_ID] == repeat.code
        ):
            try:
                response = repeat.handle(repeat.request, repeat.ctx, self.services)
                if response is repeat.response:
                    return repeat.before + frame[start + CORRELATION_ID : start + CLIENT_ID] + repeat.after
                if response is not None:
                    return repeat.answer(response, correlation_id(frame, start))
            except Exception:
                peer.open = repeat.ctx
                repeat.ctx.correlation_id = correlation_id(frame, start)
                return self._answer_bug(repeat.route, repeat.request, repeat.ctx)
        return self._serve(frame, start, peer)

    def versions(self, version: int, correlation_id: int, frame: bytes, position: int, peer: Peer) -> bytes:
        """Answer ApiVersions of somebody who has not said yet who he is: nothing counts it, and nothing keeps it.

        Args:
            position: where the tags of the header begin, or the body if it has none.

        Raises:
            ProtocolError: it cannot be decoded.
        """
        code = ApiKey.API_VERSIONS << 16 | version & 0xFFFF
        route = self.routes.get(code) or self._route(code)
        if route.header_tags:
            position = skip_tags(frame, position)
        ctx = RequestContext(peer, version, correlation_id, peer.client_id, route.encode, route.api)
        return bytes(route.encode(route.handle(route.decode(frame, position), ctx, self.services), correlation_id))

    @staticmethod
    def most_request_bytes(api_key: int) -> int:
        """The longest request that an API allows, in bytes.

        Raises:
            UnsupportedVersion: there is no such API.
        """
        return _known(api_key).max_request_bytes

    def _serve(self, frame: bytes, start: int, peer: Peer) -> bytes | Gathered | None:
        """Serve a request that is not the last one again."""
        if peer.prepared is not None:
            try:
                if self._serve_prepared(frame, start, peer):
                    return None
            except Exception:
                shape = peer.prepared.serving
                return self._answer_bug(shape.route, shape.prepared.request, shape.ctx)
        try:
            code, correlation_id, size = _START(frame, start)
        except struct_error:
            raise MalformedFrame(f"a frame of {len(frame) - start} bytes is too short for a request header") from None
        position = start + START_SIZE
        if size > 0:
            raw = frame[position : position + size]
            position += size
            if raw != peer.client_id_bytes or len(raw) != size:
                self._identify(peer, raw, size)
        elif peer.client_id_bytes:
            peer.client_id, peer.client_id_bytes = "", b""
        route = self.routes.get(code) or self._route(code)
        if route.header_tags:
            position = skip_tags(frame, position) if frame[position : position + 1] != b"\0" else position + 1
        if len(frame) - position > LONG_BYTES and route.layout is not None and self.gate is None:
            decoding = route.layout.decoder_in_steps(frame, position)
            try:
                next(decoding)
            except StopIteration as stop:
                request = stop.value
            else:
                ctx = peer.open = self._context(code, correlation_id, len(frame) - start, route, peer)
                ctx.is_long = True
                self._begin(route, ctx, decoding, frame[position:] if route.is_commit else b"")
                return None
        else:
            request = route.decode(frame, position)
        if self.gate is not None and self._is_kept(self.gate, route, request, frame, start, position, peer):
            return None
        if self.meter is not None:
            asked = code >> 16, code & 0xFFFF, correlation_id
            self._serve_metered(self.meter, asked, len(frame) - start, route, request, peer)
            return None
        ctx = peer.open = RequestContext(peer, code & 0xFFFF, correlation_id, peer.client_id, route.encode, route.api)
        if route.is_commit:
            ctx.encoded = frame[position:]
        try:
            response = route.handle(request, ctx, self.services)
            if response is None:
                if route.is_commit and self._may_come_again(route, request, peer):
                    self.services.prepared.learn(frame, start, position, request, ctx, route)
                return None
            if response.__class__ is GeneratorType:
                self._begin(route, ctx, response, request=request)
                return None
            if route.is_async:
                self._spawn(route, request, response, ctx)
                return None
            if self._repeats(frame, start, route, request, peer):
                repeat = self.new_repeat(frame, start, route, request, ctx)
                answer: bytes | Gathered = repeat.answer(response, correlation_id)
                peer.repeat = repeat
            else:
                answer = route.encode(response, correlation_id)
            peer.open = None
            return answer
        except ProtocolError:
            raise
        except Exception:
            return self._answer_bug(route, request, ctx)

    def _is_kept(
        self, gate: Gate, route: Route, request: Any, frame: bytes, start: int, body_at: int, peer: Peer
    ) -> bool:
        """Let the gate have a request if it wants it."""
        code, correlation_id, _ = _START(frame, start)
        kept = gate.takes(route, request, peer, code & 0xFFFF, correlation_id)
        if kept is None:
            return False
        peer.open = kept
        if route.is_commit:
            kept.encoded = frame[body_at:]
        kept.begin(partial(self._go_on, route, request, kept))
        return True

    def _may_come_again(self, route: Route, request: Any, peer: Peer) -> bool:
        """Whether a request that comes again as this one did may take a short way: past the gate."""
        return self.gate is None or not self.gate.watches(route, request, peer)

    def _repeats(self, frame: bytes, start: int, route: Route, request: Any, peer: Peer) -> bool:
        """Whether a request that was answered at once is kept for the next one."""
        is_short = len(frame) - start <= _REPEAT_BYTES
        return route.handler.repeat is not None and is_short and self._may_come_again(route, request, peer)

    def _serve_prepared(self, frame: bytes, start: int, peer: Peer) -> bool:
        """Serve a commit that comes again with other offsets; False if it is none."""
        return bool(peer.prepared.serve(frame, start))

    def _serve_metered(
        self, meter: Meter, asked: tuple[int, int, int], size: int, route: Route, request: Any, peer: Peer
    ) -> None:
        """Serve a request whose client may have to wait afterwards: its answer goes through the meter."""
        began_ns = meter.nanoseconds()
        ctx = peer.open = MeteredContext(peer, asked, peer.client_id, route.encode, meter, began_ns, size, route.api)
        self._go_on(route, request, ctx)
        ctx.spent_ns = meter.nanoseconds() - began_ns

    def _go_on(self, route: Route, request: Any, ctx: RequestContext) -> None:
        """Serve a request whose answer comes through its context."""
        try:
            response = route.handle(request, ctx, self.services)
            if response.__class__ is GeneratorType:
                self._begin(route, ctx, response, request=request)
            elif response is not None and route.is_async:
                self._spawn(route, request, response, ctx)
            elif response is not None:
                ctx.reply(response)
        except ProtocolError as error:
            ctx.close(str(error))
        except Exception:
            self._finish_bug(route, request, ctx)

    def _context(self, code: int, correlation_id: int, size: int, route: Route, peer: Peer) -> RequestContext:
        version, meter = code & 0xFFFF, self.meter
        if meter is None:
            return RequestContext(peer, version, correlation_id, peer.client_id, route.encode, route.api)
        asked = code >> 16, version, correlation_id
        return MeteredContext(peer, asked, peer.client_id, route.encode, meter, meter.nanoseconds(), size, route.api)

    def _begin(
        self, route: Route, ctx: RequestContext, steps: Steps[Any], encoded: bytes = b"", request: Any = None
    ) -> None:
        """Go on with a request in steps: those of its handler, or of decoding it as long as it is not known."""
        work = self._in_steps(route, ctx, steps, encoded, request)
        if isinstance(ctx, MeteredContext):
            work = _counted(work, ctx)
        failed = partial(route.error_response, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.services.long_work(work, ctx, failed)

    def _in_steps(
        self, route: Route, ctx: RequestContext, steps: Steps[Any], encoded: bytes, request: Any
    ) -> Steps[None]:
        try:
            if request is None:
                request = yield from steps
                ctx.encoded = encoded
                steps = route.handle(request, ctx, self.services)
            response = (yield from steps) if isgenerator(steps) else steps
            if response is not None and route.is_async:
                self._spawn(route, request, response, ctx)
            elif response is not None:
                yield from ctx.reply_in_steps(response)
                del response  # to let go of so much takes long, too
                yield None
        except ProtocolError as error:
            ctx.close(str(error))
        except Exception:
            self._finish_bug(route, request, ctx)

    def _identify(self, peer: Peer, raw: bytes, size: int) -> None:
        if len(raw) < size:
            raise MalformedFrame(f"client id of {size} bytes announced, {len(raw)} left")
        try:
            peer.client_id = raw.decode()
        except UnicodeDecodeError:
            raise MalformedFrame("client id: not valid UTF-8") from None
        peer.client_id_bytes = raw

    def _route(self, code: int) -> Route:
        """Build the route of an API version at its first request.

        An unknown version of ApiVersions is routed to version 0, and its header alone is decoded: it must be answered
        so that the client can find out what to ask (KIP-511). Everything else that is not served closes the connection.
        """
        number, version = code >> 16, code & 0xFFFF
        if number == ApiKey.API_VERSIONS and version not in HANDLERS[ApiKey.API_VERSIONS]:
            return self._unknown_api_versions(version)
        key = _known(number)
        if version not in HANDLERS.get(key, ()) or self._is_withheld(key):
            raise UnsupportedVersion(f"{key.name} version {version} is not served")
        row, served = api(key), handler(key)
        request_layout, response_layout = row.request.layout(version), row.response.layout(version)
        name = row.request.__name__.removesuffix("Request")
        route = Route(
            api=name,
            decode=request_layout.decoder if self.fused else request_layout.parse,
            layout=request_layout if self.fused and key is not ApiKey.PRODUCE else None,
            encode=response_layout.response_encoder(
                header_tags=bool(row.response_header_version(version)), fused=self.fused
            ),
            handler=served,
            handle=self._handle(name, served.handle, row.response),
            header_tags=row.request_header_version(version) == 2,
            is_async=served.is_async,
            is_commit=key is ApiKey.OFFSET_COMMIT,
            error_response=lambda request, code: row.response(error_code=code),  # type: ignore[call-arg]
        )
        if served.looks_first and self.services.cluster.has_others:
            from ottla.broker.handlers.missing import of_several

            route = of_several(route, key, self._go_on)
        self.routes[code] = route
        return route

    def _handle(self, api: str, handle: Handle, response: type) -> Handle:
        """The function that serves a route's requests."""
        return handle

    def _is_withheld(self, key: ApiKey) -> bool:
        """True if an API is not served, because there is no workbench."""
        return key is ApiKey.WORKBENCH and self.services.control is None

    def _unknown_api_versions(self, version: int) -> Route:
        from ottla.broker.handlers.api_versions import unknown_version

        route, row = self._route(ApiKey.API_VERSIONS << 16), api(ApiKey.API_VERSIONS)
        handle = self._handle(route.api, unknown_version, row.response)
        has_tags = version < 1 << 15 and row.request_header_version(version) == 2  # versions are signed
        return dataclasses.replace(route, decode=lambda frame, position: None, handle=handle, header_tags=has_tags)

    def _spawn(self, route: Route, request: Any, work: Any, ctx: RequestContext) -> None:
        task = asyncio.get_running_loop().create_task(self._run(route, request, work, ctx))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, route: Route, request: Any, work: Any, ctx: RequestContext) -> None:
        try:
            response = await work
            if response is not None:
                ctx.reply(response)
        except ProtocolError as error:
            ctx.close(str(error))
        except Exception:
            self._finish_bug(route, request, ctx)

    def _answer_bug(self, route: Route, request: Any, ctx: RequestContext) -> bytes | Gathered | None:
        """End a request whose handler failed before it returned; its connection waits for the frame."""
        frame = self._tell_bug(route, request, ctx)
        if frame is not None:
            peer: Any = ctx.connection
            peer.open = None
        return frame

    def _finish_bug(self, route: Route, request: Any, ctx: RequestContext) -> None:
        """The same for one whose answer comes through its context."""
        frame = self._tell_bug(route, request, ctx)
        if frame is not None:
            ctx.connection.finish(ctx, frame)

    def _tell_bug(self, route: Route, request: Any, ctx: RequestContext) -> bytes | Gathered | None:
        """Log the exception being handled and say UNKNOWN_SERVER_ERROR, or close where no answer can say it."""
        name = type(request).__name__
        self.log.error("request failed", request=name, client_id=ctx.client_id, exc_info=True)
        peer: Any = ctx.connection
        if peer.open is not ctx:
            return None  # it was answered before it failed, or its client is gone
        self._note_bug(route)
        failed = route.handler.failed or route.error_response
        try:
            frame = route.encode(failed(request, ErrorCode.UNKNOWN_SERVER_ERROR), ctx.correlation_id)
        except Exception:
            self.log.error("request cannot be answered", request=name, exc_info=True)
            ctx.close(f"{name} failed and its response has no error code")
            return None
        return frame

    def _note_bug(self, route: Route) -> None:
        """The client hears UNKNOWN_SERVER_ERROR."""


def _counted(steps: Steps[None], ctx: MeteredContext) -> Steps[None]:
    """The same steps; what they take is what the request takes, and not the time in between."""
    ctx.spent_ns = 0
    while True:
        began_ns = ctx.meter.nanoseconds()
        try:
            step = next(steps)
        except StopIteration:
            return
        finally:
            ctx.spent_ns += ctx.meter.nanoseconds() - began_ns
        yield step


def correlation_id(frame: bytes, start: int) -> int:
    """The correlation id of a request that begins at ``start``."""
    return int.from_bytes(frame[start + CORRELATION_ID : start + CLIENT_ID], "big", signed=True)


def _known(api_key: int) -> ApiKey:
    try:
        return ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersion(f"API key {api_key} is not known") from None
