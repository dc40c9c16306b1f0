"""CreatePartitions (key 37): let topics grow. KIP-195."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class CreatePartitionsAssignment:
    """The brokers that are to hold one new partition."""

    broker_ids: list[int] = wire(ArrayOf(Int32))


@struct
class CreatePartitionsTopic:
    """A topic and the number of partitions that it shall have."""

    name: str = wire(String)
    count: int = wire(Int32)
    assignments: list[CreatePartitionsAssignment] | None = wire(ArrayOf(CreatePartitionsAssignment), nullable_since=0)


@message(versions=range(4), flexible_from=2)
class CreatePartitionsRequest(Message):
    """Let topics grow to the given partition counts."""

    topics: list[CreatePartitionsTopic] = wire(ArrayOf(CreatePartitionsTopic))
    timeout_ms: int = wire(Int32)
    validate_only: bool = wire(Boolean)


@struct
class CreatePartitionsTopicResult:
    """The outcome for one topic."""

    name: str = wire(String)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)


@message(versions=range(4), flexible_from=2)
class CreatePartitionsResponse(Message):
    """The outcome for each topic."""

    throttle_time_ms: int = wire(Int32)
    results: list[CreatePartitionsTopicResult] = wire(ArrayOf(CreatePartitionsTopicResult))
