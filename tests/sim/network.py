"""Connections: one request is open at a time at the broker; what is sent may come late or never."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tests.sim.calls import Call
from tests.sim.kernel import Violation

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World


class Link:
    """The client's end of a connection. A broken one carries nothing any more, and only a timeout tells."""

    def __init__(self, world: World, node: Node, name: str) -> None:
        self.world = world
        self.name = name
        self.usable = True
        self.waiting: dict[int, Call] = {}
        self._rng = world.rng(f"link {name}")
        self._node = node
        self._last_arrival_ms = 0
        self._broken = False
        self._gone = False  # at the broker's end
        self._end = node.accept(self)

    def _delay(self) -> int:
        if self.world.fault("slow network") and self._rng.random() < 0.1:
            return self._rng.choice((20, 200, 2_000))
        return self._rng.choice((0, 0, 1, 2))

    def send(self, call: Call) -> None:
        call.number = self.world.next_number()
        self.world.note(f"#{call.number} {self.name} → v{call.version}", call.request)
        self.waiting[call.number] = call
        if self.world.fault("lost requests") and self._rng.random() < 0.02:
            self._broken = True
        if self._broken:
            return
        self._last_arrival_ms = max(self.world.now_ms + self._delay(), self._last_arrival_ms)
        self.world.at(self._last_arrival_ms, self._arrive, call)

    def _arrive(self, call: Call) -> None:
        if not self._gone:
            self._end.arrive(call)

    def close(self) -> None:
        """The client hangs up; the broker notices a little later."""
        if self.usable:
            self.usable = False
            self.waiting.clear()
            self.world.after(self._delay(), self._lost)

    def _lost(self) -> None:
        if not self._gone:
            self._gone = True
            self._end.hang_up()

    def broker_died(self) -> None:
        self._gone = True
        self.world.after(self._delay(), self._reset)

    def _reset(self) -> None:
        self.usable = False
        for call in list(self.waiting.values()):
            assert call.answered is not None
            call.answered(None)
        self.waiting.clear()

    def deliver(self, call: Call, response: Any) -> None:
        """The broker answers."""
        if self.world.fault("lost answers") and self._rng.random() < 0.02:
            self._broken = True
        if not self._broken:
            self.world.after(self._delay(), self._receive, call, response)

    def _receive(self, call: Call, response: Any) -> None:
        if self.waiting.pop(call.number, None) is not None:
            self.world.note(f"#{call.number} ←", response)
            assert call.answered is not None
            call.answered(response)


class Context:
    """A request's context, as far as the core reads it."""

    __slots__ = ("api_version", "call", "client_host", "client_id", "end")
    encoded = b""

    def __init__(self, end: ModelEndpoint, call: Call, client_id: str) -> None:
        self.end = end
        self.call = call
        self.client_id = client_id
        self.client_host = "/10.0.0.1"
        self.api_version = call.version

    @property
    def closed(self) -> bool:
        return self.end.gone

    def __repr__(self) -> str:
        return f"#{self.call.number}"


class ModelEndpoint:
    """Serves requests one by one, straight into the core."""

    def __init__(self, node: Node, link: Link) -> None:
        self.node = node
        self.link = link
        self.open: Context | None = None
        self.gone = False
        self._frames: deque[Call] = deque()

    def arrive(self, call: Call) -> None:
        self._frames.append(call)
        self._pump()

    def hang_up(self) -> None:
        self.gone = True
        self._frames.clear()

    def _pump(self) -> None:
        while self.open is None and self._frames and not self.gone:
            call = self._frames.popleft()
            ctx = self.open = Context(self, call, self.link.name.partition("/")[0])
            self.node.serve(ctx, call)

    def finish(self, ctx: Context, response: Any) -> None:
        if self.gone:
            return
        if self.open is not ctx:
            raise Violation("answered once", f"{ctx!r} is answered, but its connection does not wait for it")
        self.open = None
        self.link.deliver(ctx.call, response)
        if self._frames:
            self.node.world.after(0, self._pump)
