"""What a node asks the other nodes of its machine with: the listener that each of them has for that."""

from __future__ import annotations

from functools import partial

from ottla.broker.clock import Clock
from ottla.broker.cluster.view import NOBODY, Placement
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.broker.logger import Logger
from ottla.broker.net.peer import Login, connect
from ottla.broker.runtime.mechanisms import NODE_MECHANISM, node_exchange
from ottla.broker.runtime.peer_transactions import PeerTransactions
from ottla.broker.runtime.peers import Peers
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.records import TopicPartition


def peers_of(placement: Placement, password: str, clock: Clock, report: Logger) -> Peers:
    """The other nodes, wherever the placement says that they are.

    Args:
        password: by which nodes know each other.
        clock: the real one.
    """
    me = placement.view.me
    login = Login(mechanism=NODE_MECHANISM.words, exchange=partial(node_exchange, me, password))

    def endpoint(node_id: int) -> tuple[str, int] | None:
        node = placement.view.nodes.get(node_id)
        return None if node is None or not node.is_up else node.endpoints.get(BETWEEN_NODES)

    return Peers(partial(connect, client_id=f"ottla-node-{me}", login=login), endpoint, clock, report)


def transactions_with(peers: Peers, topics: TopicManager, report: Logger) -> PeerTransactions:
    """Transactions of which other nodes have a part."""

    def leader(tp: TopicPartition) -> int:
        partition = topics.partition(tp)
        return NOBODY if partition is None else topics.leader(partition).node_id

    return PeerTransactions(peers, leader, topics.partition, topics.partition_count, report)
