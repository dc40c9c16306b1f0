"""A running cluster, Ottla or Apache Kafka, read over TCP with blocking calls."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ottla.clients.backoff import Backoff
from ottla.clients.errors import KafkaConnectionError, KafkaError, KafkaTimeout, error_code, error_of
from ottla.pipeline.codec import Chunk
from ottla.pipeline.source.connection import Connection
from ottla.pipeline.source.fetching import Fetching
from ottla.pipeline.source.logs import Bounds, Broken, Report, SourceError, Span, Topic
from ottla.pipeline.source.options import Isolation, Options
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

T = TypeVar("T")

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = -2, -1
NEWEST_METADATA = 12
_LONGEST_PAUSE_MS = 2000
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Retry(Exception):
    """Something that passes: ask again, perhaps somebody else."""


class Cluster:
    """The brokers of a cluster, each asked for the partitions that it leads.

    Args:
        options: addresses, times, and the isolation level.
        sleep: waits for seconds between tries.
    """

    def __init__(self, options: Options, sleep: Callable[[float], None] = time.sleep) -> None:
        self.options = options
        self.sleep = sleep
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.cluster_id = ""

    # -- what others ask

    def topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        """See `Logs.topics`."""
        return {} if names is not None and not names else self.patiently("list topics", lambda: self._topics(names))

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """See `Logs.bounds`."""

        def ask() -> dict[TopicPartition, Bounds]:
            first = self._list_offsets(partitions, EARLIEST_TIMESTAMP, Isolation.READ_UNCOMMITTED)
            last = self._list_offsets(partitions, LATEST_TIMESTAMP, self.options.isolation)
            # The log may have moved on in between.
            return {tp: Bounds(first[tp], max(first[tp], last[tp])) for tp in partitions if tp in first and tp in last}

        return self.patiently("list offsets", ask)

    def led(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that had a leader when `topics` was asked last."""
        return [tp for tp in partitions if self._leaders.get(tp, -1) in self._brokers]

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """See `Logs.offsets_at`."""
        found = self.patiently(
            "list offsets", lambda: self._list_offsets(partitions, timestamp_ms, self.options.isolation)
        )
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def chunks(self, spans: Sequence[Span], lost: Report, broken: Broken) -> Iterator[Chunk]:
        """See `Logs.chunks`."""
        return Fetching(self, spans, lost, broken).chunks()

    def close(self) -> None:
        """See `Logs.close`."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- asking

    def patiently(self, what: str, ask: Callable[[], T]) -> T:
        """Ask again, after longer and longer pauses, as long as what goes wrong may pass.

        Raises:
            SourceError: it does not, or lasts too long.
        """
        backoff = Backoff(self.options.retry_interval_ms, max(_LONGEST_PAUSE_MS, self.options.retry_interval_ms))
        give_up_at = time.monotonic() + self.options.timeout_ms / 1000
        while True:
            try:
                return ask()
            except (Retry, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise SourceError(f"{self.options.where}: could not {what}: {error}") from None
                reason = error
            self.forget()
            pause_s = backoff.next_ms() / 1000
            if backoff.failures > self.options.retries or time.monotonic() + pause_s > give_up_at:
                raise SourceError(
                    f"{self.options.where}: could not {what} in {backoff.failures} tries: {reason}"
                ) from None
            self.sleep(pause_s)

    def forget(self) -> None:
        """Close connections and forget leaders: something of it is not true any more."""
        self.close()
        self._leaders.clear()

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them; those that do not exist are left out.

        Raises:
            Retry: one has no leader now.
        """
        wanted = list(partitions)
        if unknown := {tp.topic for tp in wanted if tp not in self._leaders}:
            self._topics(unknown)
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            leader = self._leaders.get(tp)
            if leader is None:
                continue
            if leader < 0 or leader not in self._brokers:
                raise Retry(f"{tp.topic}-{tp.partition} has no leader")
            found[leader].append(tp)
        return found

    def connection(self, leader: int) -> Connection:
        """The connection to a broker; opened when it is first asked for. Raises `KafkaError`."""
        return self._connect(self._brokers[leader])

    def any_connection(self) -> Connection:
        """A connection to any broker. Raises `KafkaConnectionError`, which names all addresses that were tried."""
        reasons = []
        for address in dict.fromkeys([*self.options.servers, *self._brokers.values()]):
            try:
                return self._connect(address)
            except (KafkaConnectionError, KafkaTimeout) as error:
                reasons.append(str(error))
        raise KafkaConnectionError("; ".join(reasons))

    def _connect(self, address: tuple[str, int]) -> Connection:
        if address not in self._connections:
            opened = Connection(address, self.options.client_id, self.options.request_timeout_ms, self.options.tls)
            self._connections[address] = opened
        return self._connections[address]

    def _topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        # Version 4 is the first that creates nothing, and 13 is not understood by Kafka 3.
        answer: MetadataResponse = self.any_connection().call(request, low=4, high=NEWEST_METADATA)
        self._brokers = {row.node_id: (row.host, row.port) for row in answer.brokers}
        self.cluster_id = answer.cluster_id or ""
        found = {}
        for row in answer.topics:
            if row.error_code in _MISSING or row.name is None:
                continue
            if row.error_code:
                _raise(row.error_code, f"describe topic {row.name!r}")
            for one in row.partitions:
                self._leaders[TopicPartition(row.name, one.partition_index)] = one.leader_id
            partitions = tuple(sorted(one.partition_index for one in row.partitions))
            found[row.name] = Topic(row.name, row.topic_id.hex, partitions, row.is_internal)
        return found

    def _list_offsets(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        asked = []
        for leader, led in self.by_leader(partitions).items():
            connection = self.connection(leader)
            rows: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
            for tp in led:
                rows[tp.topic].append(ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp_ms))
            topics = [ListOffsetsTopic(name=topic, partitions=several) for topic, several in rows.items()]
            request: Message = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            asked.append((connection, connection.send(request, low=2)))
        answers: list[Any] = [connection.receive(box) for connection, box in asked]
        found = {}
        for topic in (topic for answer in answers for topic in answer.topics):
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    # Not to be known there says nothing yet: a broker learns late of topics and of what it leads.
                    # What does not exist is told by the metadata, which are asked for next.
                    _raise(row.error_code, f"list offsets of {tp.topic}-{tp.partition}")
                found[tp] = row.offset
        return found


def _raise(code: int, what: str) -> None:
    error = error_of(code, what)
    if error_code(code).retriable:
        raise Retry(str(error))
    raise error
