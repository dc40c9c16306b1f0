"""The script: what is done to the nodes while five clients work, and what must come of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from examples.demo.play import FIRST, GROUP, TOPIC, Plan, Play
from examples.demo.processes import Process
from examples.demo.view import View
from examples.nodes.way import Way
from ottla.protocol.stored.cluster_file import UP, NodeEntry, read_cluster

NODES = 3


@dataclass(frozen=True)
class Interruption:
    """What was done to a node.

    Attributes:
        lasted_s: what `NodesPlay.lasted` says.
        before, after: the generation of the group.
    """

    what: str
    lasted_s: tuple[float, ...]
    before: int | None
    after: int | None


class NodesPlay(Play):
    """One run with three nodes. See `Play`.

    Attributes:
        count: of interruptions.
        lasted: what is measured of each: until a node served clients again.
        patience_s: how long a node is waited for that is asked about the group.
        interruptions: in their order.
        last_generation: of the group, when all was seen and committed.
        way: None before the group has formed.
    """

    count = 2
    lasted: tuple[str, ...] = ("away",)
    patience_s = 2.0

    def __init__(self, plan: Plan, view: View) -> None:
        super().__init__(plan, view)
        self.interruptions: list[Interruption] = []
        self.last_generation: int | None = None
        self.way: Way | None = None
        self._stages_left = self.count + 1

    async def _script(self) -> None:
        note = self.view.note
        await self._open()
        note(f"{NODES} nodes at {self.bootstrap}, topic {TOPIC!r} with {self.plan.partitions} partitions")
        self._producer = await self._start("producer", "producer", "--lines", str(self.plan.lines))
        for name, kind in FIRST:
            await self._join(name, kind)
        note("a producer and four members start: " + ", ".join(name for name, _ in FIRST))
        await self._settled("the group to form")
        watching = asyncio.create_task(self._look())
        try:
            await self._interrupt_all()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        self._stages_left = 0
        note("all is done to the nodes; the rest of the lines follows")
        await self._until("every line to be sent", self._producer_done)
        await self._until("every line to be seen", lambda: self.ledger.lines_seen >= self.plan.lines)
        await self._all_committed()
        self.finished_at, self.last_generation = time.time(), self.generation
        note("every line is seen and committed; the members leave")
        await asyncio.gather(*(self._end(name, "stayed to the end") for name in self._present()))
        await self._ask_offsets()
        await self._close()

    async def _open(self) -> None:
        await self.broker.start()
        self.bootstrap = await self.broker.first_line(30)

    async def _close(self) -> None:
        await self.broker.stop()

    async def _interrupt_all(self) -> None:
        await self._until("the way to the coordinator", lambda: self.way is not None and bool(self.way.steps))
        assert self.way is not None
        coordinator = self.way.coordinator or 1
        for other in (one for one in self._nodes() if one != coordinator):
            said = await self.way.state_at(self._address(other))
            self.view.note(f"  node {other}, asked for the group: {said}")
        self._stages_left = 2
        await self._interrupt(coordinator, "killed (SIGKILL): it coordinates the group", signal.SIGKILL)
        self._stages_left = 1
        other = next(one for one in self._nodes() if one != coordinator)
        await self._interrupt(other, "restarted (SIGTERM)", signal.SIGTERM)

    async def _interrupt(self, node_id: int, what: str, number: signal.Signals) -> None:
        before, generation = self._node(node_id), self.generation
        self.view.note(f"node {node_id} is {what}")
        began = time.monotonic()
        os.kill(before.pid, number)

        def is_back() -> bool:
            node = self._node(node_id)
            return node.state == UP and node.pid != before.pid

        await self._until(f"node {node_id} to come back", is_back)
        away_s = time.monotonic() - began
        self.view.note(f"node {node_id} is back after {away_s:.1f} s: its supervisor has started it again")
        await self._settled("the members to go on")
        told = f"node {node_id} {what.partition(':')[0]}"
        self.interruptions.append(Interruption(told, (away_s,), generation, self.generation))

    async def _look(self) -> None:
        addresses = {one: self._address(one) for one in self._nodes()}
        self.way = Way(GROUP, addresses, self.view.note, self.patience_s)
        await self.way.watch()

    # -- nodes

    @property
    def _directory(self) -> Path:
        return self.plan.directory / "data"

    def _nodes(self) -> list[int]:
        found = read_cluster(self._directory)
        return [] if found is None else list(found.nodes)

    def _node(self, node_id: int) -> NodeEntry:
        found = read_cluster(self._directory)
        assert found is not None
        return found.nodes[node_id]

    def _address(self, node_id: int) -> tuple[str, int]:
        host, _, port = self._node(node_id).address.rpartition(":")
        return host, int(port)

    def _broker(self, listen: str) -> Process:
        return self._serve("the nodes", "--nodes", str(NODES), "--listen", listen, "--data-dir", str(self._directory))

    def _serve(self, name: str, *arguments: str) -> Process:
        return Process(
            name, self._log_file("nodes"), "ottla.cli", "serve", *arguments,
            "--create-topic", f"{TOPIC}:{self.plan.partitions}", "--log-format", "json",
            *(argument for setting in self.plan.settings for argument in ("--set", setting)),
        )  # fmt: skip
