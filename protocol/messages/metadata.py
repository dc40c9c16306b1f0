"""Metadata (key 3): brokers, topics, partitions and their leaders. KIP-516, KIP-526."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Message, String, Uuid, message, struct, wire


@struct
class MetadataRequestTopic:
    """A topic by name, or by id with a null name."""

    topic_id: UUID = wire(Uuid, since=10)
    name: str | None = wire(String, nullable_since=10)


@message(versions=range(14), flexible_from=9)
class MetadataRequest(Message):
    """Ask for topics; null asks for all (in version 0 the empty list does)."""

    topics: list[MetadataRequestTopic] | None = wire(ArrayOf(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = wire(Boolean, since=4, default=True)
    include_cluster_authorized_operations: bool = wire(Boolean, since=8, until=10)
    include_topic_authorized_operations: bool = wire(Boolean, since=8)


@struct
class MetadataResponseBroker:
    """One broker and the address at which it is reached."""

    node_id: int = wire(Int32)
    host: str = wire(String)
    port: int = wire(Int32)
    rack: str | None = wire(String, since=1, nullable_since=1, default=None)


@struct
class MetadataResponsePartition:
    """A partition: its leader, replicas and epoch."""

    error_code: int = wire(Int16)
    partition_index: int = wire(Int32)
    leader_id: int = wire(Int32)
    leader_epoch: int = wire(Int32, since=7, default=-1)
    replica_nodes: list[int] = wire(ArrayOf(Int32))
    isr_nodes: list[int] = wire(ArrayOf(Int32))
    offline_replicas: list[int] = wire(ArrayOf(Int32), since=5)


@struct
class MetadataResponseTopic:
    """A topic with its partitions."""

    error_code: int = wire(Int16)
    name: str | None = wire(String, nullable_since=12)
    topic_id: UUID = wire(Uuid, since=10)
    is_internal: bool = wire(Boolean, since=1)
    partitions: list[MetadataResponsePartition] = wire(ArrayOf(MetadataResponsePartition))
    topic_authorized_operations: int = wire(Int32, since=8, default=-2147483648)


@message(versions=range(14), flexible_from=9)
class MetadataResponse(Message):
    """The cluster and the topics asked for."""

    max_items = 1 << 24  # a client of a large cluster asks for all of it

    throttle_time_ms: int = wire(Int32, since=3)
    brokers: list[MetadataResponseBroker] = wire(ArrayOf(MetadataResponseBroker))
    cluster_id: str | None = wire(String, since=2, nullable_since=2, default=None)
    controller_id: int = wire(Int32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = wire(ArrayOf(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(Int32, since=8, until=10, default=-2147483648)
    error_code: int = wire(Int16, since=13)
