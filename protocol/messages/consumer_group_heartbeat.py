"""ConsumerGroupHeartbeat (key 68): all that a member of the ``consumer`` protocol says and hears. KIP-848, KIP-1082."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, Uuid, Words, message, struct, wire


@struct
class HeartbeatTopicPartitions:
    """Partitions of one topic, which is named by its id."""

    topic_id: UUID = wire(Uuid)
    partitions: list[int] = wire(ArrayOf(Int32))


@message(versions=range(2), flexible_from=0)
class ConsumerGroupHeartbeatRequest(Message):
    """Join a group, stay in it, or leave it. A field that has its default says that nothing changed.

    The member epoch is 0 to join, -1 to leave, and -2 when a static member goes away for a while. The partitions are
    those that the member owns now; null does not say which. From version 1 on the client chooses its member id.
    """

    group_id: str = wire(String)
    member_id: str = wire(String)
    member_epoch: int = wire(Int32)
    instance_id: str | None = wire(String, nullable_since=0, default=None)
    rack_id: str | None = wire(String, nullable_since=0, default=None)
    rebalance_timeout_ms: int = wire(Int32, default=-1)
    subscribed_topic_names: list[str] | None = wire(ArrayOf(String), nullable_since=0, default=None)
    subscribed_topic_regex: str | None = wire(String, since=1, nullable_since=1, default=None)
    server_assignor: str | None = wire(String, nullable_since=0, default=None)
    topic_partitions: list[HeartbeatTopicPartitions] | None = wire(
        ArrayOf(HeartbeatTopicPartitions), nullable_since=0, default=None
    )


@struct
class HeartbeatAssignment:
    """What the member shall own."""

    topic_partitions: list[HeartbeatTopicPartitions] = wire(ArrayOf(HeartbeatTopicPartitions))


@message(versions=range(2), flexible_from=0)
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch from now on, and its assignment; null if that is the one it was told last."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    member_id: str | None = wire(String, nullable_since=0, default=None)
    member_epoch: int = wire(Int32)
    heartbeat_interval_ms: int = wire(Int32)
    assignment: HeartbeatAssignment | None = wire(HeartbeatAssignment, nullable_since=0, default=None)
