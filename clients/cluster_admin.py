"""`ClusterAdmin`: an admin client that moves partitions from node to node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.clients.admin import Admin
from ottla.clients.admin_calls import outcome
from ottla.clients.errors import KafkaError, UnsupportedByBroker, check
from ottla.clients.partitions import by_topic, label
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.records import TopicPartition

FENCED_SINCE = 2
"""The version of DescribeCluster that tells of brokers that are fenced (KIP-1073)."""


class ClusterAdmin(Admin):
    """An admin client for who operates a cluster. Args: options, those of `AdminOptions`."""

    async def fenced_brokers(self) -> set[int]:
        """The ids of brokers that lead nothing: they are down, or drain. Empty if the broker does not tell."""

        async def attempt() -> set[int]:
            request = DescribeClusterRequest(include_fenced_brokers=True)
            node_id = self._calls.any_node
            try:
                answer = await self._calls.send(node_id, request, DescribeClusterResponse, low=FENCED_SINCE)
            except UnsupportedByBroker:
                return set()
            check(answer.error_code, "describe the cluster", answer.error_message)
            return {broker.broker_id for broker in answer.brokers if broker.is_fenced}

        return await self._calls.again(attempt)

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Let partitions have other replicas, of which the first is to lead.

        Raises:
            SomeFailed: some of them cannot.
        """

        async def attempt(pending: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            rows = by_topic(
                pending, lambda tp: ReassignablePartition(partition_index=tp.partition, replicas=list(replicas[tp]))
            )
            topics = [ReassignableTopic(name=name, partitions=partitions) for name, partitions in rows.items()]
            request = AlterPartitionReassignmentsRequest(topics=topics)
            answer = await self._calls.send(self._calls.controller, request, AlterPartitionReassignmentsResponse)
            check(answer.error_code, "move partitions", answer.error_message)
            return {
                tp: outcome(None, row.error_code, f"move {label(tp)}", row.error_message)
                for topic in answer.responses
                for row in topic.partitions
                for tp in [TopicPartition(topic.name, row.partition_index)]
            }

        await self._calls.for_each(replicas, attempt)
