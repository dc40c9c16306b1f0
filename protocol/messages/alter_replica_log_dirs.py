"""AlterReplicaLogDirs (key 34): move partitions between the directories of a broker. KIP-113."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, message, struct, wire


@struct
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[int] = wire(ArrayOf(Int32))


@struct
class AlterReplicaLogDir:
    """The partitions that a directory, named by its absolute path, is to hold."""

    path: str = wire(String)
    topics: list[AlterReplicaLogDirTopic] = wire(ArrayOf(AlterReplicaLogDirTopic))


@message(versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsRequest(Message):
    """Move partitions to other directories of the broker that is asked."""

    dirs: list[AlterReplicaLogDir] = wire(ArrayOf(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult:
    """Whether one partition is on its way, or where it was to go."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)


@struct
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: str = wire(String)
    partitions: list[AlterReplicaLogDirPartitionResult] = wire(ArrayOf(AlterReplicaLogDirPartitionResult))


@message(versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    results: list[AlterReplicaLogDirTopicResult] = wire(ArrayOf(AlterReplicaLogDirTopicResult))
