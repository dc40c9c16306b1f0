"""ElectLeaders (key 43): make the preferred or, unclean, any replica the leader. KIP-183, KIP-460."""

from __future__ import annotations

from ottla.protocol.message_parts import PartitionsOfTopic
from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(3), flexible_from=2)
class ElectLeadersRequest(Message):
    """Elect leaders: 0 the preferred replica, 1 any (unclean). Null stands for every partition."""

    election_type: int = wire(Int8, since=1)
    topic_partitions: list[PartitionsOfTopic] | None = wire(ArrayOf(PartitionsOfTopic), nullable_since=0)
    timeout_ms: int = wire(Int32, default=60000)


@struct
class PartitionResult:
    """The outcome for one partition."""

    partition_id: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)


@struct
class ReplicaElectionResult:
    """The partitions of one topic."""

    topic: str = wire(String)
    partition_result: list[PartitionResult] = wire(ArrayOf(PartitionResult))


@message(versions=range(3), flexible_from=2)
class ElectLeadersResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16, since=1)
    replica_election_results: list[ReplicaElectionResult] = wire(ArrayOf(ReplicaElectionResult))
