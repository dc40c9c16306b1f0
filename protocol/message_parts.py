"""Structs that messages of several APIs share."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, String, Words, struct, wire


@struct
class TopicWithPartitions:
    """The partitions of one topic, as transactions and directories name them."""

    name: str = wire(String)
    partitions: list[int] = wire(ArrayOf(Int32))


@struct
class TopicWithIndexes:
    """The partitions of one topic, as most requests name them."""

    name: str = wire(String)
    partition_indexes: list[int] = wire(ArrayOf(Int32))


@struct
class PartitionsOfTopic:
    """The partitions of one topic, with the topic's name in `topic`."""

    topic: str = wire(String)
    partitions: list[int] = wire(ArrayOf(Int32))


@struct
class PartitionOutcome:
    """The outcome for one partition."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)


@struct
class TopicOutcome:
    """The outcome for each partition of one topic."""

    name: str = wire(String)
    partitions: list[PartitionOutcome] = wire(ArrayOf(PartitionOutcome))


@struct
class ResourceOutcome:
    """The outcome for one resource that has settings."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    resource_type: int = wire(Int8)
    resource_name: str = wire(String)


@struct
class ConfigValue:
    """A setting and its value; null is the default."""

    name: str = wire(String)
    value: str | None = wire(String, nullable_since=0)


@struct
class QuotaEntityPart:
    """One part of an entity: its type (user, client-id, ip) and its name, or None for the default."""

    entity_type: str = wire(String)
    entity_name: str | None = wire(String, nullable_since=0)


@struct
class LeaderIdAndEpoch:
    """The leader that the client should turn to (KIP-951)."""

    leader_id: int = wire(Int32, default=-1)
    leader_epoch: int = wire(Int32, default=-1)


@struct
class NodeEndpoint:
    """The address of a leader named in the same response (KIP-951)."""

    node_id: int = wire(Int32)
    host: str = wire(String)
    port: int = wire(Int32)
    rack: str | None = wire(String, nullable_since=0, default=None)
