"""DescribeLogDirs (key 35): directories, their space, and what each partition takes. KIP-113, KIP-827, KIP-1066."""

from __future__ import annotations

from ottla.protocol.message_parts import PartitionsOfTopic
from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Int64, Message, String, message, struct, wire


@message(versions=range(1, 6), flexible_from=2)
class DescribeLogDirsRequest(Message):
    """Ask for the log directories of a broker and what these partitions take there; null for all."""

    topics: list[PartitionsOfTopic] | None = wire(ArrayOf(PartitionsOfTopic), nullable_since=0)


@struct
class DescribeLogDirsPartition:
    """The bytes of one partition, and how many records its copy is behind."""

    partition_index: int = wire(Int32)
    partition_size: int = wire(Int64)
    offset_lag: int = wire(Int64)
    is_future_key: bool = wire(Boolean)


@struct
class DescribeLogDirsTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[DescribeLogDirsPartition] = wire(ArrayOf(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    """A directory: the space of its volume in bytes (-1 if unknown), and the partitions in it."""

    error_code: int = wire(Int16)
    log_dir: str = wire(String)
    topics: list[DescribeLogDirsTopic] = wire(ArrayOf(DescribeLogDirsTopic))
    total_bytes: int = wire(Int64, since=4, default=-1)
    usable_bytes: int = wire(Int64, since=4, default=-1)
    is_cordoned: bool = wire(Boolean, since=5)


@message(versions=range(1, 6), flexible_from=2)
class DescribeLogDirsResponse(Message):
    """The log directories of the broker."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16, since=3)
    results: list[DescribeLogDirsResult] = wire(ArrayOf(DescribeLogDirsResult))
