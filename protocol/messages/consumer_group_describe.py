"""ConsumerGroupDescribe (key 69): groups of the ``consumer`` protocol in detail. KIP-848, KIP-1099."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import (
    ArrayOf,
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    Words,
    message,
    struct,
    wire,
)


@message(versions=range(2), flexible_from=0)
class ConsumerGroupDescribeRequest(Message):
    """Ask for groups in detail."""

    group_ids: list[str] = wire(ArrayOf(String))
    include_authorized_operations: bool = wire(Boolean)


@struct
class DescribedTopicPartitions:
    """Partitions of one topic."""

    topic_id: UUID = wire(Uuid)
    topic_name: str = wire(String)
    partitions: list[int] = wire(ArrayOf(Int32))


@struct
class DescribedAssignment:
    """Partitions by topic."""

    topic_partitions: list[DescribedTopicPartitions] = wire(ArrayOf(DescribedTopicPartitions))


@struct
class DescribedConsumerGroupMember:
    """A member: what it has, and what it shall have. The type is 0 for the classic protocol, 1 for ``consumer``."""

    member_id: str = wire(String)
    instance_id: str | None = wire(String, nullable_since=0, default=None)
    rack_id: str | None = wire(String, nullable_since=0, default=None)
    member_epoch: int = wire(Int32)
    client_id: str = wire(String)
    client_host: str = wire(String)
    subscribed_topic_names: list[str] = wire(ArrayOf(String))
    subscribed_topic_regex: str | None = wire(String, nullable_since=0, default=None)
    assignment: DescribedAssignment = wire(DescribedAssignment)
    target_assignment: DescribedAssignment = wire(DescribedAssignment)
    member_type: int = wire(Int8, since=1, default=-1)


@struct
class DescribedConsumerGroup:
    """A group: its state, its epochs, its assignor and its members."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    group_id: str = wire(String)
    group_state: str = wire(String)
    group_epoch: int = wire(Int32)
    assignment_epoch: int = wire(Int32)
    assignor_name: str = wire(String)
    members: list[DescribedConsumerGroupMember] = wire(ArrayOf(DescribedConsumerGroupMember))
    authorized_operations: int = wire(Int32, default=-2147483648)


@message(versions=range(2), flexible_from=0)
class ConsumerGroupDescribeResponse(Message):
    """The groups: an entry for each time that one was asked for."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    groups: list[DescribedConsumerGroup] = wire(ArrayOf(DescribedConsumerGroup, repeats=True))
