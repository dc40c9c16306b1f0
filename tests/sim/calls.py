"""Requests as they look at their version, and what a client waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Protocols = Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class Call:
    """One request on a connection. ``hand`` sends it and is told whom to give the answer to."""

    api: ApiKey
    version: int
    request: Any
    timeout_ms: int
    hand: Callable[[Call], None]
    number: int = 0
    answered: Callable[[Any], None] | None = None

    def send(self, answered: Callable[[Any], None]) -> None:
        self.answered = answered
        self.hand(self)


@dataclass(slots=True)
class Identity:
    """Who a request claims to come from."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


def join(
    who: Identity, version: int, protocols: Protocols, session_ms: int, rebalance_ms: int, kind: str = "consumer"
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
        member_id=who.member_id,
        group_instance_id=who.instance_id if version >= 5 else None,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def sync(
    who: Identity,
    version: int,
    assignments: Sequence[tuple[str, bytes]] = (),
    protocol: tuple[str | None, str | None] = (None, None),
) -> SyncGroupRequest:
    names_protocol = version >= 5
    return SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id if version >= 3 else None,
        protocol_type=protocol[0] if names_protocol else None,
        protocol_name=protocol[1] if names_protocol else None,
        assignments=[SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in assignments],
    )


def heartbeat(who: Identity, version: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id if version >= 3 else None,
    )


def leave(group_id: str, version: int, entries: Sequence[tuple[str, str | None]]) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group_id, member_id=entries[0][0])
    members = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in entries]
    return LeaveGroupRequest(group_id=group_id, members=members)


def commit(
    who: Identity, version: int, offsets: Sequence[tuple[str, int, int, str]], retention_ms: int = -1
) -> OffsetCommitRequest:
    """``offsets`` are topic, partition, offset and metadata."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, partition, offset, metadata in offsets:
        entry = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics.setdefault(topic, []).append(entry)
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id if version >= 7 else None,
        retention_time_ms=retention_ms if version <= 4 else -1,
        topics=[OffsetCommitRequestTopic(name=name, partitions=items) for name, items in topics.items()],
    )


def fetch(
    group_ids: Sequence[str], version: int, topics: Sequence[tuple[str, Sequence[int]]] | None, stable: bool
) -> OffsetFetchRequest:
    if version < 8:
        flat = None
        if topics is not None or version < 2:
            flat = [OffsetFetchRequestTopic(name=name, partition_indexes=list(items)) for name, items in topics or ()]
        return OffsetFetchRequest(group_id=group_ids[0], topics=flat, require_stable=stable and version >= 7)
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequestTopic(name=name, partition_indexes=list(items)) for name, items in topics]
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=wanted) for group_id in group_ids]
    return OffsetFetchRequest(groups=groups, require_stable=stable)


def delete_offsets(group_id: str, topics: Sequence[tuple[str, Sequence[int]]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in items]
            )
            for name, items in topics
        ],
    )


def delete_groups(group_ids: Sequence[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(group_ids))


def describe(group_ids: Sequence[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(group_ids))


def list_groups(states: Sequence[str], version: int) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=list(states) if version >= 4 else [])
