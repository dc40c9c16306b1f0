"""Offsets by time, and the ends of logs: ListOffsets, asked of each partition's leader until all have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.clients.client import Client
from ottla.clients.errors import KafkaError, KafkaTimeout, error_code, error_of
from ottla.clients.options import ClientOptions
from ottla.clients.partitions import by_topic, label, labels
from ottla.clients.structs import OffsetAndTimestamp
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.records import TopicPartition

MAX_TIMESTAMP = -3
MAX_TIMESTAMP_SINCE = 7
READ_COMMITTED_SINCE = 2


async def list_offsets(
    client: Client[ClientOptions],
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float,
    final: frozenset[ErrorCode] = frozenset(),
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Look up the first offset at or after a time.

    Args:
        wanted: by partition a Unix time in ms, or -1 latest, -2 earliest, -3 the record with the largest timestamp.
        read_committed: latest is the end of what is committed.
        timeout_ms: the time for all tries.
        final: errors that are not tried again, though they may pass.

    Returns:
        By partition; the offset is -1 where there is no such record.

    Raises:
        KafkaTimeout: not all leaders have answered in time.
        KafkaError: a partition cannot be asked, e.g. as access is denied.
    """
    tries = client.tries(timeout_ms)
    if wanted and any(client.cluster.leader(tp) is None for tp in wanted):
        await client.ask(frozenset(tp.topic for tp in wanted))
    lookup = _Lookup(client, wanted, read_committed)
    while True:
        failure = await lookup.round(tries.request_timeout_ms(client.options.request_timeout_ms))
        if failure is None:
            return lookup.found
        if failure.code in final:
            raise failure
        if not await tries.again():
            raise KafkaTimeout(f"no offsets for {labels(lookup.left)} within {timeout_ms:.0f} ms: {failure}")
        try:
            await client.ask(frozenset(tp.topic for tp in wanted))
        except KafkaError:
            continue  # the next round tells, if it is still so


@dataclass(eq=False)
class _Lookup:
    """The offsets that are wanted, and those that were found so far."""

    _client: Client[ClientOptions]
    _wanted: Mapping[TopicPartition, int]
    _read_committed: bool
    found: dict[TopicPartition, OffsetAndTimestamp] = field(default_factory=dict)

    @property
    def left(self) -> list[TopicPartition]:
        return [tp for tp in self._wanted if tp not in self.found]

    async def round(self, timeout_ms: float) -> KafkaError | None:
        """Ask all leaders once. Returns the error that kept some from answering, None if all have."""
        failure: KafkaError | None = None
        cluster = self._client.cluster
        groups = cluster.by_leader(self.left)
        for tp in groups.pop(None, ()):
            code = cluster.errors.get(tp.topic)
            failure = KafkaError(f"{label(tp)} has no leader")
            if code is not None:
                failure = error_of(code, repr(tp.topic), topic=tp.topic)
                if not failure.retriable:
                    raise failure
        asked = (self._ask(node_id, tps, timeout_ms) for node_id, tps in groups.items() if node_id is not None)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, KafkaError):
                if not outcome.retriable:
                    raise outcome
                failure = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        return failure

    async def _ask(self, node_id: int, tps: list[TopicPartition], timeout_ms: float) -> None:
        parts = by_topic(
            tps,
            lambda tp: ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=self._client.cluster.leader_epoch(tp),
                timestamp=self._wanted[tp],
            ),
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self._read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in parts.items()],
            timeout_ms=int(timeout_ms),
        )
        low = READ_COMMITTED_SINCE if self._read_committed else 0
        if any(self._wanted[tp] == MAX_TIMESTAMP for tp in tps):
            low = MAX_TIMESTAMP_SINCE
        answer = await self._client.send(node_id, request, ListOffsetsResponse, timeout_ms=timeout_ms, low=low)
        failure: KafkaError | None = None
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    error = error_of(partition.error_code, f"look up offsets of {label(tp)}", topic=topic.name)
                    if failure is None or not error_code(partition.error_code).retriable:
                        failure = error
                else:
                    self.found[tp] = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
        if failure is not None:
            raise failure
