"""Offsets by time, and the ends of logs: ListOffsets, asked of each partition's leader until all have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.clients.client import Client
from ottla.clients.errors import KafkaError, KafkaTimeout, error_of
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
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Look up the first offset at or after a time.

    Args:
        wanted: by partition a Unix time in ms, or -1 latest, -2 earliest, -3 the record with the largest timestamp.
        read_committed: latest is the end of what is committed.
        timeout_ms: the time for all tries.

    Returns:
        By partition; the offset is -1 where there is no such record.

    Raises:
        KafkaTimeout: not all leaders have answered in time.
        KafkaError: a partition cannot be asked, e.g. as access is denied.
    """
    tries = client.tries(timeout_ms)
    lookup = OffsetLookup(client, wanted, read_committed=read_committed)
    await lookup.find_leaders()
    while True:
        failure = await lookup.round(tries.request_timeout_ms(client.options.request_timeout_ms))
        if failure is None:
            return lookup.found
        if not await tries.again():
            raise KafkaTimeout(f"no offsets for {labels(lookup.left)} within {timeout_ms:.0f} ms: {failure}")
        try:
            await client.ask(frozenset(tp.topic for tp in wanted))
        except KafkaError:
            continue  # the next round tells, if it is still so


@dataclass(eq=False, kw_only=True)
class OffsetLookup:
    """The offsets that are wanted, and those that were found so far. Takes what `list_offsets` takes.

    Args:
        on_found: told of each as soon as it is known: a leader that does not answer does not keep it back.
    """

    _client: Client[ClientOptions] = field(kw_only=False)
    _wanted: Mapping[TopicPartition, int] = field(kw_only=False)
    read_committed: bool = False
    on_found: Callable[[TopicPartition, OffsetAndTimestamp], None] = lambda tp, found: None
    found: dict[TopicPartition, OffsetAndTimestamp] = field(default_factory=dict)

    @property
    def left(self) -> list[TopicPartition]:
        return [tp for tp in self._wanted if tp not in self.found]

    async def find_leaders(self) -> None:
        """Ask for metadata if the leader of a partition is not known. Raises KafkaError if no broker answers."""
        cluster = self._client.cluster
        if any(cluster.leader(tp) is None for tp in self._wanted):
            await self._client.ask(frozenset(tp.topic for tp in self._wanted))

    async def round(self, timeout_ms: float) -> KafkaError | None:
        """Ask all leaders once. Returns the error that kept some from answering, None if all have."""
        failure: KafkaError | None = None
        cluster = self._client.cluster
        groups = cluster.by_leader(self.left)
        for tp in groups.pop(None, ()):
            code = cluster.errors.get(tp.topic)
            failure = KafkaError(f"{label(tp)} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
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
        times = {tp: self._wanted[tp] for tp in tps}
        failure: KafkaError | None = None
        outcomes = await ask_leader(
            self._client, node_id, times, read_committed=self.read_committed, timeout_ms=timeout_ms
        )
        for tp, outcome in outcomes.items():
            if not isinstance(outcome, KafkaError):
                self.found[tp] = outcome
                self.on_found(tp, outcome)
            elif failure is None or not outcome.retriable:
                failure = outcome
        if failure is not None:
            raise failure


async def ask_leader(
    client: Client[Any],
    node_id: int,
    times: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Ask one leader, once, for what `list_offsets` looks up."""
    parts = by_topic(
        times,
        lambda tp: ListOffsetsPartition(
            partition_index=tp.partition,
            current_leader_epoch=client.cluster.leader_epoch(tp),
            timestamp=times[tp],
        ),
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in parts.items()],
        timeout_ms=int(timeout_ms),
    )
    low = READ_COMMITTED_SINCE if read_committed else 0
    if MAX_TIMESTAMP in times.values():
        low = MAX_TIMESTAMP_SINCE
    answer = await client.send(node_id, request, ListOffsetsResponse, timeout_ms=timeout_ms, low=low)
    return {
        (tp := TopicPartition(topic.name, one.partition_index)): error_of(
            one.error_code, f"look up offsets of {label(tp)}", topic=topic.name
        )
        if one.error_code
        else OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
        for topic in answer.topics
        for one in topic.partitions
    }
