"""What happens to nodes over a database, to the database, and between them, and how long groups go unanswered."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.killing import SETTINGS, Account, Killing
from tests.chaos.postgres.cluster import NODES, Cluster, NodeProcess
from tests.chaos.postgres.probe import Probe

SHORT_S, LONG_S = 1.0, 8.0
"""Shorter and longer than a lease."""
SUPERSEDED = 75


class Gaps:
    """How long groups were not answered, by kind of fault."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def table(self) -> str:
        """A line for each kind."""
        rows = [
            f"  {kind:<28} {len(gaps):>3}  {statistics.median(gaps):7.2f}  {max(gaps):7.2f}"
            for kind, gaps in sorted(self.seconds.items())
        ]
        return "\n".join([f"  {'fault':<28} {'n':>3}  {'p50 s':>7}  {'max s':>7}", *rows])


class Fault(NamedTuple):
    """Something that happens to one node, or to all of them."""

    play: Callable[[NodeProcess], object]
    is_of_all: bool = False


class OverPostgres(Killing):
    """The nodes of a run; see `Killing`. The broker is all of them.

    Args:
        gaps: are noted there.
        only: these kinds of faults; empty for all of them.
        logs: where the logs of nodes and servers are put at the end.
    """

    broker: Any

    def __init__(
        self,
        seed: int,
        gaps: Gaps,
        only: Sequence[str] = (),
        logs: Path | None = None,
        *,
        account: Account,
        settings: dict[str, Any],
        topics: dict[str, int],
    ) -> None:
        super().__init__(Cluster(SETTINGS | settings, topics, logs), seed, account)
        self.gaps = gaps
        self._cluster: Cluster = self.broker
        self._topic = next(iter(topics))
        self._probe: Probe
        self._faults = {
            "kill": Fault(self._kill),
        }
        if unknown := set(only) - set(self._faults):
            raise ValueError(f"no such faults: {sorted(unknown)}")
        self._kinds = list(only or self._faults)
        self._bag: list[str] = []

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        """The cluster, and whoever looks when it answers."""
        with self._cluster as cluster:
            ports = {node_id: node.port for node_id, node in cluster.nodes.items()}
            with Probe(ports, self._topic, self._account.problems.append) as self._probe:
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
        gap_s = self._note()
        for one, node in self._cluster.nodes.items():
            if node.ended is not None:
                self._account.problems.append(f"node {one} ended with {node.ended}")
        whom = "all" if fault.is_of_all else f"node {node_id}"
        return f"{kind} of {whom}, {len(self._shards)} groups silent for {gap_s:.2f} s"

    def _note(self) -> float:
        """The gap of this fault, which is noted once."""
        if self._kind:
            self._gap_s = self._probe.gap_s(self._shards, self._began_s)
            self.gaps.seconds[self._kind].append(self._gap_s)
            self._kind = ""
        return self._gap_s

    def _taken_over(self) -> None:
        """Wait until others answer, and note how long that took."""
        self._probe.wait(self._shards)
        self._note()

    # Processes

    def _kill(self, node: NodeProcess) -> None:
        node.kill()
        self._taken_over()
        node.restart()
