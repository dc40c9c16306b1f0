"""Placements: a node that is alone, nodes that lead what is at home with them, and nodes that share a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.broker.cluster.plan import LogRow, is_led
from ottla.broker.cluster.view import NOBODY, CallHome, ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import TopicEntry

FORMAT = 1
_STATES = {"up": NodeState.UP, "draining": NodeState.DRAINING, "starting": NodeState.AWAY}
"""States of ``cluster.json``; in all others a node is down."""


def _is_sure(then: Callable[[], None]) -> bool:
    """Nobody else ever leads what is led here."""
    return True


def _unheard(before: ClusterView, after: ClusterView) -> None:
    """Nobody wants to be told."""


class Alone:
    """One node, which leads everything under the epoch of its engine."""

    dealt_to: Sequence[int] = ()
    when_sure = staticmethod(_is_sure)
    has_lease = True
    call_home: CallHome | None = None

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

    when_sure = staticmethod(_is_sure)
    has_lease = True
    call_home: CallHome | None = None

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


class Shared:
    """Nodes that share a database, in which it stands who leads a log. Leaders change while nodes run.

    Args:
        logs: the logs of a topic, by partition; of a topic that is not known yet there are none.

    Attributes:
        rows: the logs, as they were read or claimed last.
        incarnation: which life of this node it is; 0 before it is registered.
        when_sure, lease: see `ottla.broker.cluster.view.Placement`; the node knows, which has the lease.
    """

    def __init__(self, node_id: int, logs: Callable[[UUID], Sequence[int]]) -> None:
        self.on_changed: Callable[[ClusterView, ClusterView], None] = _unheard
        self.when_sure: Callable[[Callable[[], None]], bool] = _is_sure
        self.lease: Callable[[], bool] = lambda: True
        self.call_home: CallHome | None = None
        self.view = ClusterView(node_id, {})
        self.rows: dict[int, LogRow] = {}
        self.incarnation = 0
        self._logs = logs
        self._given_up: dict[int, int] = {}
        """The last epoch of each log that was let go: nothing is led under it again."""

    @property
    def dealt_to(self) -> Sequence[int]:
        return sorted(self.view.nodes)

    def leader(self, entry: TopicEntry, partition: int) -> Leader:
        row = self.row_of(entry.topic_id, partition)
        if row is None:
            return Leader(NOBODY, -1)
        is_mine = row.leader_id == self.view.me
        serves = self.epoch_of(row.log_id) is not None if is_mine else is_led(row, self.view)
        return Leader(row.leader_id if serves else NOBODY, row.epoch)

    @property
    def has_lease(self) -> bool:
        return self.lease()

    def opened(self, epoch: int) -> None:
        """The epochs of its logs are not those of an engine."""

    def row_of(self, topic_id: UUID, partition: int) -> LogRow | None:
        """The log of a partition; None if nothing was heard of it yet."""
        logs = self._logs(topic_id)
        return self.rows.get(logs[partition]) if partition < len(logs) else None

    def epoch_of(self, log_id: int) -> int | None:
        """The epoch under which this node leads a log, None if it does not."""
        row = self.rows.get(log_id)
        if row is None or not self.is_mine(row) or row.epoch <= self._given_up.get(log_id, -1):
            return None
        return row.epoch

    def is_mine(self, row: LogRow) -> bool:
        """Whether the database has this life of this node as the leader of a log."""
        return (row.leader_id, row.leader_incarnation) == (self.view.me, self.incarnation)

    @property
    def led(self) -> dict[int, int]:
        """The logs that this node leads, with their epochs."""
        epochs = {log_id: self.epoch_of(log_id) for log_id in self.rows}
        return {log_id: epoch for log_id, epoch in epochs.items() if epoch is not None}

    def take(self, rows: Iterable[LogRow], *, is_everything: bool = False) -> None:
        """Go by rows that were read, or that a claim has changed; what is older than what is known changes nothing."""
        newer = {}
        for row in rows:
            known = self.rows.get(row.log_id)
            newer[row.log_id] = known if known is not None and known.epoch > row.epoch else row
        after = newer if is_everything else self.rows | newer
        # What is led here under another epoch by now was somebody else's meanwhile: it is lost first, then gained.
        self.give_up({one: epoch for one, epoch in self.led.items() if one not in after or after[one].epoch > epoch})
        if after != self.rows:
            self.rows = after
            self.on_changed(self.view, self.view)

    def give_up(self, epochs: Mapping[int, int]) -> None:
        """Lead logs no more under these epochs, whatever the database says."""
        for log_id, epoch in epochs.items():
            self._given_up[log_id] = max(epoch, self._given_up.get(log_id, -1))
        if epochs:
            self.on_changed(self.view, self.view)

    def look(self, view: ClusterView) -> None:
        """Go by another view of the nodes."""
        before, self.view = self.view, view
        if before != view:
            self.on_changed(before, view)
        else:
            self.view = before  # what was worked out for it stays true


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
        is_silent=row["state"] in ("up", "draining") and bool(row.get("why")),
    )
