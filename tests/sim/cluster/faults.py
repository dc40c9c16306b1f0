"""What goes wrong in the world of a cluster: drawn one after the other, and mended at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from tests.sim.cluster.node import Node

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

ROLES = ("H", "M", "R", "L", "F0", "F1", "F0", "F1")


class Faults:
    """See the module."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.rng = world.kernel.rng("faults")
        self.is_over = False
        self._stopped: Node | None = None
        self._is_down = False
        self._causes: dict[str, Callable[[], None]] = {
            "connections end": self._lose,
            "late statements": self._lose_late,
            "half-sent statements": self._hold,
            "stopped backends": self._freeze,
            "ended backends": self._terminate,
            "cancelled waits": self._cancel,
            "stalls": self._stall,
            "crashes": self._crash,
            "fail-over": self._promote,
            "kills": self._kill,
            "pauses": self._pause,
            "a node stays stopped": self._stop,
            "started twice": self._start_twice,
            "slow connections": self._slow,
            "no connections": self._refuse,
        }

    def life(self) -> Generator[Any, Any, None]:
        """Cause one trouble after the other."""
        yield self.rng.randint(500, 2_000)
        faults = self.world.plan.faults
        while faults and not self.is_over:
            name = self.rng.choice(faults)
            self.world.note(name)
            self._causes[name]()
            yield self.rng.randint(1, self.world.plan.between_ms)

    def mend(self) -> None:
        """End all trouble; a node that stays stopped stays so."""
        world, database = self.world, self.world.database
        self.is_over = True
        if self._is_down:
            self._start()
        database.refuse(False)
        database.go_on()
        database.end_zombies()
        for number, session in sorted(database.sessions.items()):
            session.slow_ms = 0
            database.thaw(number)
            if self._stopped is None or session.node != self._stopped.node_id:
                session.is_cut_short = False
                database.release(number)
        for twin in world.twins.values():
            if twin.is_alive and twin.is_paused:
                twin.wake()
        for node_id, node in world.nodes.items():
            if not node.is_alive:
                self._start_node(node_id)
            elif node.is_paused and node is not self._stopped:
                node.wake()
        node = next(node for node in world.nodes.values() if node.is_alive and not node.is_paused)
        for node_id in world.node_ids:
            node.enter(node.describe, node_id, 0)

    def _later(self, most_ms: int, call: Callable[..., None], *args: Any) -> None:
        def unless_over() -> None:
            if not self.is_over:
                call(*args)

        self.world.kernel.after(self.rng.randint(1, most_ms), unless_over)

    def _any(self, *roles: str) -> Any:
        sessions = self.world.sessions(*roles)
        role = self.rng.choice(roles)
        some = [one for one in sessions if one.role == role] or sessions
        return self.rng.choice(some) if some else None

    # Connections and backends

    def _lose(self) -> None:
        session = self._any(*ROLES)
        if session is not None:
            self.world.database.lose(session, late_ms=self.rng.choice((None, 1, 20)))

    def _lose_late(self) -> None:
        session = self._any("M", "F0", "F1")
        if session is not None:
            session.slow_ms = 100  # so that something is on its way
            self._later(150, self._lose_now, session)

    def _lose_now(self, session: Any) -> None:
        """What was sent may come when the node has died, or been away so long that others have taken over."""
        fate = self.rng.choice(("", "pause", "kill"))
        late_ms = self.rng.choice((None, 900, 6_000) if fate != "kill" else (300, 900, 4_500))
        self.world.database.lose(session, late_ms=late_ms and self.rng.randint(20, late_ms))
        if fate == "pause":
            self._pause_for(self.world.nodes[session.node], self.rng.choice((3_100, 3_500, 6_000)))
        elif fate == "kill":
            self._end(self.world.nodes[session.node])

    def _hold(self) -> None:
        session = self._any("F0", "F1")
        if session is None:
            return
        session.is_cut_short = True
        if self.rng.random() < 0.5:
            self._later(8_000, self.world.database.release, session.number)
        if self.rng.random() < 0.5:
            self._later(200, self._pause_for, self.world.nodes[session.node], self.rng.randint(4_000, 9_000))

    def _freeze(self) -> None:
        session = self._any(*ROLES)
        if session is not None:
            self.world.database.freeze(session.number, self.rng.randint(0, 6))
            self._later(9_000, self.world.database.thaw, session.number)
            if self.rng.random() < 0.5:
                self._later(500, self.world.database.lose, session)

    def _terminate(self) -> None:
        session = self._any(*ROLES)
        if session is not None:
            self.world.database.terminate(session.number)

    def _cancel(self) -> None:
        """The standby stalls, somebody cancels what waits for it, and perhaps it is promoted soon after."""
        database = self.world.database
        if not database.primary.is_up or database.primary.is_stalled:
            return
        self._stall()
        for session in self.world.sessions("F0", "F1", "M"):
            if self.rng.random() < 0.7:
                self._later(400, database.cancel, session.number)
        if self.world.plan.has("fail-over") and self.rng.random() < 0.7:
            self._later(1_200, self._promote)

    def _slow(self) -> None:
        session = self._any(*ROLES)
        if session is not None:
            session.slow_ms = self.rng.choice((30, 200, 900, 2_300))

    def _refuse(self) -> None:
        self.world.database.refuse(True)
        self._later(2_000, self.world.database.refuse, False)

    # Servers

    def _stall(self) -> None:
        if self.world.database.primary.is_up:
            self.world.database.stall()
            self._later(self.rng.choice((500, 2_000, 6_000)), self.world.database.go_on)

    def _crash(self) -> None:
        if not self._is_down:
            self._is_down = True
            self.world.database.crash()
            self._later(self.rng.choice((300, 1_500, 5_000)), self._start)

    def _start(self) -> None:
        if self._is_down:
            self._is_down = False
            self.world.database.start()

    def _promote(self) -> None:
        if not self._is_down:
            self.world.database.promote(leaves_zombie=self.rng.random() < 0.6)
            self._later(self.rng.choice((4_000, 20_000)), self.world.database.end_zombies)

    # Nodes

    def _node(self) -> Node | None:
        some = [node for node in self.world.nodes.values() if node.is_alive and not node.is_paused]
        return self.rng.choice(some) if len(some) > 1 else None

    def _kill(self) -> None:
        node = self._node()
        if node is not None:
            self._end(node)

    def _end(self, node: Node) -> None:
        if node.is_alive and node is not self._stopped:
            node.kill(is_silent=self.rng.random() < 0.3)
            self._later(self.rng.choice((200, 3_000, 8_000)), self._start_node, node.node_id)

    def _start_node(self, node_id: int) -> None:
        if not self.world.nodes[node_id].is_alive:
            self.world.nodes[node_id] = Node(self.world, node_id)

    def _start_twice(self) -> None:
        """Another process is started with the id of one that is there, perhaps stopped."""
        node = self._node()
        if node is not None and node.node_id not in self.world.twins:
            if self.rng.random() < 0.5:
                self._pause_for(node, self.rng.choice((1_000, 4_000)))
            self.world.twins[node.node_id] = node
            self.world.nodes[node.node_id] = Node(self.world, node.node_id)

    def _pause(self) -> None:
        node = self._node()
        if node is not None:
            self._pause_for(node, self.rng.choice((500, 2_000, 3_300, 3_600, 4_500, 9_000)))

    def _pause_for(self, node: Node, how_long_ms: int) -> None:
        if node.is_alive and not node.is_paused:
            node.pause()
            self.world.kernel.after(how_long_ms, self._wake, node)

    def _wake(self, node: Node) -> None:
        if node.is_alive and node.is_paused and node is not self._stopped:
            node.wake()

    def _stop(self) -> None:
        """A node is stopped for good, most likely half-way through sending something."""
        node = self._node()
        if self._stopped is None and node is not None:
            for session in self.world.sessions("F0", "F1"):
                session.is_cut_short = session.is_cut_short or session.node == node.node_id
            self._stopped = node
            self.world.kernel.after(self.rng.randint(50, 300), node.pause)
