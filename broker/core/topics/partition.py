"""A topic and its partitions as they are served: the settings in force, the logs, the producers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from ottla.broker.core.topics.accept import accept
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.producers import ProducedBatch, Producers, Settled, Verdict
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import InvalidBatch, TopicPartition, parse_header

_REASONS = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer's epoch is older than the one that wrote last",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the batch does not continue the producer's sequence",
}


class OffsetAndTimestamp(Protocol):
    """A record's offset and its time in Unix ms."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


class EpochEnd(Protocol):
    """A leader epoch and the offset at which it ends; -1 and -1 if unknown."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def end_offset(self) -> int: ...


class Log(Protocol):
    """What the data plane needs of a partition's log. The storage boundary has the full contract."""

    leader_epoch: int

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

    def append(
        self, batch: Buffer, *, count: int, max_timestamp_ms: int, done: Callable[[int, Exception | None], None]
    ) -> int: ...
    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes: ...
    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None: ...
    def max_timestamp(self) -> OffsetAndTimestamp | None: ...
    def epoch_end(self, leader_epoch: int) -> EpochEnd: ...
    async def trim(self, offset: int) -> int: ...


class Topic:
    """A topic that is served.

    Attributes:
        overrides: the settings given for the topic itself.
        config: what is in force, parsed.
        partitions: by index, without holes.
        described: the partition rows of Metadata responses, built once; None after a change.
    """

    __slots__ = ("config", "described", "is_internal", "name", "overrides", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: UUID, *, is_internal: bool, overrides: Mapping[str, str], config: TopicConfig
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.overrides = overrides
        self.config = config
        self.partitions: list[Partition] = []
        self.described: list[Any] | None = None

    def partition(self, index: int) -> Partition | None:
        """The partition of that index, None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def add_partition(self, log: Log) -> Partition:
        """Serve one more partition."""
        partition = Partition(self, len(self.partitions), log)
        self.partitions.append(partition)
        self.described = None
        return partition


class Partition:
    """One partition: its log, and what it remembers of idempotent producers.

    ``offline``: its log is damaged, so it has no leader; whoever asks is told so.
    """

    __slots__ = ("log", "offline", "producers", "topic", "tp")

    def __init__(self, topic: Topic, index: int, log: Log) -> None:
        self.topic = topic
        self.tp = TopicPartition(topic.name, index)
        self.log = log
        self.offline = False
        self.producers = Producers()

    def produce(self, records: Buffer | None, api_version: int, wall_ms: int, settled: Settled) -> None:
        """Append the records field of a Produce request.

        ``settled`` is called once with the base offset, when the batch is durable, or with an error: later, or (for a
        duplicate of a batch that is durable) before this returns.

        Raises:
            BatchError: the batch is refused; ``error_code`` says why, and ``settled`` will not be called.
        """
        header, data = accept(records, api_version, self.topic.config, wall_ms)
        if header.is_transactional:
            raise InvalidBatch(ErrorCode.INVALID_TXN_STATE, "the producer has no ongoing transaction")
        verdict = self.producers.judge(header)
        if isinstance(verdict, ErrorCode):
            raise InvalidBatch(verdict, _REASONS[verdict])
        if isinstance(verdict, ProducedBatch):
            if verdict.waiting is None:
                settled(verdict.base_offset, ErrorCode.NONE)
            else:
                verdict.waiting.append(settled)
            return
        appending = _Appending(self, settled)
        base_offset = self.log.append(
            data, count=header.record_count, max_timestamp_ms=header.max_timestamp, done=appending
        )
        if verdict is Verdict.NEW:
            appending.producer_id = header.producer_id
            appending.batch = self.producers.appended(header, base_offset, wall_ms)

    def replay(self, batch: Buffer, now_ms: int) -> int:
        """Take a batch of the log into account at start; returns the offset after it.

        Raises:
            CorruptBatch: it cannot be read.
        """
        header = parse_header(batch)
        if header.producer_id >= 0 and not header.is_control:
            self.producers.appended(header, header.base_offset, now_ms, durable=True)
        return header.last_offset + 1


class _Appending:
    """One batch on its way to the log; the log calls it when the batch is durable or has failed."""

    __slots__ = ("batch", "partition", "producer_id", "settled")

    def __init__(self, partition: Partition, settled: Settled) -> None:
        self.partition = partition
        self.settled = settled
        self.producer_id = -1
        self.batch: ProducedBatch | None = None

    def __call__(self, base_offset: int, error: Exception | None) -> None:
        code = ErrorCode.NONE if error is None else ErrorCode.KAFKA_STORAGE_ERROR
        if self.batch is not None:
            self.partition.producers.settle(self.producer_id, self.batch, code)
        self.settled(-1 if code else base_offset, code)
