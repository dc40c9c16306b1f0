"""The half of the admin client that is about groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.clients import given
from ottla.clients.admin_calls import AdminCalls, Outcomes
from ottla.clients.admin_structs import GroupDescription, GroupListing, MemberDescription
from ottla.clients.commits import offset_fetch_request, read_offsets
from ottla.clients.errors import KafkaError, error_of
from ottla.clients.structs import BrokerInfo, OffsetAndMetadata
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchResponse
from ottla.protocol.records import TopicPartition

STATES_SINCE = 4
TYPES_SINCE = 5


class AdminGroups(AdminCalls):
    """See `ottla.clients.admin.Admin`, which is what to use."""

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups of all brokers, in order of their ids.

        Args:
            states: only groups in one of these states, such as ``Stable`` or ``Empty`` (KIP-518).
            types: only groups of one of these types, ``classic`` or ``consumer`` (KIP-848).
        """
        wanted, kinds = given.several("states", states, str), given.several("types", types, str)
        low = TYPES_SINCE if kinds else STATES_SINCE if wanted else 0

        async def attempt() -> list[GroupListing]:
            client = self._running()
            found: dict[str, GroupListing] = {}
            for node_id in sorted(client.cluster.brokers):
                request = ListGroupsRequest(states_filter=wanted, types_filter=kinds)
                answer = await client.send(node_id, request, ListGroupsResponse, low=low)
                if answer.error_code:
                    raise error_of(answer.error_code, f"list the groups of broker {node_id}")
                for group in answer.groups:
                    found[group.group_id] = GroupListing(
                        group.group_id, group.protocol_type, group.group_state, group.group_type, node_id
                    )
            return [found[group_id] for group_id in sorted(found)]

        return await self._again(attempt)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Groups with their members. A group that does not exist is described as ``Dead``, without members."""

        async def attempt(pending: list[str]) -> Outcomes[str, GroupDescription]:
            client = self._running()
            by_node, brokers, errors = await self._by_coordinator(pending)
            outcomes: dict[str, GroupDescription | KafkaError] = dict(errors)
            for node_id, groups in by_node.items():
                answer = await client.send(node_id, DescribeGroupsRequest(groups=groups), DescribeGroupsResponse)
                for group in answer.groups:
                    outcomes[group.group_id] = _described(group, brokers[node_id])
            return outcomes

        return await self._for_each(given.several("group_ids", group_ids, str), attempt)

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups with their offsets.

        Raises:
            KafkaError: NON_EMPTY_GROUP while a group has members, GROUP_ID_NOT_FOUND if there is none.
        """

        async def attempt(pending: list[str]) -> Outcomes[str, None]:
            client = self._running()
            by_node, _, errors = await self._by_coordinator(pending)
            outcomes: dict[str, KafkaError | None] = dict(errors)
            for node_id, groups in by_node.items():
                answer = await client.send(node_id, DeleteGroupsRequest(groups_names=groups), DeleteGroupsResponse)
                for result in answer.results:
                    outcomes[result.group_id] = (
                        error_of(result.error_code, f"delete group {result.group_id!r}") if result.error_code else None
                    )
            return outcomes

        await self._for_each(given.several("group_ids", group_ids, str), attempt)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's committed offsets.

        Args:
            partitions: the partitions to ask for; by default all. Those without an offset are left out.
        """
        wanted = None if partitions is None else given.partitions("partitions", partitions)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            coordinator = await self._coordinator(group_id)
            request = offset_fetch_request(group_id, wanted)
            answer = await self._running().send(
                coordinator.node_id, request, OffsetFetchResponse, low=2 if wanted is None else 0
            )
            return {tp: offset for tp, offset in read_offsets(answer).items() if offset is not None}

        return await self._again(attempt)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set a group's committed offsets. The group must have no members; one that does not exist is created.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID while the group has members, or as the broker refuses an offset.
        """
        wanted = given.offsets(offsets)

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            coordinator = await self._coordinator(group_id)
            by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
            for tp in pending:
                offset = wanted[tp]
                by_topic.setdefault(tp.topic, []).append(
                    OffsetCommitRequestPartition(
                        partition_index=tp.partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                )
            request = OffsetCommitRequest(
                group_id=group_id,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
            )
            answer = await self._running().send(coordinator.node_id, request, OffsetCommitResponse)
            return {
                TopicPartition(topic.name, p.partition_index): _offset_outcome(group_id, topic.name, p.error_code)
                for topic in answer.topics
                for p in topic.partitions
            }

        await self._for_each(wanted, attempt)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics to which no member of the group subscribes (KIP-496).

        Raises:
            KafkaError: GROUP_SUBSCRIBED_TO_TOPIC while a member subscribes to a topic.
        """

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            coordinator = await self._coordinator(group_id)
            by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
            for tp in pending:
                by_topic.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
            request = OffsetDeleteRequest(
                group_id=group_id,
                topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
            )
            answer = await self._running().send(coordinator.node_id, request, OffsetDeleteResponse)
            if answer.error_code:
                raise error_of(answer.error_code, f"delete offsets of group {group_id!r}")
            return {
                TopicPartition(topic.name, p.partition_index): _offset_outcome(group_id, topic.name, p.error_code)
                for topic in answer.topics
                for p in topic.partitions
            }

        await self._for_each(given.partitions("partitions", partitions), attempt)


def _offset_outcome(group_id: str, topic: str, value: int) -> KafkaError | None:
    if not value:
        return None
    if value == ErrorCode.UNKNOWN_MEMBER_ID:
        return KafkaError(
            f"set offsets of group {group_id!r}: it has members; stop them first", ErrorCode.UNKNOWN_MEMBER_ID
        )
    return error_of(value, f"offsets of group {group_id!r} in topic {topic!r}")


def _described(group: DescribedGroup, coordinator: BrokerInfo) -> GroupDescription | KafkaError:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # version 6 says so what earlier ones called Dead
        return GroupDescription(group.group_id, "Dead", "", "", [], coordinator)
    if group.error_code:
        return error_of(group.error_code, f"describe group {group.group_id!r}", group.error_message)
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [_member(member, is_consumer) for member in group.members],
        coordinator,
    )


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    topics: list[str] = []
    assignment: list[TopicPartition] = []
    if is_consumer:
        try:
            if member.member_metadata:
                topics = decode_subscription(member.member_metadata).topics
            if member.member_assignment:
                given = decode_assignment(member.member_assignment).assigned_partitions
                assignment = [TopicPartition(one.topic, p) for one in given for p in one.partitions]
        except MalformedFrame:
            pass  # a member may write what it likes; the rest of the description stands
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, assignment
    )
