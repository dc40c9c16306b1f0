"""Groups by the thousand, written into the log of a data directory: no broker would have had them join so soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from ottla.broker.app import Broker
from ottla.broker.settings import Settings
from ottla.protocol.batch_builder import BatchBuilder
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupMemberValue,
    GroupValue,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)
from ottla.protocol.records import TopicPartition

_BATCH_RECORDS = 500

Seed = tuple[str, CoordinatorRecord]


def committed(count: int) -> Iterable[Seed]:
    """Groups ``group-0000000`` and so on without members, each with an offset."""
    value = encode_offset_value(OffsetValue(offset=1, metadata="", commit_timestamp=int(time.time() * 1000)))
    for number in range(count):
        name = f"group-{number:07}"
        yield name, CoordinatorRecord(offset_key(name, "seeded", 0), value)


def with_members(count: int, members: int) -> Iterable[Seed]:
    """Groups ``team-0000000`` and so on, all stable."""
    for number in range(count):
        name = f"team-{number:07}"
        rows = [
            GroupMemberValue(
                member_id=f"consumer-{index}-1b4e28ba-2fa1-11d2-883f-0016d3cca427",
                client_id=f"consumer-{index}",
                client_host="/127.0.0.1",
                session_timeout=300_000,
                rebalance_timeout=300_000,
                subscription=b"\0\3\0\0\0\1\0\6seeded" + bytes(20),
                assignment=b"\0\3\0\0\0\1\0\6seeded" + bytes(20),
            )
            for index in range(members)
        ]
        value = GroupValue(
            protocol_type="consumer", generation=1, protocol="range", leader=rows[0].member_id, members=rows
        )
        yield name, CoordinatorRecord(group_key(name), encode_group_value(value))


def seed(folder: str, records: Iterable[Seed]) -> None:
    """Write records of groups where a broker will look for them."""
    asyncio.run(_seed(Path(folder), records))


async def _seed(folder: Path, records: Iterable[Seed]) -> None:
    broker = Broker(Settings(), directory=folder)
    await broker.start()
    by_partition: dict[int, list[CoordinatorRecord]] = {}
    for name, record in records:
        by_partition.setdefault(coordinator_partition(name), []).append(record)
    wall_ms = int(time.time() * 1000)
    for partition, rows in by_partition.items():
        log = broker._engine.logs[TopicPartition(OFFSETS_TOPIC, partition)]
        for begin in range(0, len(rows), _BATCH_RECORDS):
            builder = BatchBuilder()
            for record in rows[begin : begin + _BATCH_RECORDS]:
                builder.append(record.key, record.value, wall_ms)
            written = asyncio.get_running_loop().create_future()
            log.append(
                builder.build(),
                count=builder.count,
                max_timestamp_ms=wall_ms,
                done=lambda offset, error, written=written: written.set_result(error),
            )
            assert await written is None, "a batch was not written"
    await broker.stop()
