"""The admin client: topics, logs, the cluster, groups and their offsets, settings, quotas and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, TypeVar

from ottla.clients import given
from ottla.clients.admin_calls import AdminCalls, Outcomes, outcome
from ottla.clients.admin_structs import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    NewTopic,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from ottla.clients.client import GROUP, TRANSACTION
from ottla.clients.commits import offset_fetch_request, read_offsets
from ottla.clients.errors import KafkaError, OptionError, UnsupportedByBroker, check, error_of
from ottla.clients.group_descriptions import classic_group, consumer_group
from ottla.clients.life import Life
from ottla.clients.offsets import MAX_TIMESTAMP, ask_leader
from ottla.clients.options import AdminOptions
from ottla.clients.partitions import by_topic, committable, label, numbers_by_topic
from ottla.clients.structs import EARLIEST, LATEST, BrokerInfo, OffsetAndMetadata, OffsetAndTimestamp, TopicInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import ConfigValue, QuotaEntityPart, TopicWithIndexes
from ottla.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_group_history,
    describe_groups,
    describe_producers,
    describe_transactions,
    incremental_alter_configs,
    leave_group,
    list_groups,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_fetch,
    write_txn_markers,
)
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

DEFAULTS_SINCE = 4
"""The version of CreateTopics from which -1 stands for the broker's default (KIP-464)."""
STATES_SINCE, TYPES_SINCE = 4, 5
"""The versions of ListGroups that can choose by state and by type."""
SEVERAL_LEAVE_SINCE = 3
"""The version of LeaveGroup from which somebody else can remove members (KIP-345)."""
DURATION_SINCE, PATTERN_SINCE = 1, 2
"""The versions of ListTransactions that can choose by duration and by pattern."""
TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
"""The operations of IncrementalAlterConfigs, by their numbers on the wire (KIP-339)."""
Thing = str | int
"""A topic or a group by its name, or a broker by its id."""
Change = str | None | ConfigChange
Altered = alter_configs.AlterConfigsResponse | incremental_alter_configs.IncrementalAlterConfigsResponse
C = TypeVar("C", bound=Change)
R = TypeVar("R", bound=Message)
_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}


class Admin(Life[AdminOptions]):
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

    _noun = "admin client"

    def __init__(self, **options: Any) -> None:
        super().__init__(AdminOptions.of(options))
        self._calls = AdminCalls(self._running, self._options)

    # life

    @property
    def last_request(self) -> tuple[str, str] | None:
        """The address of the oldest open request, or else of the last one, and its API, such as FindCoordinator.

        While a call takes long, this is what it waits for. None before there was a request.
        """
        return None if self._client is None else self._client.last_request

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
        """
        async with self._starting() as client:
            await client.start()

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        await self._stop()

    async def stop(self) -> None:
        """The same as `close`, by the name that producer and consumer have."""
        await self.close()

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
            listed = given.several("topics", topics, (str, NewTopic), "names or NewTopic objects")
            wanted = {t.name: t for t in (NewTopic(one) if isinstance(one, str) else one for one in listed)}
        counted = [topic for topic in wanted.values() if topic.replica_assignments is None]
        by_default = any(-1 in (topic.num_partitions, topic.replication_factor) for topic in counted)
        low = DEFAULTS_SINCE if by_default else 0

        async def attempt(names: list[str]) -> Outcomes[str, CreatedTopic]:
            request = create_topics.CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=self._options.request_timeout_ms,
                validate_only=validate_only,
            )
            calls = self._calls
            answer = await calls.send(calls.controller, request, create_topics.CreateTopicsResponse, low=low)
            return {
                topic.name: outcome(
                    _created(topic), topic.error_code, f"create topic {topic.name!r}", topic.error_message
                )
                for topic in answer.topics
            }

        return await self._calls.for_each(wanted, attempt)

    async def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete topics with their records.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, if there is no such topic.
        """

        async def attempt(names: list[str]) -> Outcomes[str, None]:
            request = delete_topics.DeleteTopicsRequest(
                topics=[delete_topics.DeleteTopicState(name=name) for name in names],
                topic_names=names,
                timeout_ms=self._options.request_timeout_ms,
            )
            answer = await self._calls.send(self._calls.controller, request, delete_topics.DeleteTopicsResponse)
            return {
                topic.name or "": outcome(None, topic.error_code, f"delete topic {topic.name!r}", topic.error_message)
                for topic in answer.responses
            }

        await self._calls.for_each(given.several("topics", topics, str), attempt)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Add partitions to topics.

        Args:
            counts: by topic the number of partitions that it is to have, those of now included.
            validate_only: add nothing, and only check whether it could be done.

        Raises:
            KafkaError: INVALID_PARTITIONS, if a topic has as many already or more.
        """

        async def attempt(names: list[str]) -> Outcomes[str, None]:
            request = create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=name, count=counts[name], assignments=None)
                    for name in names
                ],
                timeout_ms=self._options.request_timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._calls.send(self._calls.controller, request, create_partitions.CreatePartitionsResponse)
            return {
                topic.name: outcome(None, topic.error_code, f"add partitions to {topic.name!r}", topic.error_message)
                for topic in answer.results
            }

        await self._calls.for_each(given.mapping("counts", counts, "numbers by topic"), attempt)

    async def list_topics(self, *, include_internal: bool = True) -> list[str]:
        """The names of all topics, in order."""
        answer = await self._calls.again(lambda: self._running().ask(None))
        return sorted(
            topic.name
            for topic in answer.topics
            if topic.name is not None and not topic.error_code and (include_internal or not topic.is_internal)
        )

    async def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """Topics with their partitions; by default all."""
        names = None if topics is None else given.several("topics", topics, str)
        client = self._running()
        if names is None:
            names = await self.list_topics()

        async def attempt(pending: list[str]) -> Outcomes[str, TopicInfo]:
            await client.ask(frozenset(pending))
            return {name: self._topic(name) for name in pending}

        return await self._calls.for_each(names, attempt)

    def _topic(self, name: str) -> TopicInfo | KafkaError:
        cluster = self._running().cluster
        error = cluster.errors.get(name)
        return cluster.topics[name] if error is None else error_of(error, f"describe topic {name!r}", topic=name)

    # logs

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """By partition the first offset at or after a time; -1 where there is none.

        Args:
            wanted: by partition a Unix time in ms, ``"earliest"``, ``"latest"`` or ``"max_timestamp"``.
            isolation_level: with ``read_committed`` latest is the end of what transactions have committed.

        Raises:
            OptionError: a time or an isolation level that does not exist.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or another error of the leader.
        """
        times: dict[TopicPartition, int] = {}
        for tp, when in given.by_partition("wanted", wanted).items():
            known = _TIMES.get(when) if isinstance(when, str) else when
            if known is None or not given.is_int(known):
                raise OptionError(
                    f"timestamp={when!r}: allowed is a Unix time in ms, or {', '.join(map(repr, _TIMES))}"
                )
            times[tp] = known
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise OptionError(f"isolation_level={isolation_level!r}: allowed is 'read_uncommitted', 'read_committed'")

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, OffsetAndTimestamp]:
            return await ask_leader(
                self._running(),
                node_id,
                {tp: times[tp] for tp in tps},
                read_committed=isolation_level == "read_committed",
                timeout_ms=self._options.request_timeout_ms,
            )

        return await self._calls.at_leaders(times, ask, "look up offsets of")

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset; -1 deletes all. Returns by partition the first offset that is left."""
        offsets = given.by_partition("before", before)

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, int]:
            parts = by_topic(
                tps, lambda tp: delete_records.DeleteRecordsPartition(partition_index=tp.partition, offset=offsets[tp])
            )
            request = delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name=name, partitions=one) for name, one in parts.items()],
                timeout_ms=self._options.request_timeout_ms,
            )
            answer = await self._calls.send(node_id, request, delete_records.DeleteRecordsResponse)
            return {
                (tp := TopicPartition(topic.name, one.partition_index)): outcome(
                    one.low_watermark, one.error_code, f"delete records of {label(tp)}"
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self._calls.at_leaders(offsets, ask, "delete records of")

    # the cluster

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""

        async def attempt() -> ClusterDescription:
            client = self._running()
            request = describe_cluster.DescribeClusterRequest()
            try:
                answer = await client.send(self._calls.any_node, request, describe_cluster.DescribeClusterResponse)
            except UnsupportedByBroker:  # before KIP-700 metadata had to do
                await client.ask(frozenset())
                cluster = client.cluster
                return ClusterDescription(cluster.cluster_id, cluster.controller_id, list(cluster.brokers.values()))
            check(answer.error_code, "describe the cluster", answer.error_message)
            brokers = [BrokerInfo(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers]
            return ClusterDescription(answer.cluster_id, answer.controller_id, brokers)

        return await self._calls.again(attempt)

    # groups

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups of all brokers, in order of their ids.

        Args:
            states: only groups in one of these states, such as ``Stable`` or ``Empty`` (KIP-518).
            types: only groups of one of these types, ``classic`` or ``consumer`` (KIP-848).
        """
        wanted, kinds = given.several("states", states, str), given.several("types", types, str)
        low = TYPES_SINCE if kinds else STATES_SINCE if wanted else 0
        request = list_groups.ListGroupsRequest(states_filter=wanted, types_filter=kinds)

        async def ask(node_id: int) -> dict[str, GroupListing]:
            answer = await self._calls.send(node_id, request, list_groups.ListGroupsResponse, low=low)
            check(answer.error_code, f"list the groups of broker {node_id}")
            return {
                one.group_id: GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type, node_id)
                for one in answer.groups
            }

        return await self._calls.at_all_brokers(ask)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Groups with their members. A group that does not exist is described as ``Dead``, without members."""

        async def ask(coordinator: BrokerInfo, groups: list[str]) -> Outcomes[str, GroupDescription]:
            request = describe_groups.DescribeGroupsRequest(groups=groups)
            answer = await self._calls.send(coordinator.node_id, request, describe_groups.DescribeGroupsResponse)
            found = {group.group_id: classic_group(group, coordinator) for group in answer.groups}
            # Kafka knows a group of the consumer protocol by the other call only.
            others = [key for key, one in found.items() if isinstance(one, GroupDescription) and one.state == "Dead"]
            return {**found, **await self._describe_consumer_groups(coordinator, others)}

        return await self._calls.at_coordinators(given.several("group_ids", group_ids, str), GROUP, ask)

    async def _describe_consumer_groups(
        self, coordinator: BrokerInfo, groups: list[str]
    ) -> Outcomes[str, GroupDescription]:
        if not groups:
            return {}
        request = consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=False
        )
        try:
            answer = await self._calls.send(
                coordinator.node_id, request, consumer_group_describe.ConsumerGroupDescribeResponse
            )
        except UnsupportedByBroker:
            return {}  # it has none
        found = {group.group_id: consumer_group(group, coordinator) for group in answer.groups}
        return {group_id: group for group_id, group in found.items() if group is not None}

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups with their offsets.

        Raises:
            KafkaError: NON_EMPTY_GROUP while a group has members, GROUP_ID_NOT_FOUND if there is none.
        """

        async def ask(coordinator: BrokerInfo, groups: list[str]) -> Outcomes[str, None]:
            request = delete_groups.DeleteGroupsRequest(groups_names=groups)
            answer = await self._calls.send(coordinator.node_id, request, delete_groups.DeleteGroupsResponse)
            return {
                one.group_id: outcome(None, one.error_code, f"delete group {one.group_id!r}") for one in answer.results
            }

        await self._calls.at_coordinators(given.several("group_ids", group_ids, str), GROUP, ask)

    async def remove_members(self, group_id: str, member_ids: Iterable[str], *, reason: str | None = None) -> None:
        """Remove members from a group, as if they had left (KIP-345). Its other members rebalance.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID for one that the group does not have.
        """

        async def attempt(pending: list[str]) -> Outcomes[str, None]:
            members = [leave_group.MemberIdentity(member_id=one, reason=reason) for one in pending]
            request = leave_group.LeaveGroupRequest(group_id=group_id, members=members)
            answer = await self._ask_group(group_id, request, leave_group.LeaveGroupResponse, low=SEVERAL_LEAVE_SINCE)
            subject = f"remove members from group {group_id!r}"
            check(answer.error_code, subject)
            rows = answer.members
            return {one.member_id: outcome(None, one.error_code, f"{subject}: {one.member_id}") for one in rows}

        await self._calls.for_each(given.several("member_ids", member_ids, str), attempt)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's committed offsets.

        Args:
            partitions: the partitions to ask for; by default all. Those without an offset are left out.
        """
        wanted = None if partitions is None else given.partitions("partitions", partitions)
        request = offset_fetch_request(group_id, wanted)
        low = 2 if wanted is None else 0

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            answer = await self._ask_group(group_id, request, offset_fetch.OffsetFetchResponse, low=low)
            return {tp: offset for tp, offset in read_offsets(answer).items() if offset is not None}

        return await self._calls.again(attempt)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set a group's committed offsets. The group must have no members; one that does not exist is created.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID while the group has members, or as the broker refuses an offset.
        """
        wanted = given.offsets(offsets)

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            request = offset_commit.OffsetCommitRequest(
                group_id=group_id,
                topics=committable(
                    {tp: wanted[tp] for tp in pending},
                    offset_commit.OffsetCommitRequestTopic,
                    offset_commit.OffsetCommitRequestPartition,
                ),
            )
            answer = await self._ask_group(group_id, request, offset_commit.OffsetCommitResponse)
            return _offset_outcomes(group_id, answer)

        await self._calls.for_each(wanted, attempt)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics to which no member of the group subscribes (KIP-496).

        Raises:
            KafkaError: GROUP_SUBSCRIBED_TO_TOPIC while a member subscribes to a topic.
        """

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            parts = by_topic(
                pending, lambda tp: offset_delete.OffsetDeleteRequestPartition(partition_index=tp.partition)
            )
            request = offset_delete.OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    offset_delete.OffsetDeleteRequestTopic(name=name, partitions=one) for name, one in parts.items()
                ],
            )
            answer = await self._ask_group(group_id, request, offset_delete.OffsetDeleteResponse)
            check(answer.error_code, f"delete offsets of group {group_id!r}")
            return _offset_outcomes(group_id, answer)

        await self._calls.for_each(given.partitions("partitions", partitions), attempt)

    async def _ask_group(self, group_id: str, request: Message, answer: type[R], *, low: int = 0) -> R:
        """Ask a group's coordinator, once."""
        coordinator = await self._calls.coordinator(group_id)
        return await self._calls.send(coordinator.node_id, request, answer, low=low)

    async def describe_group_history(
        self,
        group_id: str,
        view: str = "why",
        *,
        generation: int | None = None,
        last: int | None = None,
        since_ms: int | None = None,
        after: int = 0,
    ) -> bytes:
        """The history of a group as JSON. Only Ottla's broker answers this call.

        Args:
            group_id: the group.
            view: ``why`` for its rebalances, explained; ``timeline`` for what is drawn; ``events`` as recorded.
            generation: only the rebalance that led to this generation.
            last: the number of rebalances, the newest ones.
            since_ms: only what began at this time (Unix ms) or later.
            after: for ``events``, the number of the event after which to begin.

        Raises:
            UnsupportedByBroker: the broker is not Ottla, or an older one.
        """
        request = describe_group_history.DescribeGroupHistoryRequest(
            group_id=group_id,
            view=view,
            generation=-1 if generation is None else generation,
            last=-1 if last is None else last,
            since_ms=-1 if since_ms is None else since_ms,
            after=after,
        )

        async def attempt() -> bytes:
            coordinator = await self._calls.coordinator(group_id)
            unknown = "the broker does not know DescribeGroupHistory: only Ottla keeps the history of groups"
            answer = await self._calls.send_ours(
                coordinator.node_id, request, describe_group_history.DescribeGroupHistoryResponse, unknown
            )
            if answer.error_code:
                refused = error_of(answer.error_code, f"history of group {group_id!r}", answer.error_message)
                raise KafkaError(str(refused), refused.code)  # it is Ottla, so not UnsupportedByBroker
            return answer.body

        return await self._calls.again(attempt)

    # settings

    async def describe_configs(
        self,
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[int] = (),
        groups: Iterable[str] = (),
        keys: Iterable[str] | None = None,
    ) -> dict[Thing, dict[str, ConfigEntry]]:
        """Settings by topic name, broker id or group id, then by key.

        Args:
            topics: names of topics.
            brokers: ids of brokers.
            groups: ids of groups, which need not exist; for settings as ``consumer.session.timeout.ms`` (KIP-848).
            keys: the settings to ask for; by default all.

        Raises:
            OptionError: a topic and a group have one name; ask for them in two calls.
        """
        wanted_keys = None if keys is None else given.several("keys", keys, str)
        types = _resource_types(
            given.several("topics", topics, str),
            given.several("brokers", brokers, int, "ids"),
            given.several("groups", groups, str, "ids"),
        )

        async def ask(node_id: int, things: list[Thing]) -> Outcomes[Thing, dict[str, ConfigEntry]]:
            resources = [
                describe_configs.DescribeConfigsResource(
                    resource_type=types[thing], resource_name=str(thing), configuration_keys=wanted_keys
                )
                for thing in things
            ]
            request = describe_configs.DescribeConfigsRequest(resources=resources, include_documentation=True)
            answer = await self._calls.send(node_id, request, describe_configs.DescribeConfigsResponse)
            return {
                (thing := _thing(one.resource_type, one.resource_name)): outcome(
                    _settings(one), one.error_code, f"describe settings of {_in_words(thing)}", one.error_message
                )
                for one in answer.results
            }

        return await self._calls.for_configured(types, ask)

    async def alter_configs(
        self,
        *,
        topics: Mapping[str, Mapping[str, str | None]] | None = None,
        brokers: Mapping[int, Mapping[str, str | None]] | None = None,
        groups: Mapping[str, Mapping[str, str | None]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Replace all settings of topics, brokers or groups: those that are not named go back to their defaults.

        Args:
            topics, brokers, groups: by name or id the settings that are to remain, by key.
            validate_only: change nothing, and only check whether it could be done.

        Raises:
            OptionError: a topic and a group have one name; change them in two calls.
            KafkaError: INVALID_CONFIG, if there is no such setting or it cannot have that value.
        """
        wanted = {
            thing: [ConfigValue(name=key, value=value) for key, value in new.items()]
            for thing, new in _given_settings(topics, brokers, groups).items()
        }
        await self._alter(
            wanted,
            _resource_types(topics or (), brokers or (), groups or ()),
            validate_only,
            alter_configs.AlterConfigsResource,
            alter_configs.AlterConfigsRequest,
            alter_configs.AlterConfigsResponse,
        )

    async def incremental_alter_configs(
        self,
        *,
        topics: Mapping[str, Mapping[str, Change]] | None = None,
        brokers: Mapping[int, Mapping[str, Change]] | None = None,
        groups: Mapping[str, Mapping[str, Change]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of topics, brokers or groups, and leave the others as they are (KIP-339).

        Args:
            topics, brokers, groups: by name or id, then by key, a value to set, None to go back to the default, or a
                `ConfigChange`. A group need not exist yet.
            validate_only: change nothing, and only check whether it could be done.

        Raises:
            OptionError: an operation that does not exist, or a topic and a group have one name.
            KafkaError: INVALID_CONFIG, if there is no such setting or it cannot have that value.
        """
        wanted = {
            thing: [_change(key, change) for key, change in new.items()]
            for thing, new in _given_settings(topics, brokers, groups).items()
        }
        await self._alter(
            wanted,
            _resource_types(topics or (), brokers or (), groups or ()),
            validate_only,
            incremental_alter_configs.AlterConfigsResource,
            incremental_alter_configs.IncrementalAlterConfigsRequest,
            incremental_alter_configs.IncrementalAlterConfigsResponse,
        )

    async def _alter(
        self,
        wanted: Mapping[Thing, Any],
        types: Mapping[Thing, int],
        validate_only: bool,
        resource: Callable[..., Any],
        request: Callable[..., Message],
        answer_type: type[Altered],
    ) -> None:
        """Send settings by either request; their messages have the same fields."""

        async def ask(node_id: int, things: list[Thing]) -> Outcomes[Thing, None]:
            resources = [
                resource(resource_type=types[thing], resource_name=str(thing), configs=wanted[thing])
                for thing in things
            ]
            made = request(resources=resources, validate_only=validate_only)
            answer = await self._calls.send(node_id, made, answer_type)
            return {
                (thing := _thing(one.resource_type, one.resource_name)): outcome(
                    None, one.error_code, f"change settings of {_in_words(thing)}", one.error_message
                )
                for one in answer.responses
            }

        await self._calls.for_configured(wanted, ask)

    # quotas

    async def describe_client_quotas(self) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """All quotas: who is limited, as `alter_client_quotas` takes it, and the limits by their names."""
        request = describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)

        async def attempt() -> list[tuple[dict[str, str | None], dict[str, float]]]:
            answer = await self._calls.send(
                self._calls.controller, request, describe_client_quotas.DescribeClientQuotasResponse
            )
            check(answer.error_code, "describe quotas", answer.error_message)
            return [
                ({one.entity_type: one.entity_name for one in entry.entity}, {v.key: v.value for v in entry.values})
                for entry in answer.entries or ()
            ]

        return await self._calls.again(attempt)

    async def alter_client_quotas(self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]) -> None:
        """Limit what clients may use, or lift limits (KIP-546).

        Args:
            entity: whom: ``{"client-id": "billing"}``, ``{"user": …}``, both together, or ``{"ip": "10.0.0.7"}``; None
                instead of a name stands for whoever has no limit of its own.
            quotas: by Kafka's names, as ``{"consumer_byte_rate": 1_048_576}``; None takes a limit away.
        """
        parts = [
            QuotaEntityPart(entity_type=kind, entity_name=name)
            for kind, name in given.mapping("entity", entity, "names by kind").items()
        ]
        ops = [
            alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in given.mapping("quotas", quotas, "limits by name").items()
        ]
        entry = alter_client_quotas.AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
        request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False)

        async def attempt() -> None:
            answer = await self._calls.send(
                self._calls.controller, request, alter_client_quotas.AlterClientQuotasResponse
            )
            for one in answer.entries:
                check(one.error_code, f"alter quotas of {dict(entity)}", one.error_message)

        await self._calls.again(attempt)

    # transactions

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids of all coordinators, in order.

        Args:
            states: only ids in one of these states, such as ``Ongoing``.
            producer_ids: only ids of these producers.
            longer_than_ms: only ids whose transaction has been open for longer than this (KIP-994).
            pattern: only ids that this regular expression (RE2) matches (KIP-1152).

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, if the pattern is none.
            UnsupportedByBroker: the broker is too old for longer_than_ms or pattern.
        """
        request = list_transactions.ListTransactionsRequest(
            state_filters=given.several("states", states, str),
            producer_id_filters=given.several("producer_ids", producer_ids, int, "ids"),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        low = PATTERN_SINCE if pattern is not None else DURATION_SINCE if longer_than_ms is not None else 0

        async def ask(node_id: int) -> dict[str, TransactionListing]:
            answer = await self._calls.send(node_id, request, list_transactions.ListTransactionsResponse, low=low)
            bad_pattern = answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
            of_what = f"whose ids match {pattern!r}" if bad_pattern else f"of broker {node_id}"
            check(answer.error_code, f"list the transactions {of_what}")
            return {
                one.transactional_id: TransactionListing(
                    one.transactional_id, one.producer_id, one.transaction_state, node_id
                )
                for one in answer.transaction_states
            }

        return await self._calls.at_all_brokers(ask)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Transactional ids with the state of their transactions and the partitions in them.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND, if there is no such id.
        """

        async def ask(coordinator: BrokerInfo, keys: list[str]) -> Outcomes[str, TransactionDescription]:
            request = describe_transactions.DescribeTransactionsRequest(transactional_ids=keys)
            answer = await self._calls.send(
                coordinator.node_id, request, describe_transactions.DescribeTransactionsResponse
            )
            return {
                one.transactional_id: outcome(
                    _transaction(one, coordinator), one.error_code, f"describe transaction {one.transactional_id!r}"
                )
                for one in answer.transaction_states
            }

        keys = given.several("transactional_ids", transactional_ids, str)
        return await self._calls.at_coordinators(keys, TRANSACTION, ask)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that partitions know, with the transactions that are open there."""

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, list[ProducerDescription]]:
            request = describe_producers.DescribeProducersRequest(
                topics=[
                    TopicWithIndexes(name=name, partition_indexes=numbers)
                    for name, numbers in numbers_by_topic(tps).items()
                ]
            )
            answer = await self._calls.send(node_id, request, describe_producers.DescribeProducersResponse)
            return {
                (tp := TopicPartition(topic.name, one.partition_index)): outcome(
                    [_producer(state) for state in one.active_producers],
                    one.error_code,
                    f"describe the producers of {label(tp)}",
                    one.error_message,
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self._calls.at_leaders(given.partitions("partitions", partitions), ask)

    async def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """Write an abort marker for a transaction that hangs in a partition, as `describe_producers` shows it.

        Use it for a transaction that its coordinator no longer knows. To end one that it knows, start a producer with
        its transactional_id.
        """

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            marker = write_txn_markers.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[TopicWithIndexes(name=tp.topic, partition_indexes=[tp.partition]) for tp in tps],
                coordinator_epoch=coordinator_epoch,
            )
            request = write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
            answer = await self._calls.send(node_id, request, write_txn_markers.WriteTxnMarkersResponse)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(
                    None, one.error_code, f"abort the transaction of producer {producer_id}"
                )
                for result in answer.markers
                for topic in result.topics
                for one in topic.partitions
            }

        await self._calls.at_leaders([given.partition(partition)], ask)


def _creatable(topic: NewTopic) -> create_topics.CreatableTopic:
    configs = given.mapping("topic_configs", topic.topic_configs, "values by key")
    by_hand = given.mapping("replica_assignments", topic.replica_assignments or {}, "lists of brokers by partition")
    return create_topics.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if by_hand else topic.num_partitions,
        replication_factor=-1 if by_hand else topic.replication_factor,
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in by_hand.items()
        ],
        configs=[ConfigValue(name=name, value=value) for name, value in configs.items()],
    )


def _created(topic: create_topics.CreatableTopicResult) -> CreatedTopic:
    configs = {config.name: config.value for config in topic.configs or ()}
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _offset_outcomes(
    group_id: str, answer: offset_commit.OffsetCommitResponse | offset_delete.OffsetDeleteResponse
) -> Outcomes[TopicPartition, None]:
    outcomes: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            found = outcome(None, one.error_code, f"offsets of group {group_id!r} in topic {topic.name!r}")
            if found is not None and found.code is ErrorCode.UNKNOWN_MEMBER_ID:
                words = f"set offsets of group {group_id!r}: it has members; stop them first"
                found = KafkaError(words, found.code)
            outcomes[TopicPartition(topic.name, one.partition_index)] = found
    return outcomes


def _given_settings(
    topics: Mapping[str, Mapping[str, C]] | None,
    brokers: Mapping[int, Mapping[str, C]] | None,
    groups: Mapping[str, Mapping[str, C]] | None,
) -> dict[Thing, Mapping[str, C]]:
    """The settings given for topics, brokers and groups, in one."""
    found: dict[Thing, Mapping[str, C]] = {}
    for key, kind, one in (("topics", str, topics), ("brokers", int, brokers), ("groups", str, groups)):
        by_thing = given.mapping(key, one or {}, "with a dict of settings for each")
        for thing in given.several(key, by_thing, kind, "names" if key == "topics" else "ids"):
            found[thing] = given.mapping(f"settings of {thing!r}", by_thing[thing], "values by key")
            for name, value in found[thing].items():
                if not isinstance(value, (str, NoneType, ConfigChange)):
                    raise OptionError(f"{name}={value!r}: allowed is a text, such as {str(value)!r}, or None")
    return found


def _resource_types(topics: Iterable[str], brokers: Iterable[int], groups: Iterable[str]) -> dict[Thing, int]:
    """Everything that a call names, and what it is."""
    types: dict[Thing, int] = dict.fromkeys(topics, TOPIC_RESOURCE)
    for group in groups:
        if group in types:
            raise OptionError(f"groups={group!r}: a topic of this name is asked for, too: make two calls")
        types[group] = GROUP_RESOURCE
    return types | dict.fromkeys(brokers, BROKER_RESOURCE)


def _thing(kind: int, name: str) -> Thing:
    return int(name) if kind == BROKER_RESOURCE else name


def _in_words(thing: Thing) -> str:
    return f"broker {thing}" if isinstance(thing, int) else repr(thing)


def _settings(result: describe_configs.DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        config.name: ConfigEntry(
            config.name,
            config.value,
            config.config_source,
            config.read_only,
            config.is_sensitive,
            config.config_type,
            config.documentation,
        )
        for config in result.configs
    }


def _change(key: str, change: Change) -> incremental_alter_configs.AlterableConfig:
    if change is None:
        change = ConfigChange("delete", None)
    elif isinstance(change, str):
        change = ConfigChange("set", change)
    if change.operation not in OPERATIONS:
        raise OptionError(f"operation={change.operation!r} of {key!r}: allowed is {', '.join(map(repr, OPERATIONS))}")
    return incremental_alter_configs.AlterableConfig(
        name=key, config_operation=OPERATIONS[change.operation], value=change.value
    )


def _transaction(one: describe_transactions.TransactionState, coordinator: BrokerInfo) -> TransactionDescription:
    return TransactionDescription(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        _known(one.transaction_start_time_ms),
        [TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions],
        coordinator,
    )


def _producer(state: describe_producers.ProducerState) -> ProducerDescription:
    return ProducerDescription(
        state.producer_id,
        state.producer_epoch,
        _known(state.last_sequence),
        _known(state.last_timestamp),
        _known(state.coordinator_epoch),
        _known(state.current_txn_start_offset),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
