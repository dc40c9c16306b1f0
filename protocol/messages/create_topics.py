"""CreateTopics (key 19). KIP-4, KIP-464, KIP-525."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.message_parts import ConfigValue
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


@struct
class CreatableReplicaAssignment:
    """The brokers that are to hold one partition."""

    partition_index: int = wire(Int32)
    broker_ids: list[int] = wire(ArrayOf(Int32))


@struct
class CreatableTopic:
    """A topic to create: counts (-1 for the broker's default) or assignments, and settings."""

    name: str = wire(String)
    num_partitions: int = wire(Int32)
    replication_factor: int = wire(Int16)
    assignments: list[CreatableReplicaAssignment] = wire(ArrayOf(CreatableReplicaAssignment))
    configs: list[ConfigValue] = wire(ArrayOf(ConfigValue))


@message(versions=range(2, 8), flexible_from=5)
class CreateTopicsRequest(Message):
    """Create topics, or only check whether they could be."""

    topics: list[CreatableTopic] = wire(ArrayOf(CreatableTopic))
    timeout_ms: int = wire(Int32, default=60000)
    validate_only: bool = wire(Boolean)


@struct
class CreatableTopicConfigs:
    """One setting that the created topic has, and where it comes from."""

    name: str = wire(String, since=5)
    value: str | None = wire(String, since=5, nullable_since=5)
    read_only: bool = wire(Boolean, since=5)
    config_source: int = wire(Int8, since=5, default=-1)
    is_sensitive: bool = wire(Boolean, since=5)


@struct
class CreatableTopicResult:
    """The outcome for one topic; from version 5 with its effective settings."""

    name: str = wire(String)
    topic_id: UUID = wire(Uuid, since=7)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    topic_config_error_code: int = wire(Int16, since=5, tag=0)
    num_partitions: int = wire(Int32, since=5, default=-1)
    replication_factor: int = wire(Int16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(
        ArrayOf(CreatableTopicConfigs, repeats=True), since=5, nullable_since=5
    )


@message(versions=range(2, 8), flexible_from=5)
class CreateTopicsResponse(Message):
    """The outcome for each topic."""

    max_items = 1 << 20  # a request may create 10,000 topics, with some thirty settings each

    throttle_time_ms: int = wire(Int32)
    topics: list[CreatableTopicResult] = wire(ArrayOf(CreatableTopicResult))
