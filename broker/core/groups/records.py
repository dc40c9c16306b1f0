"""Groups and offsets as records of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import NO_ASSIGNMENT
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupMemberValue,
    GroupValue,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
    """The record of the group's generation; members are stored with the metadata of the chosen protocol alone.

    Args:
        assignments: by member id, if they are not those that memory has; whoever is not named gets none.
    """
    value = GroupValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=[
            GroupMemberValue(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=(
                    member.assignment if assignments is None else assignments.get(member.member_id, NO_ASSIGNMENT)
                ),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(group_key(group.group_id), encode_group_value(value))


def new_group_record(group: ClassicGroup, created_ms: int) -> CoordinatorRecord:
    """The record of a group that was just created: generation 0, no protocol type, no members."""
    value = GroupValue(protocol_type="", generation=0, current_state_timestamp=created_ms)
    return CoordinatorRecord(group_key(group.group_id), encode_group_value(value))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Deletes the group's record."""
    return CoordinatorRecord(group_key(group_id), None)


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """The record of a committed offset."""
    value = OffsetValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(offset_key(group_id, topic, partition), encode_offset_value(value))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Deletes a committed offset."""
    return CoordinatorRecord(offset_key(group_id, topic, partition), None)
