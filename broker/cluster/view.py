"""The nodes of a cluster and who leads what, as one of them sees it. Pure: a view is replaced and never changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.broker.core.topics.catalog import TopicEntry
from ottla.protocol.records import TopicPartition

NOBODY = -1


class NodeState(IntEnum):
    """The states of a node. One that drains still answers, and leads less and less.

    One that is away is not up, and is expected back at once, where it was. Clients are told of it, as Apache Kafka
    tells of a broker that was killed until its session is over: some lose track of a broker that is gone for a moment.
    """

    UP = 1
    DRAINING = 2
    DOWN = 3
    AWAY = 4


class NodeInfo(NamedTuple):
    """One node.

    Attributes:
        endpoints: host and port by the name of a listener; a listener that tells each client the host that he reached
            has an empty host.
        epoch: the leader epoch of what it leads in this life, where the node itself gives epochs (``--nodes``).
        incarnation: which life of the node this is, where a database counts them.
        http: host and port of its console; None if it has none.
        is_silent: it is up, and has not answered for a while. It leads all the same where nobody else can.
    """

    node_id: int
    state: NodeState
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})
    epoch: int = 0
    rack: str | None = None
    http: tuple[str, int] | None = None
    incarnation: int = 0
    is_silent: bool = False

    @property
    def is_up(self) -> bool:
        """Whether clients may be sent to it."""
        return self.state <= NodeState.DRAINING


class Leader(NamedTuple):
    """Who leads a partition, and under which epoch; `NOBODY` with the last epoch where its leader is down."""

    node_id: int
    epoch: int


class ClusterView(NamedTuple):
    """All nodes that are known, by id, and which of them this one is."""

    me: int
    nodes: Mapping[int, NodeInfo]

    @property
    def up(self) -> list[NodeInfo]:
        """Those that are up, by id."""
        return [node for _, node in sorted(self.nodes.items()) if node.is_up]

    def is_away(self, leader: int, home: int) -> bool:
        """Whether a partition is led by another node than its home, which could lead it: it is on its way there."""
        node = self.nodes.get(home)
        return node is not None and node.state is NodeState.UP and leader not in (NOBODY, home)

    @property
    def told(self) -> list[NodeInfo]:
        """Those of which clients are told, by id."""
        return [node for _, node in sorted(self.nodes.items()) if node.state is not NodeState.DOWN]

    @property
    def controller_id(self) -> int:
        """The smallest id that is up, and answers if any does.

        There is no controller: any node serves any request of an administrator.
        """
        up = [(node.is_silent, node.node_id) for node in self.nodes.values() if node.is_up]
        return min(up)[1] if up else NOBODY


CallHome = Callable[[Collection[tuple[UUID, int]], float], Awaitable[None]]


class Placement(Protocol):
    """Says who leads what. Handlers, drivers and engines decide nothing of that: they ask here, and are told.

    Attributes:
        view: as it is now.
        dealt_to: the nodes at which new partitions are at home, by turns; none where a node is alone, whose partitions
            have no homes.
        on_changed: told of the view before and the one after, when it was replaced. The leaders of partitions may be
            others since.
        has_lease: whether this node may lead anything now: not while its database is away for too long.
        call_home: lets logs, given by topic and partition, be led by their homes, and returns once they are, or after
            so many seconds. None where logs do not move while nodes run.
    """

    view: ClusterView
    dealt_to: Sequence[int]
    on_changed: Callable[[ClusterView, ClusterView], None]
    call_home: CallHome | None

    @property
    def has_lease(self) -> bool: ...

    def leader(self, entry: TopicEntry, partition: int) -> Leader:
        """The leader of a partition of a topic of the catalog."""
        ...

    def opened(self, epoch: int) -> None:
        """The engine of this node is open, and gives this epoch to what the node leads."""
        ...

    def when_sure(self, then: Callable[[], None]) -> bool:
        """Whether nobody else leads what is led here; if that cannot be told now, ``then`` is called once it can.

        For whoever shows what is led here without asking the engine.
        """
        ...


def replicas_of(entry: TopicEntry, partition: int, leader: int, nodes: Collection[int]) -> list[int]:
    """The nodes that a partition is shown with, where all of them can lead it: its home first, and its leader.

    Those are the nodes that somebody has named, or as many as the topic's factor says, by their ids from the home on.

    Args:
        nodes: all that are known.
    """
    home = entry.homes[partition]
    ring = sorted(nodes, key=lambda node_id: (node_id < home, node_id))
    named = [node_id for node_id in entry.assigned.get(partition, ()) if node_id in nodes]
    replicas = named if named[:1] == [home] else ring[: entry.replication_factor]
    return replicas if leader in (*replicas, NOBODY) else [*replicas, leader]


def home_of(entry: TopicEntry, tp: TopicPartition, me: int) -> int:
    """The node at which a partition is at home; a catalog without homes is the one of a single node."""
    return entry.homes[tp.partition] if entry.homes else me
