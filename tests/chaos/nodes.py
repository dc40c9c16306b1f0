"""Several nodes, of which one or another is killed, stopped or restarted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.protocol.stored.cluster_file import UP
from ottla.testing import BrokerProcess
from tests.chaos.killing import INTERRUPTED, SETTINGS, Account, Killing
from tests.support.nodes import Nodes

STOPPED_S = (0.3, 4.0)
"""The shortest and the longest time for which a node stands still."""
NEVER_GOES_ON = 0.2
"""Probability that a node that stands still is killed."""


class OneOfMany(Killing):
    """The nodes of a run; see `Killing`."""

    def __init__(self, nodes: Nodes, seed: int, account: Account) -> None:
        super().__init__(nodes.process, seed, account)
        self._nodes = nodes
        self._faults: dict[Callable[[], str], int] = {
            self._kill: 35,
            self._stop: 30,
            self._restart: 17,
            self._kill_two: 6,
            self._restart_all: 6,
            self._kill_supervisor: 6,
        }

    def kill_and_restart(self) -> str:
        """Do something to a node, or to several, and wait until all are up again; gives what was done, in words."""
        [fault] = self.chance.choices(list(self._faults), list(self._faults.values()))
        done = fault()
        for node_id in self._nodes.cluster.nodes:
            self._nodes.wait(node_id, lambda node: node.state == UP)
        return done

    def _one(self) -> int:
        return self.chance.choice(list(self._nodes.cluster.nodes))

    def _signal(self, node_id: int, number: int) -> Callable[[], object]:
        """Send a signal that ends a node; gives what waits until it is back."""
        before = self._nodes.node(node_id)
        self._nodes.signal(node_id, number)
        return lambda: self._nodes.wait_up(node_id, after=before)

    def _kill(self) -> str:
        node_id = self._one()
        before = self._nodes.node(node_id)
        back = self._signal(node_id, signal.SIGKILL)
        if self.chance.random() >= INTERRUPTED:
            back()
            return f"node {node_id} killed"
        self._nodes.wait(node_id, lambda node: node.pid not in (0, before.pid))
        time.sleep(self.chance.uniform(0, 0.6))
        self._signal(node_id, signal.SIGKILL)()
        return f"node {node_id} killed, and again while it started"

    def _kill_two(self) -> str:
        first, second = self.chance.sample(list(self._nodes.cluster.nodes), 2)
        both = [self._signal(node_id, signal.SIGKILL) for node_id in (first, second)]
        for back in both:
            back()
        return f"nodes {first} and {second} killed"

    def _stop(self) -> str:
        node_id, seconds = self._one(), self.chance.uniform(*STOPPED_S)
        self._nodes.signal(node_id, signal.SIGSTOP)
        time.sleep(seconds)
        if self.chance.random() < NEVER_GOES_ON:
            self._signal(node_id, signal.SIGKILL)()
            return f"node {node_id} stopped for {seconds:.1f} s and killed"
        self._nodes.signal(node_id, signal.SIGCONT)
        return f"node {node_id} stopped for {seconds:.1f} s"

    def _restart(self) -> str:
        node_id = self._one()
        back = self._signal(node_id, signal.SIGTERM)
        back()
        return f"node {node_id} restarted"

    def _restart_all(self) -> str:
        before = self._nodes.cluster.nodes
        os.kill(self.broker.pid, signal.SIGHUP)
        for node in before.values():
            self._nodes.wait_up(node.node_id, after=node)
        return "all nodes restarted, one after the other"

    def _kill_supervisor(self) -> str:
        self.broker.kill()
        self.broker.restart()
        return "supervisor killed"


def killing_of(
    directory: Path, nodes: int | None, seed: int, *, account: Account, settings: dict[str, Any], topics: dict[str, int]
) -> Killing:
    """One broker on a directory, or so many nodes, with settings besides those of all runs."""
    settings = SETTINGS | settings
    if nodes is None:
        return Killing(BrokerProcess(directory, settings=settings, topics=topics), seed, account)
    return OneOfMany(Nodes(directory, nodes, settings=settings, topics=topics), seed, account)
