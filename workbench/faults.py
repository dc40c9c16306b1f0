"""Faults: rules that are in force between connections and handlers.

While there is none the dispatcher has no gate, and nothing is in the way of a request. With rules, each request is held
against those of its API before it is served; commits and heartbeats that come again take the short ways still, where
no rule can be about them.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from ottla.broker.clock import Clock
from ottla.broker.context import Mute, Transport
from ottla.broker.core.events import FaultFired
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.dispatch import Dispatcher, Kept, Peer, Route
from ottla.broker.handlers.services import Services
from ottla.broker.net.socket_server import SocketServer
from ottla.protocol.messages.workbench import CLIENT_ID
from ottla.workbench.named import GROUP, INSTANCE, MEMBER, TOPIC, TOPIC_ID, TRANSACTIONAL_ID, names
from ottla.workbench.rule import ANY_API, API_KEYS, Rule

CHANGED_BYTES = 8
"""So many bytes of a corrupt answer are changed, behind the length and the correlation id."""
HEAD_BYTES = 8
MOST_UNUSED = 16
"""So many faults that were taken out of force and never fired are remembered."""
ELSEWHERE_S = 0.5
"""How long a broker that restarts is away, where it is not said."""

Serve = Callable[[], None]


class Stage(Protocol):
    """What a fault can do beside requests; see `ottla.workbench.bench`."""

    def move_coordinator(self, group_id: str, away_s: float | None) -> Callable[[], None]:
        """Let the coordinator of a group be elsewhere, for seconds or until the function is called."""
        ...

    def restart(self, away_s: float) -> None:
        """Lose all connections, load everything from the logs, and accept none for so many seconds."""
        ...


class _Asked(NamedTuple):
    """A request that came in, as far as rules ask."""

    api: str
    request: Any
    client_id: str

    def names(self, kind: str) -> list[Any]:
        return names(API_KEYS[self.api], self.request, kind)


class Tally:
    """What has come of a rule, at all the nodes at which it is in force.

    Attributes:
        hits: how often it fired.
        seen: how many requests of its APIs came in meanwhile.
        matched: how many of them were as it says.
        missed: why the last of them that it let pass was none for it; empty if there was none.
        on_fired: called when it has fired.
    """

    def __init__(self, rule: Rule) -> None:
        self.hits = self.seen = self.matched = 0
        self.missed = ""
        self.random = Random(rule.seed)
        self.on_fired: list[Callable[[], None]] = []


class Fault:
    """A rule in force at a node.

    Attributes:
        tally: what has come of the rule.
        is_set: whether it is in force.
    """

    def __init__(self, rule: Rule, number: int, faults: Faults, tally: Tally | None = None) -> None:
        self.rule = rule
        self.number = number
        self.tally = tally or Tally(rule)
        self.is_set = True
        self._faults = faults
        self._held: dict[object, Callable[[], None]] = {}

    @property
    def hits(self) -> int:
        """How often it fired."""
        return self.tally.hits

    @property
    def name(self) -> str:
        """Its name, or the rule as one would type it."""
        return self.rule.name or str(self.rule)

    @property
    def held(self) -> int:
        """How many requests and answers wait for its release."""
        return len(self._held)

    @property
    def came(self) -> str:
        """What came while it was in force, for whoever wonders why it did not fire."""
        what = "request" if ANY_API in self.rule.apis else f"{' or '.join(self.rule.apis)} request"
        if not self.tally.seen:
            return f"no {what} came"
        missed = f"; of the last that it let pass, {self.tally.missed}" if self.tally.missed else ""
        return f"{self.tally.seen} {what}{'s' * (self.tally.seen != 1)} came{missed}"

    @property
    def never_fired(self) -> str:
        """That it never fired, and what came instead; empty if it did, or need not."""
        if self.hits or self.rule.allow_unused:
            return ""
        return f"the fault {self.name} never fired: {self.came}"

    def release(self) -> int:
        """Let go of all that it holds; returns how many that were. It goes on to hold what comes."""
        held, self._held = self._held, {}
        for let_go in held.values():
            let_go()
        return len(held)

    def remove(self) -> None:
        """Take it out of force, and let go of what it holds."""
        self._faults.remove(self)

    # matching

    def may_want(self, asked: _Asked) -> bool:
        """Whether a request is one for it, now or another time."""
        return not self._is_over and not self._mismatch(asked)

    @property
    def _is_over(self) -> bool:
        rule = self.rule
        if rule.times is not None:
            return self.hits >= rule.times
        return rule.nth is not None and self.tally.matched >= rule.nth

    def wants(self, asked: _Asked, services: Services) -> bool:
        """Whether it fires for a request, which is counted."""
        rule = self.rule
        self.tally.seen += 1
        if self._is_over:
            self.tally.missed = "it had fired as often as it should"
            return False
        missed = self._mismatch(asked) or self._out_of_phase(asked, services)
        if missed:
            self.tally.missed = missed
            return False
        self.tally.matched += 1
        if rule.nth is not None and self.tally.matched < rule.nth:
            self.tally.missed = f"it was number {self.tally.matched} of its kind, and {rule.nth} is wanted"
            return False
        if rule.chance is not None and self.tally.random.random() >= rule.chance:
            self.tally.missed = "chance let it pass"
            return False
        return True

    def _mismatch(self, asked: _Asked) -> str:
        """Why a request can never be one for it; empty if it may be."""
        rule = self.rule
        if rule.node not in (None, self._faults.node_id):
            return f"it came to node {self._faults.node_id}, not {rule.node}"
        if rule.client_id is not None and rule.client_id != asked.client_id:
            return f"its client id was {asked.client_id!r}, not {rule.client_id!r}"
        wanted = (
            (GROUP, rule.group),
            (MEMBER, rule.member),
            (INSTANCE, rule.instance),
            (TRANSACTIONAL_ID, rule.transactional_id),
        )
        for kind, value in wanted:
            if value is not None and value not in (found := asked.names(kind)):
                return f"its {kind} was {', '.join(map(repr, found)) or 'not named'}, not {value!r}"
        if rule.topic is not None and rule.topic not in (found := self._faults.topics_of(asked)):
            return f"its topic was {', '.join(map(repr, found)) or 'not named'}, not {rule.topic!r}"
        return ""

    def _out_of_phase(self, asked: _Asked, services: Services) -> str:
        """Why it does not fire for a request at this moment; empty if it does."""
        rule = self.rule
        if rule.phase is None and rule.leader is None and rule.generation is None:
            return ""
        groups = [services.groups.groups.get(group_id) for group_id in asked.names(GROUP)]
        group = groups[0] if groups else None
        phase = "Dead" if group is None else group.shown_state or "Dead"
        if rule.phase is not None and rule.phase != phase:
            return f"the group was {phase}, not {rule.phase}"
        generation = -1 if group is None else group.generation
        if rule.generation is not None and rule.generation != generation:
            return f"the group was in generation {generation}, not {rule.generation}"
        if rule.leader is not None:
            is_leader = isinstance(group, ClassicGroup) and group.leader_id in asked.names(MEMBER)
            if rule.leader is not is_leader:
                return f"it came from {'the leader' if is_leader else 'a member that does not lead'}"
        return ""

    # acting

    def begin(self, ctx: FaultyContext) -> None:
        """Have a request: serve it now, later or never."""
        rule = self.rule
        if rule.side == "response":
            ctx.serve()
            return
        match rule.action:
            case "error":
                self.fired(ctx, f"answered {rule.code.name}, and nothing was done")
                ctx.refuse()
            case "drop":
                self.fired(ctx, "dropped the request")
            case "close":
                self.fired(ctx, "closed the connection in the place of the request")
                ctx.connection.abort(f"the fault {self.name} closes it")
            case "hold":
                self.fired(ctx, "held the request")
                self._hold(ctx, ctx.serve, "let the request go")
            case "delay":
                assert rule.delay is not None
                self.fired(ctx, f"delayed the request by {rule.delay:g} s")
                self._later(ctx, rule.delay, ctx.serve)
            case "elsewhere":
                self.fired(ctx, "moved the coordinator away")
                away_s = None if rule.elsewhere is True else rule.elsewhere
                for group_id in ctx.asked.names(GROUP):
                    back = self._faults.stage.move_coordinator(group_id, away_s)
                    if away_s is None:
                        self._held[back] = back
                ctx.serve()
            case _:
                self.fired(ctx, "restarted the broker")
                away_s = ELSEWHERE_S if rule.restart in (None, True) else rule.restart
                self._faults.stage.restart(away_s or 0)

    def answer(self, ctx: FaultyContext, response: Any) -> None:
        """Have an answer: give it, changed or later, or never."""
        rule = self.rule
        if rule.side == "request":
            ctx.send(response)
            return
        match rule.action:
            case "error":
                self.fired(ctx, f"put {rule.code.name} in the place of the answer")
                ctx.refuse()
            case "drop":
                self.fired(ctx, "dropped the answer")
            case "close":
                self.fired(ctx, "closed the connection in the place of the answer")
                ctx.connection.abort(f"the fault {self.name} closes it")
            case "hold":
                self.fired(ctx, "held the answer")
                self._hold(ctx, partial(ctx.send, response), "let the answer go")
            case "delay":
                assert rule.delay is not None
                self.fired(ctx, f"delayed the answer by {rule.delay:g} s")
                self._later(ctx, rule.delay, partial(ctx.send, response))
            case "throttle":
                assert rule.throttle is not None
                self.fired(ctx, f"throttled the client for {rule.throttle:g} s")
                self._throttle(ctx, response, int(rule.throttle * 1000))
            case _:
                self.fired(ctx, f"changed {CHANGED_BYTES} bytes of the answer")
                self._corrupt(ctx, response)

    def fired(self, ctx: FaultyContext, done: str) -> None:
        """Count it, and tell observers."""
        self.tally.hits += 1
        self._tell(ctx, done)
        if self._is_over:
            self._faults.refresh()
        for tell in self.tally.on_fired:
            tell()

    def _tell(self, ctx: FaultyContext, done: str) -> None:
        self._faults.tell(self, ctx, done)

    def _hold(self, ctx: FaultyContext, go_on: Callable[[], None], done: str) -> None:
        def let_go() -> None:
            if not ctx.closed:
                self._tell(ctx, done)
                go_on()

        def forget() -> None:
            self._held.pop(ctx, None)

        self._held[ctx] = let_go
        ctx.on_close = forget

    def _later(self, ctx: FaultyContext, after_s: float, go_on: Callable[[], None]) -> None:
        clock = self._faults.clock
        timer = clock.call_at(clock.monotonic_ms() + int(after_s * 1000), go_on)
        ctx.on_close = timer.cancel

    def _throttle(self, ctx: FaultyContext, response: Any, wait_ms: int) -> None:
        if any(field.name == "throttle_time_ms" for field in type(response).__wire__):
            response = copy.copy(response)  # some are shared
            response.throttle_time_ms = wait_ms
        ctx.send(response)
        mute, clock = Mute(ctx.connection), self._faults.clock

        def end() -> None:
            timer.cancel()
            if not mute.closed:
                mute.connection.finish(mute, None)

        timer = clock.call_at(clock.monotonic_ms() + wait_ms, end)
        mute.on_close = end
        ctx.connection.mute(mute)

    def _corrupt(self, ctx: FaultyContext, response: Any) -> None:
        frame = bytearray(bytes(ctx.encode(response)))
        for _ in range(CHANGED_BYTES if len(frame) > HEAD_BYTES else 0):
            frame[self.tally.random.randrange(HEAD_BYTES, len(frame))] ^= self.tally.random.randrange(1, 256)
        ctx.connection.finish(ctx, bytes(frame))


class FaultyContext(Kept):
    """A request that a fault has: it decides when it is served, and what becomes of its answer."""

    __slots__ = ("_fault", "_serve", "asked", "refused")

    def __init__(
        self, peer: Transport, version: int, correlation_id: int, asked: _Asked, route: Route, fault: Fault
    ) -> None:
        super().__init__(peer, version, correlation_id, asked.client_id, route.encode, route.api)
        self.asked = asked
        self.refused = partial(route.handler.failed or route.error_response, asked.request)
        self._fault = fault
        self._serve: Serve

    def begin(self, serve: Serve) -> None:
        """Let the fault have the request, which the function serves."""
        self._serve = serve
        self._fault.begin(self)

    def serve(self) -> None:
        """Serve it, unless its client is gone."""
        self.on_close = None
        if not self.closed:
            self._serve()

    def refuse(self) -> None:
        """Answer with the error of the fault, where there is an answer: not to a Produce with acks=0."""
        if self.asked.api == "Produce" and self.asked.request.acks == 0:
            self.connection.abort(f"Produce with acks=0 failed: {self._fault.rule.code.text}")
        else:
            self.send(self.refused(self._fault.rule.code))

    def send(self, response: Any) -> None:
        """Give an answer, and let no fault have it."""
        super().reply(response)

    def reply(self, response: Any) -> None:
        if not self.closed:
            self._fault.answer(self, response)

    def _reply_in_steps(self, response: Any) -> Any:
        self.reply(response)
        yield from ()


class Faults:
    """The faults of a broker; the gate of its dispatcher while there are any (`ottla.broker.dispatch.Gate`).

    Attributes:
        current: those in force, in the order in which they were set. The first that wants a request has it.
    """

    def __init__(
        self, services: Services, dispatcher: Dispatcher, server: SocketServer, clock: Clock, stage: Stage
    ) -> None:
        self.clock = clock
        self.stage = stage
        self.current: list[Fault] = []
        self._services = services
        self._dispatcher = dispatcher
        self._server = server
        self._by_api: dict[str, list[Fault]] = {}
        self._numbers = 0
        self._unused: deque[Fault] = deque(maxlen=MOST_UNUSED)

    @property
    def node_id(self) -> int:
        """The node whose requests they are about."""
        return self._services.cluster.me

    def add(self, rule: Rule, tally: Tally | None = None) -> Fault:
        """Put a rule in force.

        Args:
            tally: of the rule, where it is in force at other nodes, too.
        """
        self._numbers += 1
        fault = Fault(rule, self._numbers, self, tally)
        self.current.append(fault)
        self.refresh()
        return fault

    def remove(self, fault: Fault) -> None:
        """Take a fault out of force, and let go of what it holds."""
        if fault.is_set:
            fault.is_set = False
            self.current.remove(fault)
            if fault.never_fired:
                self._unused.append(fault)
            self.refresh()
        fault.release()

    def refresh(self) -> None:
        """Let rules be what they are now: what came again may be of interest from now on, or no longer."""
        self._by_api.clear()
        self._dispatcher.gate = self if self.current else None
        self._services.prepared.changed()
        for connection in self._server.connections:
            connection.repeat = None

    def never_fired(self) -> list[str]:
        """Of each fault that never fired and had to, also of the latest that are out of force, what came instead."""
        return [text for fault in (*self._unused, *self.current) if (text := fault.never_fired)]

    def stop(self) -> None:
        """Close the connections whose requests faults have: nobody should wait for their answers."""
        for connection in list(self._server.connections):
            if isinstance(connection.open, FaultyContext):
                connection.kill()

    def takes(self, route: Route, request: Any, peer: Peer, version: int, correlation_id: int) -> FaultyContext | None:
        """See `ottla.broker.dispatch.Gate`."""
        faults = self._of(route.api)
        if not faults or peer.client_id == CLIENT_ID:
            return None
        asked = _Asked(route.api, request, peer.client_id)
        for fault in faults:
            if fault.wants(asked, self._services):
                return FaultyContext(peer, version, correlation_id, asked, route, fault)
        return None

    def watches(self, route: Route, request: Any, peer: Peer) -> bool:
        """See `ottla.broker.dispatch.Gate`."""
        asked = _Asked(route.api, request, peer.client_id)
        return any(fault.may_want(asked) for fault in self._of(route.api))

    def _of(self, api: str) -> list[Fault]:
        found = self._by_api.get(api)
        if found is None:
            found = [fault for fault in self.current if api in fault.rule.apis or ANY_API in fault.rule.apis]
            self._by_api[api] = found
        return found

    def topics_of(self, asked: _Asked) -> list[str]:
        """The topics that a request names, by name or by id."""
        found: list[str] = asked.names(TOPIC)
        for topic_id in asked.names(TOPIC_ID):
            if (topic := self._services.topics.by_id.get(topic_id)) is not None:
                found.append(topic.name)
        return found

    def tell(self, fault: Fault, ctx: FaultyContext, done: str) -> None:
        """Tell observers what a fault has done."""
        asked = ctx.asked
        groups, members = asked.names(GROUP), asked.names(MEMBER)
        now_ms, wall_ms = self._services.host.now()
        self._services.groups.observer(
            FaultFired(
                group_id=groups[0] if groups else "",
                cause=0,
                at_ms=now_ms,
                wall_ms=wall_ms,
                fault=fault.name,
                api=asked.api,
                member_id=members[0] if members else "",
                client_id=asked.client_id,
                done=done,
            )
        )
