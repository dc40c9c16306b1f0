"""The supervisor of nodes: starts each in a process of its own, again when it ends, and tells all of them who is up.

It decides and keeps the time; `ottla.cli.node_processes` has processes, pipes and signals.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.logger import Logger
from ottla.protocol.stored.cluster_file import DOWN, DRAINING, STARTING, UP, ClusterFile, NodeEntry

FIRST_WAIT_MS: Final = 100
LONGEST_WAIT_MS: Final = 5_000
"""A node that ended is started again after the first wait, then after twice that, up to the longest. A life that was as
long as the longest wait lets it begin at the first again."""
TELL_AGAIN_MS: Final = 60_000
"""The log says so often why a node does not start."""
LOOK_MS: Final = 1_000
"""Each node shows a sign of life so often, and the supervisor counts so often who has shown none."""
RESTART_PAUSE_MS: Final = 2_000
"""Between two nodes of a rolling restart: clients come to know again the one that is back before the next one goes."""
SILENT_LOOKS: Final = 5
"""After so many looks without one, everybody is told of it."""
STORAGE_FAILED: Final = 70
"""The exit code of a node that could not make anything durable any more."""
SUPERSEDED: Final = 75
"""The exit code of a node whose id another process has taken."""
TURNS_MS: Final = 600_000
"""A node that loses its id twice in that time may have been given the id of another, which is started again as well."""
AFTER_TURNS_MS: Final = 60_000
"""So long it waits then."""


class Processes(Protocol):
    """The processes of nodes. What becomes of them is told to the supervisor, later."""

    def start(self, node_id: int) -> int:
        """Start one; gives its pid. Raises OSError."""
        ...

    def terminate(self, node_id: int) -> None:
        """Let it end in order."""
        ...

    def kill(self, node_id: int) -> None:
        """End it at once."""
        ...


@dataclass(slots=True)
class _Life:
    """What is remembered of a node besides its entry. Times are those of `Clock.monotonic_ms`."""

    wait_ms: int = FIRST_WAIT_MS
    up_at_ms: int | None = None
    """In this life."""
    was_tried: bool = False
    """It came up, or has failed to."""
    sees: frozenset[int] = frozenset()
    """The nodes of which it knows, in this life, that they are up."""
    silent_looks: int = 0
    """Since it has told anything."""
    told_ms: int | None = None
    why: str = ""
    """It has told, in this life, why it ends."""
    again: TimerHandle | None = None
    superseded_ms: int | None = None
    """When another process took its id last."""


class Supervisor:
    """See the module.

    Args:
        cluster: all nodes, which are not started yet.
        store: makes the document durable for everybody to read; at every change.
        on_ready: called once, when each node is up or has failed to start, and those that are up know of each other,
            with their addresses.
        on_stopped: called when the last process has ended after `stop`.
        is_ephemeral: nodes keep their records in memory, so those of one that ends are lost.

    Attributes:
        cluster: as it is now.
    """

    def __init__(
        self,
        cluster: ClusterFile,
        processes: Processes,
        clock: Clock,
        log: Logger,
        *,
        store: Callable[[ClusterFile], None],
        on_ready: Callable[[list[str]], None],
        on_stopped: Callable[[], None],
        is_ephemeral: bool = False,
    ) -> None:
        self._is_ephemeral = is_ephemeral
        self.cluster = cluster
        self._processes = processes
        self._clock = clock
        self._log = log
        self._store = store
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._lives = {node_id: _Life() for node_id in cluster.nodes}
        self._is_ready = False
        self._is_stopping = False
        self._to_restart: list[int] = []
        self._restarting: int | None = None

    def start(self) -> None:
        """Start all nodes at once."""
        self._store(self.cluster)  # before they look at it
        for node_id in self.cluster.nodes:
            self._start(node_id)

    def reported(self, node_id: int, report: Mapping[str, Any]) -> None:
        """A node tells that it is up, with its ``address``, ``endpoints``, ``http`` and ``epoch``; or ``why`` it ends.

        ``endpoints`` are pairs by name, and ``http`` is a pair or None. It ``sees`` the ids of those that are up. An
        empty report is a sign of life.
        """
        life = self._lives[node_id]
        if life.silent_looks >= SILENT_LOOKS:
            self._log.warning("Node answers again", node=node_id, silent_ms=life.silent_looks * LOOK_MS)
            self._set(node_id, why="")
        life.silent_looks = 0
        if not report:
            return
        if (sees := report.get("sees")) is not None:
            life.sees = frozenset(sees)
            self._ready_yet()
            return
        if (why := report.get("why")) is not None:
            life.why = str(why)
            return
        life.up_at_ms, life.told_ms = self._clock.monotonic_ms(), None
        self._set(
            node_id,
            state=DRAINING if self._is_stopping else UP,
            why="",
            epoch=report["epoch"],
            address=report["address"],
            endpoints={name: (host, port) for name, (host, port) in report["endpoints"].items()},
            http=None if report["http"] is None else tuple(report["http"]),
        )
        if self._is_ready:
            self._log.info("Node is up", node=node_id, listen=report["address"], epoch=report["epoch"])
        life.was_tried = True
        self._ready_yet()
        if node_id == self._restarting:
            when_ms = self._clock.monotonic_ms() + RESTART_PAUSE_MS
            self._clock.call_at(when_ms, lambda: self._restart_next(node_id))

    def ended(self, node_id: int, code: int) -> None:
        """The process of a node is gone, with this exit code; a negative one is the number of a signal."""
        node, life = self.cluster.nodes[node_id], self._lives[node_id]
        lived_ms = 0 if life.up_at_ms is None else self._clock.monotonic_ms() - life.up_at_ms
        was_up, life.up_at_ms = life.up_at_ms is not None, None
        if self._is_stopping:
            self._set(node_id, state=DOWN, pid=0, why="")
            self._stopped()
            return
        if node.state == DRAINING and node_id == self._restarting:
            self._set(node_id, state=STARTING, pid=0, why="")
            self._start(node_id)
            return
        self._set(node_id, state=STARTING if was_up else DOWN, pid=0, why=life.why or _in_words(code))
        if lived_ms >= LONGEST_WAIT_MS:
            life.wait_ms = FIRST_WAIT_MS
        wait_ms, life.wait_ms = life.wait_ms, min(life.wait_ms * 2, LONGEST_WAIT_MS)
        if code == SUPERSEDED:
            before_ms, life.superseded_ms = life.superseded_ms, self._clock.monotonic_ms()
            if before_ms is not None and life.superseded_ms - before_ms < TURNS_MS:
                wait_ms = AFTER_TURNS_MS
        self._tell_down(node_id, was_up=was_up)
        self._again(node_id, wait_ms)
        life.was_tried = True
        self._ready_yet()
        if node_id == self._restarting:
            self._restart_ends(f"node {node_id} does not start")

    def look(self) -> None:
        """See who shows no sign of life; to be called every `LOOK_MS`.

        Looks are counted, not the time: where the supervisor, or the machine, stood still, nobody was silent. Such a
        node is not killed: nobody else can lead what it leads, and it may only have been stopped.
        """
        for node_id, life in self._lives.items():
            if (node := self.cluster.nodes[node_id]).is_up:
                life.silent_looks += 1
                if life.silent_looks == SILENT_LOOKS:
                    self._log.warning("Node does not answer", node=node_id, pid=node.pid)
                if life.silent_looks % SILENT_LOOKS == 0:
                    self._set(node_id, why=f"it has not answered for {life.silent_looks * LOOK_MS // 1000} s")
                    if node_id == self._restarting:  # it may never end
                        self._restart_ends(f"node {node_id} does not answer")

    def restart_all(self) -> None:
        """Restart one node after the other; each is to be up before the next one goes down."""
        if self._to_restart or self._restarting is not None or self._is_stopping:
            self._log.warning("A rolling restart is under way already")
            return
        self._to_restart = [node_id for node_id, node in self.cluster.nodes.items() if node.state == UP]
        self._log.info("Rolling restart", nodes=self._to_restart)
        self._restart_next()

    def stop(self) -> None:
        """Let all nodes end in order; said again, it ends them at once."""
        end = self._processes.kill if self._is_stopping else self._processes.terminate
        self._is_stopping = True
        self._to_restart.clear()
        for node_id, node in self.cluster.nodes.items():
            if (again := self._lives[node_id].again) is not None:
                again.cancel()
            if node.pid:
                self._set(node_id, state=DRAINING if node.is_up else node.state)
                end(node_id)
            else:
                self._set(node_id, state=DOWN)  # it would have been started again
        self._stopped()

    def ended_in_order(self) -> ClusterFile:
        """The document that is left once no process is."""
        return replace(self.cluster, supervisor_pid=0)

    def _start(self, node_id: int) -> None:
        life = self._lives[node_id]
        life.again, life.why, life.sees, life.silent_looks = None, "", frozenset(), 0
        try:
            pid = self._processes.start(node_id)
        except OSError as error:  # too many processes, no memory
            life.why = f"no process can be started: {error.strerror}"
            self.ended(node_id, 1)
            return
        # Why it did not start last time stays in its entry until it does: it is what people look for.
        self._set(node_id, state=STARTING, pid=pid)

    def _again(self, node_id: int, wait_ms: int) -> None:
        when_ms = self._clock.monotonic_ms() + wait_ms
        self._lives[node_id].again = self._clock.call_at(when_ms, lambda: self._start(node_id))

    def _tell_down(self, node_id: int, *, was_up: bool) -> None:
        life, now_ms, why = self._lives[node_id], self._clock.monotonic_ms(), self.cluster.nodes[node_id].why
        if was_up:
            lost = ": its records and groups were in memory, and are lost" if self._is_ephemeral else ""
            self._log.error(f"Node ended, and is started again{lost}", node=node_id, reason=why)
        elif life.told_ms is None or now_ms - life.told_ms >= TELL_AGAIN_MS:
            life.told_ms = now_ms
            self._log.error("Node does not start, and is tried again", node=node_id, reason=why)

    def _ready_yet(self) -> None:
        if self._is_ready or self._is_stopping or not all(life.was_tried for life in self._lives.values()):
            return
        up = {node_id: node.address for node_id, node in self.cluster.nodes.items() if node.state == UP}
        if all(self._lives[node_id].sees >= up.keys() for node_id in up):
            self._is_ready = True
            self._on_ready(list(up.values()))
            self._tell_ready(up)

    def _tell_ready(self, up: Mapping[int, str]) -> None:
        nodes, listen = self.cluster.nodes, ", ".join(up.values())
        if len(up) == len(nodes):
            self._log.info("Ready", listen=listen, nodes=len(nodes))
        elif up:
            missing = "; ".join(f"node {one}: {node.why}" for one, node in nodes.items() if one not in up)
            self._log.warning("Ready, but not all nodes are up", listen=listen, nodes=len(up), missing=missing)

    def _restart_next(self, restarted: int | None = None) -> None:
        if self._restarting != restarted:
            return  # it has ended early meanwhile
        self._restarting = None
        while self._to_restart:
            node_id = self._to_restart.pop(0)
            if self.cluster.nodes[node_id].state == UP:  # else it has been started anew meanwhile, or will be
                self._restarting = node_id
                self._set(node_id, state=DRAINING)
                self._processes.terminate(node_id)
                return
        self._log.info("Rolling restart is through")

    def _restart_ends(self, why: str) -> None:
        self._restarting = None
        self._log.error("Rolling restart ends early: the other nodes go on as they were", reason=why)
        self._to_restart.clear()

    def _stopped(self) -> None:
        if self._is_stopping and not any(node.pid for node in self.cluster.nodes.values()):
            self._on_stopped()

    def _set(self, node_id: int, **changes: Any) -> None:
        before = self.cluster.nodes[node_id]
        after: NodeEntry = replace(before, **changes)
        if after.state != before.state:
            after = replace(after, since_ms=self._clock.wall_ms())
        if after != before:
            self.cluster = self.cluster.with_node(after)
            self._store(self.cluster)


def _in_words(code: int) -> str:
    """How a process ended that said nothing of it."""
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    if code == STORAGE_FAILED:
        return "its storage failed; its log says how"
    if code == SUPERSEDED:
        return "another process has its id"
    return "somebody stopped it" if code == 0 else f"it ended with exit code {code}; its log may say why"
