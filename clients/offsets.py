"""Offsets by time, and the ends of logs: ListOffsets, asked of each partition's leader until all have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

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
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    while True:
        left = {tp: timestamp for tp, timestamp in wanted.items() if tp not in found}
        request_timeout_ms = tries.request_timeout_ms(client.options.request_timeout_ms)
        failure = await _one_round(client, left, read_committed, found, request_timeout_ms)
        if failure is None:
            return found
        if failure.code in final:
            raise failure
        if not await tries.again():
            names = labels(tp for tp in wanted if tp not in found)
            raise KafkaTimeout(f"no offsets for {names} within {timeout_ms:.0f} ms: {failure}")
        try:
            await client.ask(frozenset(tp.topic for tp in wanted))
        except KafkaError:
            continue  # the next round tells, if it is still so


async def _one_round(
    client: Client[ClientOptions],
    left: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp],
    timeout_ms: float,
) -> KafkaError | None:
    """Ask all leaders once. Returns the error that kept some from answering, None if all have."""
    failure: KafkaError | None = None
    groups = client.cluster.by_leader(left)
    for tp in groups.pop(None, ()):
        code = client.cluster.errors.get(tp.topic)
        failure = KafkaError(f"{label(tp)} has no leader") if code is None else error_of(code, repr(tp.topic))
    outcomes = await asyncio.gather(
        *(
            _ask(client, node_id, {tp: left[tp] for tp in tps}, read_committed, timeout_ms, found)
            for node_id, tps in groups.items()
            if node_id is not None
        ),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if isinstance(outcome, KafkaError):
            if not outcome.retriable:
                raise outcome
            failure = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return failure


async def _ask(
    client: Client[ClientOptions],
    node_id: int,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    timeout_ms: float,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> None:
    parts = by_topic(
        wanted,
        lambda tp: ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=client.cluster.leader_epoch(tp), timestamp=wanted[tp]
        ),
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in parts.items()],
        timeout_ms=int(timeout_ms),
    )
    low = READ_COMMITTED_SINCE if read_committed else 0
    if MAX_TIMESTAMP in wanted.values():
        low = MAX_TIMESTAMP_SINCE
    answer = await client.send(node_id, request, ListOffsetsResponse, timeout_ms=timeout_ms, low=low)
    failure: KafkaError | None = None
    for topic in answer.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                error = error_of(partition.error_code, f"look up offsets of {label(tp)}")
                if failure is None or not error_code(partition.error_code).retriable:
                    failure = error
            else:
                found[tp] = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
    if failure is not None:
        raise failure
