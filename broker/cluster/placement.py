"""Placements without a database: a node that is alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.cluster.view import ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import TopicEntry


def _unheard(before: ClusterView, after: ClusterView) -> None:
    """Nobody wants to be told."""


class Alone:
    """One node, which leads everything under the epoch of its engine."""

    dealt_to: Sequence[int] = ()

    def __init__(self, node_id: int) -> None:
        self.on_changed: Callable[[ClusterView, ClusterView], None] = _unheard
        self.view = ClusterView(node_id, {node_id: NodeInfo(node_id, NodeState.UP)})
        self._leader = Leader(node_id, -1)

    def leader(self, entry: TopicEntry, partition: int) -> Leader:
        return self._leader

    def opened(self, epoch: int) -> None:
        me = self.view.me
        self.view = ClusterView(me, {me: NodeInfo(me, NodeState.UP, epoch=epoch)})
        self._leader = Leader(me, epoch)

    def homes(self, count: int, kind: str) -> tuple[int, ...]:
        return ()
