"""WriteTxnMarkers (key 27): end a transaction in the logs that it wrote to. KIP-98, KIP-1228."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicOutcome, TopicWithIndexes
from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int16, Int32, Int64, Message, message, struct, wire


@struct
class WritableTxnMarker:
    """A producer whose transaction ends (true: committed), and the partitions that are to be told."""

    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int16)
    transaction_result: bool = wire(Boolean)
    topics: list[TopicWithIndexes] = wire(ArrayOf(TopicWithIndexes))
    coordinator_epoch: int = wire(Int32)
    transaction_version: int = wire(Int8, since=2)


@message(versions=range(1, 3), flexible_from=1)
class WriteTxnMarkersRequest(Message):
    """Append control batches that end transactions. Sent by transaction coordinators and admin tools."""

    markers: list[WritableTxnMarker] = wire(ArrayOf(WritableTxnMarker))


@struct
class WritableTxnMarkerResult:
    """The partitions that one producer's marker went to."""

    producer_id: int = wire(Int64)
    topics: list[TopicOutcome] = wire(ArrayOf(TopicOutcome))


@message(versions=range(1, 3), flexible_from=1)
class WriteTxnMarkersResponse(Message):
    """The outcome for each producer and partition."""

    markers: list[WritableTxnMarkerResult] = wire(ArrayOf(WritableTxnMarkerResult))
