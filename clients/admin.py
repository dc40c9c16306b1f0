"""The admin client: topics, logs, the cluster; and, in modules of their own, groups, settings and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.clients.admin_calls import UNKNOWN, Outcomes
from ottla.clients.admin_configs import AdminConfigs
from ottla.clients.admin_groups import AdminGroups
from ottla.clients.admin_history import AdminHistory
from ottla.clients.admin_structs import ClusterDescription, CreatedTopic, NewTopic
from ottla.clients.admin_transactions import AdminTransactions
from ottla.clients.errors import KafkaError, OptionError, UnsupportedByBroker, error_of
from ottla.clients.given import by_partition, is_int, mapping, several
from ottla.clients.offsets import MAX_TIMESTAMP, list_offsets
from ottla.clients.structs import BrokerInfo, OffsetAndTimestamp, TopicInfo
from ottla.clients.subscription import EARLIEST, LATEST
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.records import TopicPartition

DEFAULTS_SINCE = 4
"""The version of CreateTopics from which -1 stands for the broker's default (KIP-464)."""
_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}


class Admin(AdminGroups, AdminHistory, AdminConfigs, AdminTransactions):
    """Manages topics and groups.

    ```python
    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics({"orders": 12})
        print(await admin.describe_groups(["billing"]))
    ```

    Every call retries what may pass for default_api_timeout_ms, and then raises `KafkaError` with Kafka's code. A call
    for several things raises `SomeFailed` if some of them failed; its ``errors`` and ``results`` say which.

    Args:
        options: those of `AdminOptions`.
    """

    # topics

    async def create_topics(
        self, topics: Iterable[NewTopic | str] | Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics.

        Args:
            topics: names, names with numbers of partitions, or `NewTopic` objects.
            validate_only: create nothing, and only check whether it could be done.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION or another error of the broker.
        """
        if isinstance(topics, Mapping):
            wanted = {name: NewTopic(name, count) for name, count in topics.items()}
        else:
            given = several("topics", topics, (str, NewTopic), "names or NewTopic objects")
            wanted = {t.name: t for t in (NewTopic(one) if isinstance(one, str) else one for one in given)}
        low = DEFAULTS_SINCE if any(_counts_on_defaults(topic) for topic in wanted.values()) else 0

        async def attempt(names: list[str]) -> Outcomes[str, CreatedTopic]:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=self._options.request_timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._running().send(self._controller(), request, CreateTopicsResponse, low=low)
            outcomes: dict[str, CreatedTopic | KafkaError] = {}
            for topic in answer.topics:
                if topic.error_code:
                    outcomes[topic.name] = error_of(
                        topic.error_code, f"create topic {topic.name!r}", topic.error_message
                    )
                else:
                    configs = {config.name: config.value for config in topic.configs or ()}
                    outcomes[topic.name] = CreatedTopic(
                        topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs
                    )
            return outcomes

        return await self._for_each(wanted, attempt)

    async def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete topics with their records.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, if there is no such topic.
        """

        async def attempt(names: list[str]) -> Outcomes[str, None]:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in names],
                topic_names=names,
                timeout_ms=self._options.request_timeout_ms,
            )
            answer = await self._running().send(self._controller(), request, DeleteTopicsResponse)
            return {
                topic.name or "": error_of(topic.error_code, f"delete topic {topic.name!r}", topic.error_message)
                if topic.error_code
                else None
                for topic in answer.responses
            }

        await self._for_each(several("topics", topics, str), attempt)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Add partitions to topics.

        Args:
            counts: by topic the number of partitions that it is to have, those of now included.
            validate_only: add nothing, and only check whether it could be done.

        Raises:
            KafkaError: INVALID_PARTITIONS, if a topic has as many already or more.
        """

        async def attempt(names: list[str]) -> Outcomes[str, None]:
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=counts[name], assignments=None) for name in names],
                timeout_ms=self._options.request_timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._running().send(self._controller(), request, CreatePartitionsResponse)
            return {
                topic.name: error_of(topic.error_code, f"add partitions to {topic.name!r}", topic.error_message)
                if topic.error_code
                else None
                for topic in answer.results
            }

        await self._for_each(mapping("counts", counts, "numbers by topic"), attempt)

    async def list_topics(self, *, include_internal: bool = True) -> list[str]:
        """The names of all topics, in order."""
        answer = await self._again(lambda: self._running().ask(None))
        return sorted(
            topic.name
            for topic in answer.topics
            if topic.name is not None and not topic.error_code and (include_internal or not topic.is_internal)
        )

    async def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """Topics with their partitions; by default all."""
        names = None if topics is None else several("topics", topics, str)
        client = self._running()
        if names is None:
            names = await self.list_topics()

        async def attempt(pending: list[str]) -> Outcomes[str, TopicInfo]:
            await client.ask(frozenset(pending))
            return {name: self._topic(name) for name in pending}

        return await self._for_each(names, attempt)

    def _topic(self, name: str) -> TopicInfo | KafkaError:
        cluster = self._running().cluster
        error = cluster.errors.get(name)
        return cluster.topics[name] if error is None else error_of(error, f"describe topic {name!r}")

    # logs

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """By partition the first offset at or after a time; -1 where there is none.

        Args:
            wanted: by partition a Unix time in ms, ``"earliest"``, ``"latest"`` or ``"max_timestamp"``.
            isolation_level: with ``read_committed`` latest is the end of what transactions have committed.

        Raises:
            OptionError: a time or an isolation level that there is not.
        """
        times: dict[TopicPartition, int] = {}
        for tp, when in by_partition("wanted", wanted).items():
            known = _TIMES.get(when) if isinstance(when, str) else when
            if known is None or not is_int(known):
                raise OptionError(
                    f"timestamp={when!r}: allowed is a Unix time in ms, or {', '.join(map(repr, _TIMES))}"
                )
            times[tp] = known
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise OptionError(f"isolation_level={isolation_level!r}: allowed is 'read_uncommitted', 'read_committed'")
        return await list_offsets(
            self._running(),
            times,
            read_committed=isolation_level == "read_committed",
            timeout_ms=self._options.default_api_timeout_ms,
            final=UNKNOWN,
        )

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset; -1 deletes all. Returns by partition the first offset that is left."""
        given = by_partition("before", before)

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, int]:
            client = self._running()
            await client.ask(frozenset(tp.topic for tp in pending))
            outcomes: dict[TopicPartition, int | KafkaError] = {}
            by_node: dict[int, list[TopicPartition]] = {}
            for tp in pending:
                leader = client.cluster.leader(tp)
                if leader is None:
                    code = client.cluster.errors.get(tp.topic, ErrorCode.LEADER_NOT_AVAILABLE)
                    outcomes[tp] = error_of(code, f"delete records of {tp.topic}-{tp.partition}")
                else:
                    by_node.setdefault(leader, []).append(tp)
            for node_id, group in by_node.items():
                outcomes |= await self._delete_records(node_id, {tp: given[tp] for tp in group})
            return outcomes

        return await self._for_each(given, attempt)

    async def _delete_records(
        self, node_id: int, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        by_topic: dict[str, list[DeleteRecordsPartition]] = {}
        for tp, offset in offsets.items():
            by_topic.setdefault(tp.topic, []).append(
                DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
            )
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
            timeout_ms=self._options.request_timeout_ms,
        )
        answer = await self._running().send(node_id, request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, p.partition_index): error_of(
                p.error_code, f"delete records of {topic.name}-{p.partition_index}"
            )
            if p.error_code
            else p.low_watermark
            for topic in answer.topics
            for p in topic.partitions
        }

    # the cluster

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""

        async def attempt() -> ClusterDescription:
            client = self._running()
            try:
                answer = await client.send(self._any_node(), DescribeClusterRequest(), DescribeClusterResponse)
            except UnsupportedByBroker:  # before KIP-700 metadata had to do
                await client.ask(frozenset())
                cluster = client.cluster
                return ClusterDescription(cluster.cluster_id, cluster.controller_id, list(cluster.brokers.values()))
            if answer.error_code:
                raise error_of(answer.error_code, "describe the cluster", answer.error_message)
            brokers = [BrokerInfo(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers]
            return ClusterDescription(answer.cluster_id, answer.controller_id, brokers)

        return await self._again(attempt)


def _counts_on_defaults(topic: NewTopic) -> bool:
    return topic.replica_assignments is None and -1 in (topic.num_partitions, topic.replication_factor)


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = mapping("topic_configs", topic.topic_configs, "values by key")
    by_hand = mapping("replica_assignments", topic.replica_assignments or {}, "lists of brokers by partition")
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if by_hand else topic.num_partitions,
        replication_factor=-1 if by_hand else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in by_hand.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
