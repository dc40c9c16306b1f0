"""Fetching spans of several partitions, a few MiB with each request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.clients.backoff import Backoff
from ottla.clients.errors import error_code, error_of
from ottla.pipeline.codec import Chunk, Damage, walk
from ottla.pipeline.source.logs import Broken, Report, SourceError, Span
from ottla.pipeline.source.options import Isolation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.pipeline.source.cluster import Cluster
    from ottla.pipeline.source.connection import Connection

_WAIT_MS = 500
_LARGEST_FETCH = 256 << 20
_MOST_PARTITIONS = 100
_LONGEST_PAUSE_MS = 2000
_MOST_LOOKS = 3
_MOST_HELD = 32 << 20
"""An answer has a few MiB, which may be very well compressed."""


class Fetching:
    """What is left to fetch of some spans.

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
        self._asked: list[tuple[Connection, list[Any]]] = []
        self._bytes: dict[TopicPartition, int] = {}
        self._looks = 0
        self._backoff = Backoff(cluster.options.retry_interval_ms, _LONGEST_PAUSE_MS)

    def chunks(self) -> Iterator[Chunk]:
        """See `Logs.chunks`."""
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
                self._ask_ahead()
            elif self._left:
                self._pause()
            yield from chunks

    def _ask_ahead(self) -> None:
        """Let brokers gather what comes next while what came is decoded."""
        if self._left:
            self._asked = self._cluster.patiently("fetch records", self._ask)

    def _pause(self) -> None:
        """Nothing came: a leader that was just elected may not know how far its log is committed."""
        pause_s = self._backoff.next_ms() / 1000
        if self._backoff.failures > self._cluster.options.retries:
            where = ", ".join(f"{tp.topic}-{tp.partition} at {at[0]}" for tp, at in list(self._left.items())[:10])
            raise SourceError(f"{self._cluster.options.where}: fetching does not get on: {where}")
        self._cluster.forget()
        self._cluster.sleep(pause_s)

    def _ask(self) -> list[tuple[Connection, list[Any]]]:
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
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"find {tp.topic}-{tp.partition}")
        self._looks = 0

    def _fetch(self) -> list[tuple[TopicPartition, PartitionData, bool]]:
        """What brokers gave for partitions, and whether they would have given more: they stop at ``max_bytes``."""
        asked, self._asked = self._asked or self._ask(), []
        found = []
        for connection, box in asked:
            answer: Any = connection.receive(box)
            if answer.error_code:
                raise error_of(answer.error_code, f"fetch from {connection.name}")
            rows = [(topic.topic, row) for topic in answer.responses for row in topic.partitions]
            had_room = not any(len(row.records or b"") for _, row in rows)
            found += [(TopicPartition(topic, row.partition_index), row, had_room) for topic, row in rows]
        return found

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        rows: dict[str, list[FetchPartition]] = defaultdict(list)
        size = self._cluster.options.fetch_bytes
        for tp in partitions:
            most = self._bytes.get(tp, size)
            rows[tp.topic].append(
                FetchPartition(partition=tp.partition, fetch_offset=self._left[tp][0], partition_max_bytes=most)
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
            raise SourceError(
                f"{self._cluster.options.where}: {error_of(answer.error_code, f'fetch {tp.topic}-{tp.partition}')}"
            )
        start, end = self._left[tp]
        data = answer.records or b""
        readable = answer.high_watermark
        if self._isolation is Isolation.READ_COMMITTED and answer.last_stable_offset >= 0:
            readable = answer.last_stable_offset
        if not len(data):
            if had_room and readable >= end:
                del self._left[tp]  # what was at the end has been cleaned away
            return None
        committed = self._isolation is Isolation.READ_COMMITTED
        aborted = (
            [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()] if committed else []
        )
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
