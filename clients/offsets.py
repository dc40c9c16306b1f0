"""Offsets by time, and the ends of logs: ListOffsets, asked of each partition's leader until all have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.clients.backoff import Backoff
from ottla.clients.client import Client
from ottla.clients.errors import KafkaError, KafkaTimeout, error_code, error_of
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
    client: Client,
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
        timeout_ms: how long to try.
        final: errors that are not tried again, though they may pass.

    Returns:
        By partition; the offset is -1 where there is no such record.

    Raises:
        KafkaTimeout: not all leaders have answered in time.
        KafkaError: a partition cannot be asked, e.g. as access is denied.
    """
    deadline = client.now_ms() + timeout_ms
    if wanted and any(client.cluster.leader(tp) is None for tp in wanted):
        await client.ask(frozenset(tp.topic for tp in wanted))
    backoff = Backoff(client.options.retry_backoff_ms, client.options.retry_backoff_max_ms)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    while True:
        left = {tp: timestamp for tp, timestamp in wanted.items() if tp not in found}
        failure = await _one_round(client, left, read_committed, found, deadline)
        if failure is None:
            return found
        if failure.code in final:
            raise failure
        pause = backoff.next_ms()
        if client.now_ms() + pause >= deadline:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in wanted if tp not in found)
            raise KafkaTimeout(f"no offsets for {names} within {timeout_ms:.0f} ms: {failure}")
        await asyncio.sleep(pause / 1000)
        try:
            await client.ask(frozenset(tp.topic for tp in wanted))
        except KafkaError:
            continue  # the next round tells, if it is still so


async def _one_round(
    client: Client,
    left: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp],
    deadline: float,
) -> KafkaError | None:
    """Ask all leaders once. Returns what kept some from answering, None if all have."""
    by_node: dict[int, dict[TopicPartition, int]] = {}
    failure: KafkaError | None = None
    for tp, timestamp in left.items():
        leader = client.cluster.leader(tp)
        if leader is None:
            code = client.cluster.errors.get(tp.topic)
            failure = (
                KafkaError(f"{tp.topic}-{tp.partition} has no leader")
                if code is None
                else error_of(code, repr(tp.topic))
            )
        else:
            by_node.setdefault(leader, {})[tp] = timestamp
    timeout_ms = max(1.0, min(client.options.request_timeout_ms, deadline - client.now_ms()))
    outcomes = await asyncio.gather(
        *(_ask(client, node_id, part, read_committed, timeout_ms, found) for node_id, part in by_node.items()),
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
    client: Client,
    node_id: int,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    timeout_ms: float,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> None:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for tp, timestamp in wanted.items():
        topics.setdefault(tp.topic, []).append(
            ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=client.cluster.leader_epoch(tp),
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
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
                error = error_of(partition.error_code, f"look up offsets of {tp.topic}-{tp.partition}")
                if failure is None or not error_code(partition.error_code).retriable:
                    failure = error
            else:
                found[tp] = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
    if failure is not None:
        raise failure
