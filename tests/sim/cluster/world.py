"""The world of a cluster: nodes over a database, clients, administrators, and what can go wrong between them.

``simulate`` lets things go wrong for a while, mends everything, and waits until all have got on; then the history is
checked. It raises a `Violation` at the first thing that may not be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Row
from ottla.testing.simulated.database import Paces, SimDatabase, SimSession
from ottla.testing.simulated.server import Transaction
from ottla.testing.simulated.statements import LogState
from tests.sim.cluster import history as told
from tests.sim.cluster.clients import Administrator, Asker, Client, Committer, EndAsker, Producer, Reader, Watcher
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.history import Batch, History
from tests.sim.cluster.leading import LEADING, parse
from tests.sim.cluster.node import Node
from tests.sim.cluster.plan import ClusterPlan
from tests.sim.kernel import Kernel, Process

INTERNAL = (0, 1)
FOLLOWER = 2
FIRST_DATA = 3
CALM_MS = 30_000
"""How long everybody has to get on after the last fault."""


class ClusterWorld:
    """See the module."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.kernel = Kernel(f"cluster {plan.seed}")
        self.tables = frozenset(INTERNAL)
        self.history = History(compacted=self.tables)
        self.rng = self.kernel.rng("world")
        self.node_ids = list(range(1, plan.nodes + 1))
        self.internal = frozenset((*INTERNAL, FOLLOWER))
        paces = Paces(6, 12, 10) if plan.has("slow database") else Paces()
        self.database = SimDatabase(self.kernel, paces)
        self.database.on_commit = self._committed
        self.database.on_publish = self._published
        self.database.create(self._logs())
        self.nodes = {node_id: Node(self, node_id) for node_id in self.node_ids}
        self.twins: dict[int, Node] = {}
        """Older processes that had the ids of some of these, and may not know it yet."""
        self.clients = list(self._clients())
        self.faults = Faults(self)
        self._events = 0

    def _logs(self) -> list[LogRow]:
        homes = [1 + index % self.plan.nodes for index in range(FIRST_DATA + self.plan.data_logs)]
        homes[FOLLOWER] = homes[INTERNAL[0]]
        return [
            LogRow(log_id, home, NOBODY, 0, 0, log_id < FIRST_DATA, INTERNAL[0] if log_id == FOLLOWER else None)
            for log_id, home in enumerate(homes)
        ]

    def _clients(self) -> Iterator[Client]:
        data = range(FIRST_DATA, FIRST_DATA + self.plan.data_logs)
        for index in range(self.plan.producers):
            yield Producer(self, f"p{index}", data[index % len(data)])
        yield Producer(self, "events", FOLLOWER)
        for index in range(3):
            log_id = INTERNAL[index % 2]
            yield Committer(self, f"g{index}", log_id)
            yield Asker(self, f"g{index}?", log_id)
        yield Committer(self, "x0", INTERNAL[0])
        for index in range(2):
            yield Reader(self, f"r{index}", data[index])
            yield EndAsker(self, f"e{index}", data[index])
            yield Watcher(self, f"w{index}", data[index])
        if self.plan.administration:
            yield Administrator(self, "a0", INTERNAL[0])
            yield Administrator(self, "a1", INTERNAL[0])

    # What happens

    def simulate(self) -> None:
        """Let everything happen, and look whether it may be so."""
        for client in self.clients:
            Process(self.kernel, client.life())
        Process(self.kernel, self.faults.life())
        self.kernel.run(self.plan.faults_ms)
        self.faults.mend()
        goals = {client: client.progress + 3 for client in self.clients if not isinstance(client, Administrator)}
        end_ms = self.kernel.now_ms + CALM_MS
        while goals and self.kernel.now_ms < end_ms:
            self.kernel.run(self.kernel.now_ms + 250)
            goals = {client: goal for client, goal in goals.items() if client.progress < goal}
        self.history.stuck += [f"{client.name} at log {client.log_id}" for client in goals]
        if not self.plan.is_strict:
            self.history.ends.clear()
        self._look_at_the_end()
        self.history.check()

    def _look_at_the_end(self) -> None:
        """Take down what the database that is left has been told, in its order."""
        starts: dict[int, int] = {}
        for commit in self.database.primary.wal:
            for key, value in commit.writes.items():
                match key[0]:
                    case "row" if value is None:
                        self.history.changes.append(told.Removed(key[1], key[2]))
                    case "row" if not isinstance(commit.name, port.Replace):  # which puts back what was there
                        self.history.changes.append(told.Inserted(_batch(value), value.leader_epoch))
                    case "audit":
                        self.history.changes.append(told.Led(key[1], key[2], *value))
                    case "epoch":
                        self.history.changes.append(told.Begun(key[1], key[2], value))
                    case "log" if isinstance(value, LogState) and value.start != starts.get(key[1], 0):
                        starts[key[1]] = value.start
                        self.history.changes.append(told.Started(key[1], value.start))
                    case "catalog":
                        self.history.topics = set(value[1])

    def tick(self) -> int:
        """The number of an event that a client saw."""
        self._events += 1
        return self._events

    def note(self, what: str, *subjects: Any) -> None:
        """Say it in the trace."""
        self.kernel.note(what, *(f"node {one.node_id}" if isinstance(one, Node) else one for one in subjects))

    def trace(self) -> list[str]:
        return self.kernel.trace()

    # What nodes and clients want of the world

    def clock_rate(self, node_id: int) -> float:
        """How fast a node's clock goes. Any two differ by less than a quarter."""
        rates = (0.9, 1.0, 1.1) if self.plan.has("clock rates") else (1.0,)
        if self.plan.has("wild clocks"):
            rates = (0.4, 1.0, 1.6)
        return self.kernel.rng(f"clock {node_id}").choice(rates)

    def request(
        self, node_id: int, method: Callable[..., None], args: tuple[Any, ...], answer: Callable[..., None]
    ) -> None:
        """Bring a request to a node, and its answer back. Whoever is dead refuses the connection."""

        def reply(*values: Any) -> None:
            if not self._is_lost():
                self.kernel.after(int(self.rng.random() * 4), answer, values)

        def arrive() -> None:
            node = self.nodes[node_id]
            twin = self.twins.get(node_id)
            if twin is not None and twin.is_alive and self.rng.random() < 0.5:
                node = twin
            if node.is_alive:
                node.enter(method, node, reply, *args)
            else:
                self.kernel.after(1, answer, None)

        if not self._is_lost():
            self.kernel.after(int(self.rng.random() * 4), arrive)

    def hints(self, held: frozenset[int] | None) -> frozenset[int] | None:
        """Whose connections are open, as far as that can be known here."""
        if not self.plan.has("hints") or held is None:
            return None
        if self.plan.has("wrong hints") and not self.faults.is_over and self.rng.random() < 0.1:
            return frozenset(node_id for node_id in self.node_ids if self.rng.random() < 0.5)
        return held

    def _is_lost(self) -> bool:
        return self.plan.has("lost messages") and not self.faults.is_over and self.rng.random() < 0.05

    def administrate(self, wish: str, rng: random.Random) -> None:
        """What an administrator wants of whoever leads a log, or of the database itself."""
        node = self.nodes[rng.choice(self.node_ids)]
        data = rng.choice(range(FIRST_DATA, FIRST_DATA + self.plan.data_logs))
        if wish in ("trim", "save", "compact"):
            log_id = data if wish == "trim" else rng.choice(INTERNAL if wish == "compact" else (*INTERNAL, data))
            for leader in self.nodes.values():
                led = leader.led.get(log_id)
                if led is not None and led.standing == LEADING:
                    self._at_leader(wish, leader, log_id, rng)
        elif wish == "sweep":
            node.enter(node.sweep, data)
        elif wish == "move":
            node.enter(node.rehome, rng.randrange(FIRST_DATA + self.plan.data_logs), rng.choice(self.node_ids))
        elif wish == "drain":
            node.enter(node.describe, rng.choice(self.node_ids), rng.choice((0, 0, 1)))

    def _at_leader(self, wish: str, leader: Node, log_id: int, rng: random.Random) -> None:
        led = leader.led[log_id]
        if wish == "trim":
            leader.enter(leader.trim, log_id, rng.randint(led.start, led.high_watermark))
        elif wish == "save":
            leader.enter(leader.save, led)
        else:
            leader.enter(leader.compact, log_id)

    # What the database tells

    def _committed(self, transaction: Transaction) -> None:
        """A leader whose lease holds loses nothing to somebody else, and hands over nothing that is not settled."""
        name = transaction.name
        if not isinstance(name, port.Claim | port.HandOver):
            return
        changed = [value.row for key, value in transaction.writes.items() if key[0] == "log"]
        if isinstance(name, port.Claim) and name.last_sign is not None and self.plan.is_gentle:
            self.history.usurped.append(f"{name}: nothing has happened to its node")
        for row in changed:
            for node in self.nodes.values() if self.plan.is_strict else ():
                led = node.led.get(row.log_id)
                if led is None or led.epoch != row.epoch - 1 or node.is_paused:
                    continue
                if isinstance(name, port.HandOver):
                    if led.pending:
                        self.history.cut_short.append(f"log {row.log_id}")
                elif node.node_id != row.leader_id and led.standing == LEADING and node.may_answer():
                    self.history.usurped.append(f"log {row.log_id} from node {node.node_id} by {name}")

    def _published(self, transaction: Transaction) -> None:
        """What notifies the others."""
        if isinstance(transaction.name, port.Claim | port.HandOver | port.StoreCatalog) and transaction.writes:
            self.note("done", transaction.name)
            for node in self.nodes.values():
                if not self.plan.has("lost notifications") or self.rng.random() < 0.6:
                    self.kernel.after(self.rng.randint(0, 5), node.enter, node.nudge)

    def sessions(self, *roles: str) -> list[SimSession]:
        """Connections that are open, by number."""
        return [one for _, one in sorted(self.database.sessions.items()) if one.is_open and one.role in roles]


def _batch(row: Row) -> Batch:
    return Batch(row.log_id, row.base_offset, row.last_offset, *parse(row))
