"""Placements without a database: a node that is alone, and nodes that lead what is at home with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.broker.cluster.view import NOBODY, ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import TopicEntry

FORMAT = 1
_STATES = {"up": NodeState.UP, "draining": NodeState.DRAINING}
"""States of ``cluster.json``; in all others nobody is served."""


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


class Static:
    """Nodes of one machine: the home of a partition leads it while it is up, and nobody does while it is down.

    What there is to know of the others stands in the document of ``cluster.json``. This node itself is up as long as it
    runs, and its epoch is the one of its engine: the document may tell of its last life yet.

    Args:
        document: of ``cluster.json``; see `view_of`.
    """

    def __init__(self, me: int, document: Mapping[str, Any]) -> None:
        self.on_changed: Callable[[ClusterView, ClusterView], None] = _unheard
        self._epoch = -1
        self._read = view_of(document, me)
        self.view = self._seen()

    @property
    def dealt_to(self) -> Sequence[int]:
        return sorted(self.view.nodes)

    def leader(self, entry: TopicEntry, partition: int) -> Leader:
        node = self.view.nodes.get(entry.homes[partition])
        if node is None:
            return Leader(NOBODY, -1)
        return Leader(node.node_id if node.is_up else NOBODY, node.epoch)

    def opened(self, epoch: int) -> None:
        self._epoch = epoch
        self._replace()

    def read(self, document: Mapping[str, Any]) -> None:
        """Go by another document from now on. Raises ``ValueError`` if it is none, and then the old one counts."""
        self._read = view_of(document, self.view.me)
        self._replace()

    def _replace(self) -> None:
        before, self.view = self.view, self._seen()
        if self.view != before:
            self.on_changed(before, self.view)

    def _seen(self) -> ClusterView:
        me, nodes = self._read
        own = nodes.get(me, NodeInfo(me, NodeState.UP))
        state = NodeState.DRAINING if own.state is NodeState.DRAINING else NodeState.UP
        return ClusterView(me, {**nodes, me: own._replace(state=state, epoch=self._epoch, is_silent=False)})


def view_of(document: Mapping[str, Any], me: int) -> ClusterView:
    """The nodes as a document of ``cluster.json`` has them (decision 16).

    Raises:
        ValueError: it is no such document.
    """
    try:
        if (found := document["format"]) == FORMAT:
            nodes = [_node_of(row) for row in document["nodes"]]
            return ClusterView(me, {node.node_id: node for node in nodes})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no document of a cluster: {error!r}") from None
    raise ValueError(f"it has format {found}, this version reads format {FORMAT}")


def _node_of(row: Mapping[str, Any]) -> NodeInfo:
    endpoints = {name: (str(host), int(port)) for name, (host, port) in row.get("endpoints", {}).items()}
    http = row.get("http")
    return NodeInfo(
        int(row["node_id"]),
        _STATES.get(row["state"], NodeState.DOWN),
        endpoints,
        int(row.get("epoch", -1)),
        row.get("rack"),
        None if http is None else (str(http[0]), int(http[1])),
        is_silent=row["state"] in _STATES and bool(row.get("why")),
    )
