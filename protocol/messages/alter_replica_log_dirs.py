"""AlterReplicaLogDirs (key 34): move partitions between the directories of a broker. KIP-113."""

from __future__ import annotations

from ottla.protocol.message_parts import PartitionOutcome, TopicWithPartitions
from ottla.protocol.schema import ArrayOf, Int32, Message, String, message, struct, wire


@struct
class AlterReplicaLogDir:
    """The partitions that a directory, named by its absolute path, is to hold."""

    path: str = wire(String)
    topics: list[TopicWithPartitions] = wire(ArrayOf(TopicWithPartitions))


@message(versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsRequest(Message):
    """Move partitions to other directories of the broker that is asked."""

    dirs: list[AlterReplicaLogDir] = wire(ArrayOf(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: str = wire(String)
    partitions: list[PartitionOutcome] = wire(ArrayOf(PartitionOutcome))


@message(versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    results: list[AlterReplicaLogDirTopicResult] = wire(ArrayOf(AlterReplicaLogDirTopicResult))
