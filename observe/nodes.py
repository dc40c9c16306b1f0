"""The nodes of a cluster as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ottla.broker.cluster.view import ClusterView
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.observe.snapshot import NodeState


def node_states(view: ClusterView, why_down: Callable[[int], str]) -> list[NodeState]:
    """All of several nodes, by id; none where there is one alone.

    Args:
        why_down: says why a node is down, or since when it has not answered.
    """
    if len(view.nodes) == 1:
        return []
    return [
        NodeState(
            node_id,
            node.state.name.lower() if node.is_up else "down",
            next((f"{host or 'localhost'}:{port}" for host, port in _of_clients(node.endpoints)), None),
            None if node.http is None else f"{node.http[0]}:{node.http[1]}",
            why_down(node_id) if node.is_silent or not node.is_up else "",
        )
        for node_id, node in sorted(view.nodes.items())
    ]


def _of_clients(endpoints: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, int]]:
    return (where for name, where in endpoints.items() if name != BETWEEN_NODES)
