"""Placements: who leads what, by what they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.cluster.view import ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import TopicEntry


class Alone:
    """The placement of a single node, which leads everything.

    Args:
        epoch: the leader epoch of its engine.
        endpoints: as `NodeInfo` has them; a listener that is not named tells each client what he reached.
    """

    def __init__(self, node_id: int, epoch: int, endpoints: Mapping[str, tuple[str, int]] | None = None) -> None:
        self.view = ClusterView(node_id, {node_id: NodeInfo(node_id, NodeState.UP, endpoints or {}, epoch)})
        self.on_changed: Callable[[ClusterView, ClusterView], None] = lambda before, after: None
        self._leader = Leader(node_id, epoch)

    def leader(self, entry: TopicEntry, partition: int) -> Leader:
        return self._leader

    def homes(self, count: int, kind: str) -> tuple[int, ...]:
        """None: a single node's catalog does without."""
        return ()
