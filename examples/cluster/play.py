"""The script: what is done to the nodes and to their database while five clients work."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from examples.cluster.postgresql import USER, Servers, free_port, new_directory
from examples.cluster.pulse import Pulse, longest_s
from examples.demo.play import FIRST, GROUP, TOPIC, Plan
from examples.demo.processes import Failed, Process
from examples.demo.view import View
from examples.nodes.play import NODES, Interruption, NodesPlay

FROZEN_S = 8.0
"""Longer than the lease of a node."""


class ClusterPlay(NodesPlay):
    """One run with three nodes over a server and its standby. See `NodesPlay`.

    Attributes:
        lasted: for how long nobody answered commits in place of the group's coordinator, to a client that asks who
            it is each time; and for how long a member saw no line, which may have waited for an answer of a node.
    """

    count = 4
    lasted = ("group silent", "a member without lines")
    patience_s = 0.5

    def __init__(self, plan: Plan, view: View) -> None:
        self._place = new_directory()
        self._servers = Servers(self._place)
        self._ports = {node_id: free_port() for node_id in range(1, NODES + 1)}
        self._running: dict[int, Process] = {}
        self._saw: dict[str, list[float]] = {name: [] for name, _ in FIRST}
        super().__init__(plan, view)
        self._pulse = Pulse(GROUP, TOPIC, {one: self._address(one) for one in self._nodes()})

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await asyncio.get_running_loop().shutdown_default_executor()  # a server may be about to start
            self._servers.stop()
            for log in self._place.glob("*.log"):
                shutil.copy(log, self._log_file(f"postgresql-{log.stem}"))
            shutil.rmtree(self._place)

    async def _open(self) -> None:
        await asyncio.to_thread(self._servers.start)
        ports = " and ".join(str(one.port) for one in (self._servers.primary, self._servers.standby))
        self.view.note(f"PostgreSQL and its synchronous standby at the ports {ports} of 127.0.0.1")
        await asyncio.gather(*map(self._start_node, self._nodes()))
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in map(self._address, self._nodes()))

    async def _close(self) -> None:
        codes = await asyncio.gather(*(one.stop() for one in self._running.values()))
        if any(codes):
            raise Failed(f"the nodes ended with exit codes {codes}", self.broker.log)

    async def _look(self) -> None:
        await asyncio.gather(super()._look(), self._pulse.watch())

    async def _interrupt_all(self) -> None:
        await self._until("the first commit to be answered", lambda: self._pulse.answered_since(0))
        await self._until("the way to the coordinator", lambda: self.way is not None and bool(self.way.steps))
        for fault in (self._killed, self._frozen, self._crashed, self._promoted):
            self._stages_left = self.count - len(self.interruptions)
            generation, began = self.generation, time.monotonic()
            async with fault() as told:
                await self._answered(began, time.monotonic())
            await self._settled("the members to go on")
            unseen_s = max(longest_s(times, began) for times in self._saw.values())
            lasted_s = self._pulse.silence_s(began), unseen_s
            self.interruptions.append(Interruption(told, lasted_s, generation, self.generation))

    async def _answered(self, began: float, done: float) -> None:
        await self._until("the group to be answered", lambda: self._pulse.answered_since(done))
        silent_s = self._pulse.silence_s(began)
        self.view.note(f"  the group was silent for {silent_s:.1f} s: now its coordinator answers commits")

    def read_reports(self) -> None:
        before = self.ledger.sightings.copy()
        super().read_reports()
        for name, count in self.ledger.sightings.items():
            if count != before[name]:
                self._saw[name].append(time.monotonic())

    # -- what is done; within the context until a commit is answered

    @asynccontextmanager
    async def _killed(self) -> AsyncIterator[str]:
        node_id = self._coordinator
        self.view.note(f"node {node_id}, which coordinates the group, is killed (SIGKILL)")
        await self._running[node_id].kill()
        yield f"node {node_id} killed (SIGKILL)"
        await self._start_node(node_id)
        self.view.note(f"node {node_id} is started again")

    @asynccontextmanager
    async def _frozen(self) -> AsyncIterator[str]:
        node_id, began = self._coordinator, time.monotonic()
        self.view.note(f"node {node_id}, which coordinates the group, stands still for {FROZEN_S:.0f} s (SIGSTOP)")
        os.kill(self._running[node_id].pid, signal.SIGSTOP)
        yield f"node {node_id} stood still for {FROZEN_S:.0f} s (SIGSTOP)"
        await asyncio.sleep(began + FROZEN_S - time.monotonic())
        os.kill(self._running[node_id].pid, signal.SIGCONT)
        self.view.note(f"node {node_id} goes on")

    @asynccontextmanager
    async def _crashed(self) -> AsyncIterator[str]:
        self.view.note("the database crashes, and is started again")
        await asyncio.to_thread(self._servers.primary.crash)
        await asyncio.to_thread(self._servers.primary.start)
        yield "database crashed and restarted"

    @asynccontextmanager
    async def _promoted(self) -> AsyncIterator[str]:
        self.view.note("the database crashes for good, and its standby is promoted")
        await asyncio.to_thread(self._servers.primary.crash)
        await asyncio.to_thread(self._servers.promote)
        yield "database gone, standby promoted"

    # -- nodes

    @property
    def _coordinator(self) -> int:
        assert self.way is not None and self.way.coordinator is not None
        return self.way.coordinator

    def _nodes(self) -> list[int]:
        return list(self._ports)

    def _address(self, node_id: int) -> tuple[str, int]:
        return "127.0.0.1", self._ports[node_id]

    async def _start_node(self, node_id: int) -> None:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self._servers.primary, self._servers.standby))
        url, listen = f"postgresql://{USER}@{hosts}/postgres?sslmode=disable", "{}:{}".format(*self._address(node_id))
        node = self._serve(f"node {node_id}", "--cluster", url, "--node-id", str(node_id), "--listen", listen)
        self._running[node_id] = node
        await node.start()
        await node.first_line(30)

    def _processes(self) -> Iterable[Process]:
        yield from super()._processes()
        yield from self._running.values()
