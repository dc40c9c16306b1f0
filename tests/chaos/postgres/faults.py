"""What happens to nodes over a database, to the database, and between them, and how long groups go unanswered."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.killing import SETTINGS, Account, Killing
from tests.chaos.ledger import Place
from tests.chaos.postgres.cluster import NODES, Cluster, NodeProcess
from tests.chaos.postgres.probe import Probe
from tests.chaos.postgres.rows import tables_of
from tests.support.tcp_proxy import Carried, TcpProxy
from tests.support.waiting import wait_for

SHORT_S, LONG_S = 1.0, 8.0
"""Shorter and longer than a lease."""
SUPERSEDED = 75
LANES = (b"/F0\0", b"/F1\0")
"""How the names of connections end over which records are appended."""


class Gaps:
    """How long groups went unanswered, by kind of fault."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def table(self) -> str:
        """A line for each kind."""
        rows = [
            f"  {kind:<24} {len(gaps):>3}  {statistics.median(gaps):7.2f}  {max(gaps):7.2f}"
            for kind, gaps in sorted(self.seconds.items())
        ]
        return "\n".join([f"  {'fault':<24} {'n':>3}  {'p50 s':>7}  {'max s':>7}", *rows])


class Fault(NamedTuple):
    """Something that happens to one node, or to what all of them need."""

    play: Callable[[NodeProcess], object]
    is_of_all: bool = False


class OverPostgres(Killing):
    """The nodes of a run; see `Killing`. The broker is all of them.

    Args:
        gaps: are noted there.
        only: these kinds of faults; empty for all of them.
        logs: where the logs of nodes and servers are put at the end.
        planted: a bug of all nodes, which the run is to find.
    """

    broker: Any

    def __init__(
        self,
        seed: int,
        gaps: Gaps,
        only: Sequence[str] = (),
        logs: Path | None = None,
        planted: str | None = None,
        *,
        account: Account,
        settings: dict[str, Any],
        topics: dict[str, int],
    ) -> None:
        self._cluster = Cluster(SETTINGS | settings, topics, logs, planted)
        super().__init__(self._cluster, seed, account)  # type: ignore[arg-type]
        self._gaps = gaps
        self._topic = next(iter(topics))
        self._probe: Probe
        self._shards: list[int] = []
        self._kind = ""
        self._began_s = self._gap_s = 0.0
        self._faults = self._all()
        if unknown := set(only) - set(self._faults):
            raise ValueError(f"no such faults: {sorted(unknown)}; there are {', '.join(self._faults)}")
        self._kinds = list(only or self._faults)
        self._bag: list[str] = []

    def _all(self) -> dict[str, Fault]:
        both = (TcpProxy.hold, TcpProxy.stall)
        return {
            "kill": Fault(self._kill),
            "kill in start": Fault(self._kill_in_start),
            "kill in drain": Fault(self._kill_in_drain),
            "restart": Fault(self._restart),
            "two with one id": Fault(self._twice),
            "pause 1 s": Fault(partial(self._pause, SHORT_S)),
            "pause 8 s": Fault(partial(self._pause, LONG_S)),
            "cut 1 s": Fault(partial(self._cut, SHORT_S)),
            "cut 8 s": Fault(partial(self._cut, LONG_S)),
            "silence 1 s": Fault(partial(self._stop_flow, both, SHORT_S)),
            "silence 8 s": Fault(partial(self._stop_flow, both, LONG_S)),
            "no answers 8 s": Fault(partial(self._stop_flow, both[1:], LONG_S)),
            "held back 8 s": Fault(partial(self._stop_flow, both[:1], LONG_S)),
            "slow link": Fault(self._slow),
            "cut at a byte": Fault(self._cut_at_byte),
            "half-sent": Fault(self._half_sent),
            "half-sent and paused": Fault(self._half_sent_and_paused),
            "backends ended": Fault(self._end_backends),
            "backend paused": Fault(self._pause_backend),
            "standby silent 1 s": Fault(partial(self._stop_standby, SHORT_S), is_of_all=True),
            "standby silent 8 s": Fault(partial(self._stop_standby, LONG_S), is_of_all=True),
            "commits cancelled": Fault(self._cancel_commits, is_of_all=True),
            "database crash": Fault(self._crash, is_of_all=True),
            "promotion": Fault(self._promote, is_of_all=True),
            "promotion, zombie": Fault(self._promote_beside_zombie, is_of_all=True),
        }

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        """The cluster, and whoever looks when it answers."""
        with self._cluster as cluster:
            ports = {node_id: node.port for node_id, node in cluster.nodes.items()}
            with Probe(ports, self._topic, self._account.problems.append, self._show) as self._probe:
                self._probe.wait()
                yield cluster

    def kill_and_restart(self) -> str:
        """Play a fault, and wait until all is well again. Every kind has its turn before one comes again."""
        if not self._bag:
            self._bag = self.chance.sample(self._kinds, len(self._kinds))
        kind = self._bag.pop()
        fault = self._faults[kind]
        leading = [node_id for node_id in NODES if self._probe.shards_of([node_id])]
        node_id = self.chance.choice(leading or NODES)
        self._shards = self._probe.shards_of(NODES if fault.is_of_all else [node_id])
        self._kind, self._began_s = kind, time.monotonic()
        fault.play(self._cluster.nodes[node_id])
        self._probe.wait()
        self._note()
        self._account.problems += [
            f"node {one} ended with {node.ended}" for one, node in self._cluster.nodes.items() if node.ended is not None
        ]
        whom = "" if fault.is_of_all else f" (node {node_id})"
        return f"{kind}{whom}, {len(self._shards)} groups silent for {self._gap_s:.2f} s"

    def stored(self) -> dict[Place, list[tuple[int, str]]]:
        tables = tables_of(self._cluster.servers)
        self._account.problems += itertools.islice(tables.anomalies(), 50)
        return tables.records()

    def _show(self) -> str:
        return f"{self._cluster.servers.activity()}\n{self._cluster.log_text()}"

    def _taken_over(self) -> None:
        """Wait until others answer, or whoever it is, and note how long that took."""
        if self._shards:
            self._probe.wait(self._shards)
        self._note()

    def _note(self) -> None:
        if self._kind:
            self._gap_s = self._probe.gap_s(self._shards, self._began_s)
            self._gaps.seconds[self._kind].append(self._gap_s)
            self._kind = ""

    # Processes

    def _kill(self, node: NodeProcess) -> None:
        node.kill()
        self._taken_over()
        node.restart()

    def _kill_in_start(self, node: NodeProcess) -> None:
        node.kill()
        self._taken_over()
        starting = threading.Thread(target=_try_to_start, args=(node,))
        starting.start()
        time.sleep(self.chance.uniform(0.2, 4))
        node.end()
        starting.join()
        node.restart()

    def _kill_in_drain(self, node: NodeProcess) -> None:
        os.kill(node.pid, signal.SIGTERM)
        time.sleep(self.chance.uniform(0, 0.5))
        node.kill()
        self._taken_over()
        node.restart()

    def _restart(self, node: NodeProcess) -> None:
        if (code := node.stop()) != 0:
            self._account.problems.append(f"a node that was told to stop ended with {code}")
        self._taken_over()
        node.restart()

    def _pause(self, seconds: float, node: NodeProcess) -> None:
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(node.pid, signal.SIGCONT)

    def _twice(self, node: NodeProcess) -> None:
        """Another process takes the id of a node that stands still; the first one ends when it goes on."""
        with self._cluster.twin(node) as twin:
            os.kill(node.pid, signal.SIGSTOP)
            _try_to_start(twin)
            self._taken_over()
            os.kill(node.pid, signal.SIGCONT)
            wait_for(lambda: node.ended is not None, "the older process of an id to end", show=node.log_text)
            if node.ended != SUPERSEDED:
                self._account.problems.append(f"a node whose id was taken ended with {node.ended}")
            twin.stop()
        node.restart()

    # Between a node and the database

    def _ways(self, node: NodeProcess) -> list[TcpProxy]:
        return list(node.ways.values())

    def _cut(self, seconds: float, node: NodeProcess) -> None:
        for way in self._ways(node):
            way.cut()
        time.sleep(seconds)
        for way in self._ways(node):
            way.mend()

    def _stop_flow(
        self, directions: Sequence[Callable[[TcpProxy, bool], None]], seconds: float, node: NodeProcess
    ) -> None:
        """Nothing comes through, in one direction or in both; then comes what was sent meanwhile."""
        for stops in (True, False):
            for way in self._ways(node):
                for direction in directions:
                    direction(way, stops)
            if stops:
                time.sleep(seconds)

    def _slow(self, node: NodeProcess) -> None:
        for delay_s in (0.1, 0.0):
            for way in self._ways(node):
                way.delay_s = delay_s
            time.sleep(3 if delay_s else 0)

    def _cut_at_byte(self, node: NodeProcess) -> None:
        way = node.way_to(self._cluster.servers.primary)
        way.cut_after(self.chance.randrange(4000))
        time.sleep(1)
        way.cut_after(None)

    def _hold_appends(self, node: NodeProcess) -> list[Carried]:
        """Let the next flush of each lane arrive, but for its end. Gives the connections."""
        lanes = node.way_to(self._cluster.servers.primary).connections_of(*LANES)
        for lane in lanes:
            lane.is_holding = True
        wait_for(lambda: any(lane.held for lane in lanes), "a flush to be held", timeout_s=30)
        return lanes

    def _half_sent(self, node: NodeProcess) -> None:
        lanes = self._hold_appends(node)
        time.sleep(self.chance.uniform(0, 3))
        for lane in lanes:
            lane.is_holding = False
            lane.release()

    def _half_sent_and_paused(self, node: NodeProcess) -> None:
        """The node stands still with a flush half sent, which locks what others want to claim."""
        lanes = self._hold_appends(node)
        self._began_s = time.monotonic()
        os.kill(node.pid, signal.SIGSTOP)
        self._taken_over()
        for lane in lanes:
            lane.is_holding = False
            lane.release()
        os.kill(node.pid, signal.SIGCONT)

    # The database

    def _end_backends(self, node: NodeProcess) -> None:
        """Those of a node: one of them, or all."""
        role = self.chance.choice(["%", "H", "M", "R", "L", "F0", "F1"])
        self._cluster.servers.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1",
            f"ottla/%/{node.node_id}/{role}",
        )

    def _pause_backend(self, node: NodeProcess) -> None:
        """The server's process for a lane of the node stands still."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1"
        for (pid,) in self._cluster.servers.ask(query, f"ottla/%/{node.node_id}/F0"):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.chance.uniform(0.5, 5))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _stop_standby(self, seconds: float, node: NodeProcess) -> None:
        """What the primary writes does not reach the standby, so nothing is committed."""
        self._cluster.servers.signal_receiver(signal.SIGSTOP)
        time.sleep(seconds)
        self._cluster.servers.signal_receiver(signal.SIGCONT)

    def _cancel_commits(self, node: NodeProcess) -> None:
        """Commits that wait for the standby are cancelled: they succeed, as far as this server goes."""
        self._cluster.servers.signal_receiver(signal.SIGSTOP)
        for _ in range(10):
            time.sleep(0.1)
            self._cluster.servers.ask(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                " AND application_name LIKE 'ottla/%'"
            )
        self._cluster.servers.signal_receiver(signal.SIGCONT)

    def _crash(self, node: NodeProcess) -> None:
        self._cluster.servers.primary.crash()
        self._cluster.servers.primary.start()
        self._cluster.servers.wait()

    def _promote(self, node: NodeProcess) -> None:
        servers = self._cluster.servers
        servers.primary.crash()
        servers.promote()
        self._taken_over()
        servers.rebuild()

    def _promote_beside_zombie(self, node: NodeProcess) -> None:
        self._cluster.servers.promote()
        self._taken_over()
        time.sleep(self.chance.uniform(0, 3))
        self._cluster.servers.rebuild()


def _try_to_start(node: NodeProcess) -> None:
    with contextlib.suppress(RuntimeError):
        node.start()
