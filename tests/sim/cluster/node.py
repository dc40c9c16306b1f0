"""A node of a simulated cluster: the real machines, connections that fail, a clock of its own, and what it serves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.cluster import membership as member
from ottla.broker.cluster.membership import Membership
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer
from ottla.broker.storage.postgres.lane import Diverged, Done, Lane, Lost, Send
from ottla.broker.storage.postgres.pages import Fetch, Pages, Ready
from ottla.testing.simulated.server import Server
from tests.sim.cluster.link import Link
from tests.sim.cluster.serving import Serving
from tests.sim.kernel import Violation

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld


class Node(Serving):
    """See the module. Whatever comes from outside comes through `enter`: a paused node gets it when it wakes."""

    def __init__(self, world: ClusterWorld, node_id: int) -> None:
        super().__init__(world, node_id)
        self.database = world.database
        self.server: Server | None = None
        self.is_alive = True
        self.is_paused = False
        self.rate = world.clock_rate(node_id)
        self.membership: Membership | None = None
        self._machines: tuple[Membership | Lane | Pages, ...] = (*self.lanes, self.pages)
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._timer_ms: int | None = None
        self.links = {role: Link(self, role, deadline_ms) for role, deadline_ms in world.plan.deadlines}
        self.h, self.m, self.r, self.look = (self.links[role] for role in "HMRL")
        for index in range(2):
            link = self.links[f"F{index}"]
            link.on_connected = self.lanes[index].connected
            link.on_lost = self.lanes[index].lost
        for role in ("M", "R", "L", "F0", "F1"):
            self.links[role].connect()
        self.m.ask(port.Register(node_id), self._registered)
        self._settle()

    # Time, and the way in

    @property
    def now_ms(self) -> int:
        """This node's clock."""
        return int(self.world.kernel.now_ms * self.rate)

    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        self.world.kernel.after(delay_ms, self.enter, call, *args)

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Let something happen to this node."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._inbox.append((call, args))
            return
        call(*args)
        self._settle()

    def kill(self, *, is_silent: bool) -> None:
        """The process ends. If its host does, the database does not learn of it before long."""
        self.is_alive = False
        for link in self.links.values():
            if link.session is not None:
                session = link.session
                session.is_open = False
                self.world.kernel.after(5_000 if is_silent else 1, self.database.hang_up, session)

    def pause(self) -> None:
        """The process stops: its timers, callbacks and answers wait."""
        self.is_paused = True

    def wake(self) -> None:
        """And goes on where it was."""
        self.is_paused = False
        waiting, self._inbox = self._inbox, deque()
        for call, args in waiting:
            self.enter(call, *args)

    def may_answer(self) -> bool:
        """Whether state may be shown without asking the database."""
        return self.is_alive and self.membership is not None and self.membership.may_answer(self.now_ms)

    # Connections

    def moved_to(self, server: Server, link: Link) -> None:
        """All connections of a node talk to one server, but for those that a world wants left behind."""
        self.server = server
        for other in self.links.values():
            is_left = other is self.r and self.world.plan.has("sessions left behind")
            if other is not link and other.session is not None and other.session.server is not server and not is_left:
                other.abort()

    def _registered(self, answer: Answer | None) -> None:
        if answer is None:
            self.m.ask(port.Register(self.node_id), self._registered)
            return
        assert isinstance(answer.result, int)
        self.membership = Membership(self.node_id, answer.result, settle_ms=self.world.plan.settle_ms)
        self._machines = (self.membership, *self._machines)
        self.h.on_connected = self._beats
        self.h.on_lost = self._beats_lost
        self.h.connect()

    def _beats(self) -> None:
        assert self.membership is not None
        self.membership.connected(self.now_ms)

    def _beats_lost(self) -> None:
        assert self.membership is not None
        self.membership.lost(self.now_ms)

    def nudge(self) -> None:
        """A notification came."""
        if self.membership is not None:
            self.membership.nudged(self.now_ms)

    def _tick(self) -> None:
        self._timer_ms = None
        if self.membership is not None:
            self.membership.tick(self.now_ms)
        held = [(lane.memory_bytes, self.world.plan.append_memory) for lane in self.lanes]
        if any(used > most for used, most in (*held, (self.tail.memory_bytes, self.world.plan.memory))):
            raise Violation("memory is bounded", f"node {self.node_id}: {held}, tail {self.tail.memory_bytes}")

    # Effects

    def _settle(self) -> None:
        """Carry out what the machines want, until they want nothing more."""
        while self.is_alive and any(machine.effects for machine in self._machines):
            for machine in self._machines:
                effects, machine.effects = machine.effects, []
                for effect in effects:
                    self._carry_out(machine, effect)
        next_ms = None if self.membership is None else self.membership.next_ms
        if next_ms is not None and (self._timer_ms is None or next_ms < self._timer_ms):
            self._timer_ms = next_ms
            self.world.kernel.at(int(next_ms / self.rate) + 1, self.enter, self._tick)

    def _carry_out(self, machine: object, effect: object) -> None:
        match effect:
            case Send():
                self._send(self.lanes.index(machine), effect)  # type: ignore[arg-type]
            case Done():
                effect.token(effect.row, effect.error)  # type: ignore[operator]
            case Lost():
                led = self.led.get(effect.log_id)
                if led is not None and led.epoch == effect.leader_epoch:
                    self.lose(led)
            case Diverged():
                raise Violation("acknowledged records stay", f"{effect}: node {self.node_id} expected another end")
            case Fetch():
                self.r.ask(effect.page, lambda answer: self._page_came(effect.page, answer))
            case Ready():
                self._look_again(effect.token)
            case _:
                self._obey_membership(effect)

    def _obey_membership(self, effect: object) -> None:
        assert self.membership is not None
        match effect:
            case member.Beat():
                beat = port.Beat(self.node_id, self.membership.incarnation)
                self.h.ask(beat, lambda answer: self._beaten(effect.number, answer))
            case member.Suspend():
                self.suspend()
            case member.Read():
                self._read(effect.number)
            case member.Superseded():
                self.kill(is_silent=False)

    def _send(self, index: int, effect: Send) -> None:
        lane = self.lanes[index]

        def answered(answer: Answer | None) -> None:
            if answer is None:
                return  # the lane knows: its connection has ended
            if answer.refusal is not None:
                lane.rival()
            else:
                lane.answered(answer.result)  # type: ignore[arg-type]

        self.links[f"F{index}"].ask(port.Append(effect.heads, effect.rows), answered)

    # Membership

    def _beaten(self, number: int, answer: Answer | None) -> None:
        if answer is not None and self.membership is not None:
            heard = answer.result
            assert isinstance(heard, member.Heard)
            self.membership.answered(self.now_ms, number, heard._replace(held=self.world.hints(heard.held)))
            self.act()

    def _read(self, number: int) -> None:
        """Leaders and catalog, until they have been read."""

        def catalog(answer: Answer | None) -> None:
            if answer is None:
                self.m.ask(port.ReadCatalog(), catalog)
                return
            self.take_catalog(*answer.result)  # type: ignore[misc]
            self.m.ask(port.ReadLogs(), logs)

        def logs(answer: Answer | None) -> None:
            assert self.membership is not None
            if answer is None:
                self.m.ask(port.ReadLogs(), logs)
                return
            self.take_rows(answer.result)  # type: ignore[arg-type]
            self.membership.has_read(number)
            self.resume()
            self.act()

        self.m.ask(port.ReadCatalog(), catalog)
