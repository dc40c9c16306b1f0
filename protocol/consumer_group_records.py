"""Keys and values of ``__consumer_offsets`` for groups of the ``consumer`` protocol. KIP-848.

As in `ottla.protocol.offsets_topic` a key begins with the type of the record, a value with the version of its layout,
of which there is one. It is flexible: what later brokers add is tagged, and skipped.
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.offsets_topic import record_type
from ottla.protocol.schema import ArrayOf, Bytes, Int8, Int32, Int64, Message, String, Uuid, message, struct, wire

VALUE_VERSION = 0
MAX_ITEMS = 1 << 24
"""The broker wrote the records itself: what it could write it must read at start."""


@message(versions=range(3, 4))
class ConsumerGroupMetadataKey(Message):
    """Names a group."""

    group_id: str = wire(String)


@message(versions=range(1), flexible_from=0)
class ConsumerGroupMetadataValue(Message):
    """The epoch of a group, and the hash of its topics; 0 if none of them exists."""

    epoch: int = wire(Int32)
    metadata_hash: int = wire(Int64, tag=0)


@message(versions=range(4, 5))
class ConsumerGroupPartitionMetadataKey(Message):
    """Names a group, too: its topics as Kafka 4.0 wrote them. Only its tombstone is written now."""

    group_id: str = wire(String)


@struct
class PartitionMetadata:
    """The racks that have replicas of a partition."""

    partition: int = wire(Int32)
    racks: list[str] = wire(ArrayOf(String))


@struct
class TopicMetadata:
    """A topic that a group subscribes to."""

    topic_id: UUID = wire(Uuid)
    topic_name: str = wire(String)
    num_partitions: int = wire(Int32)
    partition_metadata: list[PartitionMetadata] = wire(ArrayOf(PartitionMetadata))


@message(versions=range(1), flexible_from=0)
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics of a group, before its epoch had their hash beside it."""

    max_items = MAX_ITEMS

    topics: list[TopicMetadata] = wire(ArrayOf(TopicMetadata))


@message(versions=range(5, 6))
class ConsumerGroupMemberMetadataKey(Message):
    """Names a member."""

    group_id: str = wire(String)
    member_id: str = wire(String)


@struct
class ClassicProtocol:
    """A protocol that a member of the classic protocol offers, with its subscription in it."""

    name: str = wire(String)
    metadata: bytes = wire(Bytes)


@struct
class ClassicMemberMetadata:
    """What a member said that uses JoinGroup: null for one of the ``consumer`` protocol."""

    session_timeout_ms: int = wire(Int32)
    supported_protocols: list[ClassicProtocol] = wire(ArrayOf(ClassicProtocol))


@message(versions=range(1), flexible_from=0)
class ConsumerGroupMemberMetadataValue(Message):
    """A member and its subscription. The regex is "" where there is none.

    Of a member of the ``consumer`` protocol the classic metadata are null, and written as such: where the tag is left
    out they are there and empty.
    """

    max_items = MAX_ITEMS

    instance_id: str | None = wire(String, nullable_since=0, default=None)
    rack_id: str | None = wire(String, nullable_since=0, default=None)
    client_id: str = wire(String)
    client_host: str = wire(String)
    subscribed_topic_names: list[str] = wire(ArrayOf(String))
    subscribed_topic_regex: str | None = wire(String, nullable_since=0)
    rebalance_timeout_ms: int = wire(Int32, default=-1)
    server_assignor: str | None = wire(String, nullable_since=0, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        ClassicMemberMetadata, nullable_since=0, default=ClassicMemberMetadata, tag=0
    )


@message(versions=range(6, 7))
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Names a group, of which a target was computed."""

    group_id: str = wire(String)


@message(versions=range(1), flexible_from=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch of a group that its target belongs to, and when it was computed, in Unix milliseconds."""

    assignment_epoch: int = wire(Int32)
    assignment_timestamp: int = wire(Int64, tag=0)


@message(versions=range(7, 8))
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Names a member, of which there is a target."""

    group_id: str = wire(String)
    member_id: str = wire(String)


@struct
class TargetTopicPartitions:
    """Partitions of one topic that a member shall own."""

    topic_id: UUID = wire(Uuid)
    partitions: list[int] = wire(ArrayOf(Int32))


@message(versions=range(1), flexible_from=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """What a member shall own."""

    max_items = MAX_ITEMS

    topic_partitions: list[TargetTopicPartitions] = wire(ArrayOf(TargetTopicPartitions))


@message(versions=range(8, 9))
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Names a member, which has an assignment."""

    group_id: str = wire(String)
    member_id: str = wire(String)


@struct
class CurrentTopicPartitions:
    """Partitions of one topic, each with the epoch at which the member got it (KIP-1251).

    The epochs are null, or not as many as the partitions, in what other brokers wrote (R6.4).
    """

    topic_id: UUID = wire(Uuid)
    partitions: list[int] = wire(ArrayOf(Int32))
    assignment_epochs: list[int] | None = wire(ArrayOf(Int32), nullable_since=0, default=None, tag=0)


@message(versions=range(1), flexible_from=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Where a member is: its epochs, its state, what it has and what it has to give up first."""

    max_items = MAX_ITEMS

    member_epoch: int = wire(Int32)
    previous_member_epoch: int = wire(Int32)
    state: int = wire(Int8)
    assigned_partitions: list[CurrentTopicPartitions] = wire(ArrayOf(CurrentTopicPartitions))
    partitions_pending_revocation: list[CurrentTopicPartitions] = wire(ArrayOf(CurrentTopicPartitions))


@message(versions=range(16, 17))
class ConsumerGroupRegularExpressionKey(Message):
    """Names a regex that members subscribe with."""

    group_id: str = wire(String)
    regular_expression: str = wire(String)


@message(versions=range(1), flexible_from=0)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regex matched, by which version of the metadata, and when, in Unix milliseconds."""

    max_items = MAX_ITEMS

    topics: list[str] = wire(ArrayOf(String))
    version: int = wire(Int64)
    timestamp: int = wire(Int64)


ConsumerGroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerGroupValue = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

VALUES: dict[type[ConsumerGroupKey], type[ConsumerGroupValue]] = {
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
}
"""The value that stands behind a key; `ottla.protocol.offsets_topic.decode_value` reads it."""

_KEYS = {key.versions[0]: key for key in VALUES}


def encode_consumer_group_key(key: ConsumerGroupKey) -> bytes:
    """Write a key; its class says the type."""
    number = key.versions[0]
    return number.to_bytes(2, "big") + type(key).layout(number).encode(key)


def encode_consumer_group_value(value: ConsumerGroupValue) -> bytes:
    """Write a value. Tagged fields that have their default are left out (6.1)."""
    return VALUE_VERSION.to_bytes(2, "big") + type(value).layout(VALUE_VERSION).encode(value)


def decode_consumer_group_key(key: bytes) -> ConsumerGroupKey | None:
    """Read a key; None for a type that is not of these groups.

    Raises:
        MalformedFrame: the bytes do not fit the type.
    """
    number = record_type(key)
    key_class = _KEYS.get(number)
    if key_class is None:
        return None
    decoded: ConsumerGroupKey = key_class.layout(number).decode(key, 2)
    return decoded
