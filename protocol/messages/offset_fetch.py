"""OffsetFetch (key 9): committed offsets of one or, from version 8, several groups. KIP-447, KIP-709."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Int64, Message, String, Uuid, message, struct, wire


@struct
class OffsetFetchRequestTopic:
    """The partitions of one topic; from version 10 it is named by its id."""

    name: str = wire(String, until=9)
    topic_id: UUID = wire(Uuid, since=10)
    partition_indexes: list[int] = wire(ArrayOf(Int32))


@struct
class OffsetFetchRequestGroup:
    """A group, and the partitions asked for; null for all."""

    group_id: str = wire(String, since=8)
    member_id: str | None = wire(String, since=9, nullable_since=9, default=None)
    member_epoch: int = wire(Int32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopic] | None = wire(ArrayOf(OffsetFetchRequestTopic), since=8, nullable_since=8)


@message(versions=range(1, 11), flexible_from=6)
class OffsetFetchRequest(Message):
    """Ask for committed offsets: of one group up to version 7, of several from version 8."""

    group_id: str = wire(String, until=7)
    topics: list[OffsetFetchRequestTopic] | None = wire(ArrayOf(OffsetFetchRequestTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = wire(ArrayOf(OffsetFetchRequestGroup), since=8)
    require_stable: bool = wire(Boolean, since=7)


@struct
class OffsetFetchResponsePartition:
    """A committed offset, or -1."""

    partition_index: int = wire(Int32)
    committed_offset: int = wire(Int64)
    committed_leader_epoch: int = wire(Int32, since=5, default=-1)
    metadata: str | None = wire(String, nullable_since=0)
    error_code: int = wire(Int16)


@struct
class OffsetFetchResponseTopic:
    """The partitions of one topic; from version 10 it is named by its id."""

    name: str = wire(String, until=9)
    topic_id: UUID = wire(Uuid, since=10)
    partitions: list[OffsetFetchResponsePartition] = wire(ArrayOf(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponseGroup:
    """The offsets of one group."""

    group_id: str = wire(String, since=8)
    topics: list[OffsetFetchResponseTopic] = wire(ArrayOf(OffsetFetchResponseTopic), since=8)
    error_code: int = wire(Int16, since=8)


@message(versions=range(1, 11), flexible_from=6)
class OffsetFetchResponse(Message):
    """Committed offsets; unknown groups and partitions read -1 without an error."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32, since=3)
    topics: list[OffsetFetchResponseTopic] = wire(ArrayOf(OffsetFetchResponseTopic), until=7)
    error_code: int = wire(Int16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = wire(ArrayOf(OffsetFetchResponseGroup, repeats=True), since=8)
