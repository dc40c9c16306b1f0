"""The client's view of the cluster: brokers, topics, leaders and their epochs. Pure; made from what brokers say."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.clients.errors import error_code
from ottla.clients.structs import BrokerInfo, PartitionInfo, TopicInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.protocol.records import TopicPartition


class ClusterMetadata:
    """The last known state."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.errors: dict[str, ErrorCode] = {}

    def update(self, answer: MetadataResponse, asked: Iterable[str] | None) -> None:
        """Store an answer.

        A partition whose leader epoch is lower than the one known is an old view and leaves what is known in place,
        unless the topic is another one of the same name (KIP-320).

        Args:
            asked: the topics that the request named, None for all.
        """
        if answer.brokers:
            self.brokers = {b.node_id: BrokerInfo(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        gone = set(self.topics) if asked is None else set(asked)
        if asked is None:
            self.errors.clear()
        for topic in answer.topics:
            if topic.name is None:
                continue
            error = error_code(topic.error_code)
            if error is ErrorCode.NONE or topic.partitions:
                self.topics[topic.name] = self._topic(topic.name, topic)
                gone.discard(topic.name)
            if error is ErrorCode.NONE:
                self.errors.pop(topic.name, None)
            else:
                self.errors[topic.name] = error
        for name in gone:
            self.topics.pop(name, None)

    def _topic(self, name: str, topic: MetadataResponseTopic) -> TopicInfo:
        known = self.topics.get(name)
        before = known.partitions if known is not None and known.topic_id == topic.topic_id else {}
        partitions: dict[int, PartitionInfo] = {}
        for p in sorted(topic.partitions, key=lambda p: p.partition_index):
            partition = PartitionInfo(
                name, p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes)
            )
            newest = before.get(p.partition_index, partition)
            stale = 0 <= partition.leader_epoch < newest.leader_epoch
            partitions[p.partition_index] = newest if stale else partition
        return TopicInfo(name, topic.topic_id, topic.is_internal, partitions)

    def lead(self, tp: TopicPartition, leader: LeaderIdAndEpoch, endpoints: Iterable[NodeEndpoint]) -> bool:
        """Take over what a broker says of a partition that it does not lead (KIP-951).

        Args:
            endpoints: addresses of brokers that the answer names.

        Returns:
            Whether it was news: there is a leader, its epoch is newer than the known one, and its address is known.
        """
        known = self.partition(tp)
        if known is None or leader.leader_id < 0 or leader.leader_epoch <= known.leader_epoch:
            return False
        named = next((one for one in endpoints if one.node_id == leader.leader_id), None)
        if named is not None:
            self.brokers[named.node_id] = BrokerInfo(named.node_id, named.host, named.port, named.rack)
        if leader.leader_id not in self.brokers:
            return False
        newer = known._replace(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        self.topics[tp.topic].partitions[tp.partition] = newer
        return True

    def partition_count(self, topic: str) -> int | None:
        """The number of a topic's partitions; None while it is unknown."""
        info = self.topics.get(topic)
        return len(info.partitions) if info and info.partitions else None

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        info = self.topics.get(tp.topic)
        return info.partitions.get(tp.partition) if info else None

    def leader(self, tp: TopicPartition) -> int | None:
        """The broker that leads a partition; None while there is none, or it is not known."""
        partition = self.partition(tp)
        return partition.leader_id if partition is not None and partition.leader_id in self.brokers else None

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """Partitions by the broker that leads them; under None those without a leader."""
        found: dict[int | None, list[TopicPartition]] = {}
        for tp in partitions:
            found.setdefault(self.leader(tp), []).append(tp)
        return found

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The leader's epoch; -1 while unknown."""
        partition = self.partition(tp)
        return partition.leader_epoch if partition is not None else -1

    def available_partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that have a leader."""
        info = self.topics.get(topic)
        return [p for p, partition in info.partitions.items() if partition.leader_id in self.brokers] if info else []
