"""Batches of idempotent producers at a node that has just come to lead a partition."""

from __future__ import annotations

from uuid import UUID

import pytest_asyncio

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import NEW_LEADER_MS, Partition, Topic
from ottla.broker.engine import LogConfig
from ottla.broker.settings import Settings
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import InvalidBatch, Record
from tests.support.batches import build_batch

NOW_MS = 1_700_000_000_000
NOT_LEADER, OUT_OF_ORDER = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest_asyncio.fixture
async def partition() -> Partition:
    """One that was gained just now."""
    engine = MemoryEngine(new_uuid=lambda: UUID(int=1))
    await engine.open()
    topic = Topic("t", UUID(int=2), is_internal=False, overrides={}, config=TopicConfig.of({}, Settings()))
    made = topic.add_partition(await engine.open_log("t", UUID(int=2), 0, LogConfig()))
    made.gained_ms = NOW_MS
    return made


def send(partition: Partition, sequence: int, at_ms: int = NOW_MS, *, epoch: int = 0) -> ErrorCode:
    """What becomes of a batch of one record."""
    record = Record(value=b"v", timestamp_ms=NOW_MS)
    batch = build_batch([record], producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    try:
        partition.produce(batch, 9, at_ms, lambda offset, error: None)
    except InvalidBatch as error:
        return error.error_code
    return ErrorCode.NONE


async def test_a_batch_behind_one_that_came_too_early_is_to_come_again(partition: Partition) -> None:
    assert send(partition, 0) is ErrorCode.NONE
    assert send(partition, 2) is NOT_LEADER
    assert send(partition, 1) is ErrorCode.NONE
    assert send(partition, 2) is ErrorCode.NONE


async def test_so_is_one_of_a_producer_that_is_not_known_yet(partition: Partition) -> None:
    assert send(partition, 1) is NOT_LEADER
    assert send(partition, 0) is ErrorCode.NONE
    assert send(partition, 1) is ErrorCode.NONE


async def test_a_gap_that_stays_is_told_later(partition: Partition) -> None:
    assert send(partition, 0) is ErrorCode.NONE
    assert send(partition, 2, NOW_MS + NEW_LEADER_MS - 1) is NOT_LEADER
    assert send(partition, 2, NOW_MS + NEW_LEADER_MS) is OUT_OF_ORDER
    assert send(partition, 2, NOW_MS - 1) is OUT_OF_ORDER, "clocks may be set back"


async def test_where_a_node_always_led_it_is_told_at_once(partition: Partition) -> None:
    partition.gained_ms = 0
    assert send(partition, 0) is ErrorCode.NONE
    assert send(partition, 2) is OUT_OF_ORDER


async def test_an_older_epoch_is_fenced_all_the_same(partition: Partition) -> None:
    assert send(partition, 0, epoch=1) is ErrorCode.NONE
    assert send(partition, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
