"""The dispatcher of a broker whose requests are counted and timed; others have nothing of this in their way.

Each route's handler is wrapped once, as the route is made. Requests that repeat, which are heartbeats, go past that:
all are counted, with one number raised by one, and one in `SAMPLED` is timed and stands for all of these.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.broker.context import RequestContext
from ottla.broker.dispatch import CLIENT_ID, CORRELATION_ID, Dispatcher, Handle, Peer, Repeat, Route, correlation_id
from ottla.broker.logger import Logger
from ottla.observe.metrics.requests import Requests
from ottla.protocol.errors import ErrorCode
from ottla.protocol.framing import Gathered
from ottla.protocol.messages.offset_commit import OffsetCommitResponse

SAMPLED = 32
"""A power of two."""
_REST = SAMPLED - 1


class _Counted(Repeat):
    """A request that repeats, and the number of those that were answered as it was last."""

    __slots__ = ("cell", "measure")

    def __init__(
        self, measure: Requests, frame: bytes, start: int, route: Route, request: Any, ctx: RequestContext
    ) -> None:
        super().__init__(frame, start, route, request, ctx)
        self.measure = measure
        self.cell = [0]

    def answer(self, response: Any, correlation_id: int) -> bytes:
        self.cell = self.measure.cell(self.route.api, response.error_code)
        return super().answer(response, correlation_id)


class MeasuredDispatcher(Dispatcher):
    """See the module."""

    def __init__(self, services: Any, log: Logger, codec: str, measure: Requests) -> None:
        super().__init__(services, log, codec)
        self.measure = measure
        self.new_repeat = partial(_Counted, measure)

    def receive(self, frame: bytes, start: int, peer: Peer) -> bytes | Gathered | None:
        repeat: Any = peer.repeat
        if (
            repeat is not None
            and frame[start + CLIENT_ID :] == repeat.rest
            and frame[start : start + CORRELATION_ID] == repeat.code
        ):
            cell = repeat.cell
            count = cell[0] + 1
            try:
                if count & _REST:
                    response = repeat.handle(repeat.request, repeat.ctx, self.services)
                else:
                    response = self._timed(repeat)
                if response is repeat.response:
                    cell[0] = count
                    return repeat.before + frame[start + CORRELATION_ID : start + CLIENT_ID] + repeat.after  # type: ignore[no-any-return]
                if response is not None:
                    answer: bytes = repeat.answer(response, correlation_id(frame, start))
                    repeat.cell[0] += 1
                    return answer
            except Exception:
                peer.open = repeat.ctx
                repeat.ctx.correlation_id = correlation_id(frame, start)
                return self._answer_bug(repeat.route, repeat.request, repeat.ctx)
        return self._serve(frame, start, peer)

    def _serve_prepared(self, frame: bytes, start: int, peer: Peer) -> bool:
        """Serve a commit that comes again, if it does; it is timed until its answer is encoded."""
        began_ns = self.measure.nanoseconds()
        if not super()._serve_prepared(frame, start, peer):
            return False
        timed = self.measure.begun("OffsetCommit", OffsetCommitResponse, began_ns)
        ctx, timed.encode = peer.open, peer.prepared.serving.answer
        if ctx is not None:
            ctx.watch(timed)
        else:
            timed.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # only what was refused by the log is answered so soon
        return True

    def _timed(self, repeat: Repeat) -> Any:
        began_ns = self.measure.nanoseconds()
        response = repeat.handle(repeat.request, repeat.ctx, self.services)
        self.measure.took(repeat.route.api, self.measure.nanoseconds() - began_ns, SAMPLED)
        return response

    def _handle(self, api: str, handle: Handle, response: type) -> Handle:
        return self.measure.wrap(api, handle, response)

    def _note_bug(self, route: Route) -> None:
        self.measure.bug(route.api)
