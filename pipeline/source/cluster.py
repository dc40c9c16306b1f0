"""A running cluster, Ottla or Apache Kafka, read over TCP with blocking calls."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ottla.clients.backoff import Backoff
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeout,
    TopicAuthorizationFailed,
    check,
    error_code,
    error_of,
)
from ottla.clients.partitions import by_topic, label
from ottla.clients.structs import EARLIEST, LATEST
from ottla.pipeline.codec import Chunk, Damage, walk
from ottla.pipeline.source.connection import Connection
from ottla.pipeline.source.logs import Bounds, Broken, Report, SourceError, Span, Topic
from ottla.pipeline.source.options import Isolation, Options
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

T = TypeVar("T")

NEWEST_METADATA = 12
_LONGEST_PAUSE_MS = 2000
_WAIT_MS = 500
_LARGEST_FETCH = 256 << 20
_MOST_PARTITIONS = 100
_MOST_LOOKS = 3
_MOST_HELD = 32 << 20
"""An answer has a few MiB, which may be very well compressed."""
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


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
        self._metadata = ClusterMetadata()

    @property
    def cluster_id(self) -> str:
        """Empty where it is not known; known once topics were asked for."""
        return self._metadata.cluster_id or ""

    # -- what others ask

    def topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        """The named topics that exist, or all topics. Raises `SourceError`, as all that is asked here."""
        return {} if names is not None and not names else self.patiently("list topics", lambda: self._topics(names))

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The beginnings and ends of logs, as far as may be read with the isolation level asked for."""

        def ask() -> dict[TopicPartition, Bounds]:
            first = self._list_offsets(partitions, EARLIEST, Isolation.READ_UNCOMMITTED)
            last = self._list_offsets(partitions, LATEST, self.options.isolation)
            # The log may have moved on in between.
            return {tp: Bounds(first[tp], max(first[tp], last[tp])) for tp in partitions if tp in first and tp in last}

        return self.patiently("list offsets", ask)

    def led(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions that had a leader when `topics` was asked last."""
        return [tp for tp in partitions if self._metadata.leader(tp) is not None]

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset with that time (Unix ms) or a later one; None where there is none."""
        found = self.patiently(
            "list offsets", lambda: self._list_offsets(partitions, timestamp_ms, self.options.isolation)
        )
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def chunks(self, spans: Sequence[Span], lost: Report, broken: Broken) -> Iterator[Chunk]:
        """The records of spans, a few MiB at a time; those of one partition in order.

        Raises:
            SourceError: it cannot be read.
            DataLoss: ``lost`` or ``broken`` raised it.
        """
        return Fetching(self, spans, lost, broken).chunks()

    def close(self) -> None:
        """Let go of connections."""
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
            except KafkaError as error:
                if not error.retriable:
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
        self._metadata.topics.clear()

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them; those that do not exist are left out.

        Raises:
            KafkaError: one has no leader now; ask again.
        """
        wanted = list(partitions)
        if unknown := {tp.topic for tp in wanted if self._metadata.partition(tp) is None}:
            self._topics(unknown)
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            if self._metadata.partition(tp) is None:
                continue
            if (leader := self._metadata.leader(tp)) is None:
                raise KafkaError(f"{label(tp)} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
            found[leader].append(tp)
        return found

    def connection(self, leader: int) -> Connection:
        """The connection to a broker, as `connect`."""
        broker = self._metadata.brokers[leader]
        return self.connect((broker.host, broker.port))

    def any_connection(self) -> Connection:
        """A connection to any broker. Raises `KafkaConnectionError`, which names all addresses that were tried."""
        reasons = []
        told = [(broker.host, broker.port) for broker in self._metadata.brokers.values()]
        for address in dict.fromkeys([*self.options.servers, *told]):
            try:
                return self.connect(address)
            except (KafkaConnectionError, KafkaTimeout) as error:
                reasons.append(str(error))
        raise KafkaConnectionError("; ".join(reasons))

    def connect(self, address: tuple[str, int]) -> Connection:
        """The connection to an address; opened when it is first asked for. Raises `KafkaError`."""
        if address not in self._connections:
            opened = Connection(address, self.options.client_id, self.options.request_timeout_ms, self.options.secured)
            self._connections[address] = opened
        return self._connections[address]

    def error(self, value: int, subject: str, topic: str) -> KafkaError:
        """The error for a code about a topic; what may not be read is told with the line that would permit it."""
        error = error_of(value, subject, topic=topic)
        if not isinstance(error, TopicAuthorizationFailed):
            return error
        line = f"--add --allow-principal {self.options.secured.principal} --operation Read --topic {topic}"
        return TopicAuthorizationFailed(f"{subject}: access is denied; kafka-acls {line} permits it", topics=[topic])

    def _topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        # Version 4 is the first that creates nothing, and 13 is not understood by Kafka 3.
        answer: MetadataResponse = self.any_connection().call(request, low=4, high=NEWEST_METADATA)
        for row in answer.topics:
            if row.error_code and row.error_code not in _MISSING:
                raise self.error(row.error_code, f"describe topic {row.name!r}", row.name or "")
        self._metadata.update(answer, names)
        return {
            name: Topic(name, info.topic_id.hex, tuple(info.partitions), info.is_internal)
            for name, info in self._metadata.topics.items()
            if names is None or name in names
        }

    def _list_offsets(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        asked = []
        for leader, led in self.by_leader(partitions).items():
            connection = self.connection(leader)
            rows = by_topic(led, lambda tp: ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp_ms))
            topics = [ListOffsetsTopic(name=topic, partitions=several) for topic, several in rows.items()]
            request: Message = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            asked.append((connection, connection.send(request, low=2)))
        answers: list[Any] = [connection.receive(sent) for connection, sent in asked]
        found = {}
        for topic in (topic for answer in answers for topic in answer.topics):
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                # Not to be known there says nothing yet: a broker learns late of topics and of what it leads.
                # What does not exist is told by the metadata, which are asked for next.
                if row.error_code:
                    raise self.error(row.error_code, f"list offsets of {label(tp)}", topic.name)
                found[tp] = row.offset
        return found


class Fetching:
    """A fetch of spans of several partitions, a few MiB with each request.

    Args:
        cluster: whom to ask.
        lost: told of what is not there any more.
        broken: told of damaged batches.
    """

    def __init__(self, cluster: Cluster, spans: Sequence[Span], lost: Report, broken: Broken) -> None:
        self._cluster = cluster
        self._left = {span.tp: [span.start, span.end] for span in spans if span.weight}
        self._lost = lost
        self._broken = broken
        self._isolation = cluster.options.isolation
        self._asked: list[tuple[Connection, asyncio.Task[Any]]] = []
        self._bytes: dict[TopicPartition, int] = {}
        self._looks = 0
        self._backoff = Backoff(cluster.options.retry_interval_ms, _LONGEST_PAUSE_MS)

    def chunks(self) -> Iterator[Chunk]:
        """See `Cluster.chunks`."""
        while self._left:
            answers = self._cluster.patiently("fetch records", self._fetch)
            chunks: list[Chunk] = []
            held = 0
            before = {tp: (at[0], self._bytes.get(tp)) for tp, at in self._left.items()}
            for tp, answer, had_room in answers:
                if tp in self._left and (chunk := self._take(tp, answer, had_room)) is not None:
                    chunks.append(chunk)
                    held += chunk.data.nbytes
                    if held > _MOST_HELD:
                        yield from chunks
                        chunks, held = [], 0
            if {tp: (at[0], self._bytes.get(tp)) for tp, at in self._left.items()} != before:
                self._backoff.reset()
                if self._left:  # brokers gather what comes next while what came is decoded
                    self._asked = self._cluster.patiently("fetch records", self._ask)
            elif self._left:
                self._pause()
            yield from chunks

    def _pause(self) -> None:
        """Nothing came: a leader that was just elected may not know how far its log is committed."""
        pause_s = self._backoff.next_ms() / 1000
        if self._backoff.failures > self._cluster.options.retries:
            where = ", ".join(f"{label(tp)} at {at[0]}" for tp, at in list(self._left.items())[:10])
            raise SourceError(f"{self._cluster.options.where}: fetching does not get on: {where}")
        self._cluster.forget()
        self._cluster.sleep(pause_s)

    def _ask(self) -> list[tuple[Connection, asyncio.Task[Any]]]:
        cluster = self._cluster
        some = list(self._left)[:_MOST_PARTITIONS]
        led = cluster.by_leader(some)
        if missing := sorted(set(some) - {tp for several in led.values() for tp in several}):
            self._look_again(missing[0])
        for tp in missing:
            self._lost(tp, "it does not exist any more")
            del self._left[tp]
        asked = []
        for leader, partitions in led.items():
            connection = cluster.connection(leader)
            asked.append((connection, connection.send(self._request(partitions), low=4)))
        return asked

    def _look_again(self, tp: TopicPartition) -> None:
        """A broker that has just started may not know a topic yet, so that one look does not make it lost."""
        self._looks += 1
        if self._looks <= min(_MOST_LOOKS, self._cluster.options.retries):
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"find {label(tp)}")
        self._looks = 0

    def _fetch(self) -> list[tuple[TopicPartition, PartitionData, bool]]:
        """The answers for partitions, each with whether there was room for more: brokers stop at ``max_bytes``."""
        asked, self._asked = self._asked or self._ask(), []
        found = []
        for connection, sent in asked:
            answer: Any = connection.receive(sent)
            check(answer.error_code, f"fetch from {connection.name}")
            rows = [(topic.topic, row) for topic in answer.responses for row in topic.partitions]
            had_room = not any(len(row.records or b"") for _, row in rows)
            found += [(TopicPartition(topic, row.partition_index), row, had_room) for topic, row in rows]
        return found

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        size = self._cluster.options.fetch_bytes
        rows = by_topic(
            partitions,
            lambda tp: FetchPartition(
                partition=tp.partition,
                fetch_offset=self._left[tp][0],
                partition_max_bytes=self._bytes.get(tp, size),
            ),
        )
        return FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=max(size, *(self._bytes.get(tp, 0) for tp in partitions), 0),
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=topic, partitions=several) for topic, several in rows.items()],
        )

    def _take(self, tp: TopicPartition, answer: PartitionData, had_room: bool) -> Chunk | None:
        code = error_code(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._begin_again(tp)
            return None
        if code is ErrorCode.CORRUPT_MESSAGE:
            at = self._left[tp][0]
            damage = Damage(at, "the broker says that its log is damaged there", None)
            self._damaged(tp, damage)
            return replace(walk(b"", topic=tp.topic, partition=tp.partition, start_offset=at), damage=(damage,))
        if code is not ErrorCode.NONE and code.retriable:
            self._cluster.forget()
            return None
        if code is not ErrorCode.NONE:
            error = self._cluster.error(answer.error_code, f"fetch {label(tp)}", tp.topic)
            raise SourceError(f"{self._cluster.options.where}: {error}")
        start, end = self._left[tp]
        data = answer.records or b""
        readable = answer.high_watermark
        if self._isolation is Isolation.READ_COMMITTED and answer.last_stable_offset >= 0:
            readable = answer.last_stable_offset
        if not len(data):
            if had_room and readable >= end:
                del self._left[tp]  # what was at the end has been cleaned away
            return None
        named = answer.aborted_transactions or () if self._isolation is Isolation.READ_COMMITTED else ()
        aborted = [(one.producer_id, one.first_offset) for one in named]
        chunk = walk(data, topic=tp.topic, partition=tp.partition, start_offset=start, end_offset=end, aborted=aborted)
        if not chunk.consumed and chunk.partial_size:
            self._bytes[tp] = min(max(chunk.partial_size, 2 * self._cluster.options.fetch_bytes), _LARGEST_FETCH)
        else:
            self._bytes.pop(tp, None)
        self._move(tp, chunk.next_offset)
        for damage in chunk.damage:
            self._damaged(tp, damage)
        return chunk

    def _move(self, tp: TopicPartition, offset: int) -> None:
        if offset >= self._left[tp][1]:
            del self._left[tp]
        else:
            self._left[tp][0] = offset

    def _damaged(self, tp: TopicPartition, damage: Damage) -> None:
        self._broken(tp, damage)
        if damage.is_fatal and tp in self._left:
            del self._left[tp]  # nobody knows where the next batch begins

    def _begin_again(self, tp: TopicPartition) -> None:
        """The offset is not in the log: older records were deleted since, or the topic was made anew."""
        start, end = self._left[tp]
        bounds = self._cluster.bounds([tp]).get(tp)
        if bounds is None or bounds.end < start:
            what = "it does not exist any more" if bounds is None else f"it ends at {bounds.end}"
            self._lost(tp, f"offsets {start} to {end} should be there, but {what}: was the topic created anew?")
            del self._left[tp]
            return
        if bounds.start > start:
            self._lost(
                tp,
                f"offsets {start} to {min(end, bounds.start)} are not there any more: the log begins at {bounds.start}",
            )
        self._move(tp, max(start, bounds.start))
