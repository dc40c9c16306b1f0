"""Offsets read straight into their tables: the same comes of a log as when each record is decoded by itself."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.core.coordination.machine import CoordinatorMachine
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.engine import EngineError
from ottla.broker.logger import Silent
from ottla.broker.runtime.coordinator_log import CoordinatorLog
from ottla.protocol.batch_builder import BatchBuilder, sealed
from ottla.protocol.compression import Codec
from ottla.protocol.control import EndOfTransaction, build_marker
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.offsets_topic import (
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)
from ottla.protocol.records import BatchHeader, decompressed_records, end_of_batches, parse_header
from tests.core.durable import durable_state

NOW_MS = 1_700_000_000_000
IDS = [UUID(int=number) for number in range(3)]


class Reference(GroupCoordinator):
    """Decodes each record by itself."""

    replay_plain = CoordinatorMachine.replay_plain


class LogOf:
    """The log of a partition, and the partition."""

    log_start_offset = 0
    leader_epoch = 0

    def __init__(self, batches: list[bytes]) -> None:
        self.data = b"".join(batches)
        self.high_watermark = end_of_batches(self.data)
        self.log = self

    def read(self, offset: int, **_: Any) -> bytes:
        return self.data

    def replay(self, batch: Any, now_ms: int) -> int:
        return parse_header(batch).last_offset + 1


def load(kind: type[GroupCoordinator], batches: list[bytes]) -> tuple[Any, str]:
    """All that a coordinator has after it has read a log, in its order; and the error."""
    coordinator = kind(GroupConfig(), lambda: "id", partition_count=1)
    log = CoordinatorLog(
        OFFSETS_TOPIC,
        coordinator,
        SimpleNamespace(monotonic_ms=lambda: 0, wall_ms=lambda: NOW_MS),  # type: ignore[arg-type]
        partition=lambda tp: LogOf(batches),  # type: ignore[arg-type,return-value]
        max_batch_bytes=1 << 20,
        defer=None,
        over=lambda log, tokens, error: None,
        report=Silent(),
    )
    try:
        asyncio.run(log.load(0))
    except (EngineError, MalformedFrame) as error:
        return None, f"{type(error).__name__}: {error}"
    shard = coordinator.shards[0]
    order = [(name, list(group.offsets.items()), group.offsets.pending) for name, group in shard.groups.items()]
    return (durable_state(coordinator), order, shard.transactions), ""


class Writer:
    """Writes a log at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.transactional = (0, 0.03, 0.2)[seed % 3]
        self.offset = 0

    def log(self, count: int) -> list[bytes]:
        return [self.batch() for _ in range(count)]

    def batch(self) -> bytes:
        random = self.random
        transactional = random.random() < self.transactional
        if random.random() < 0.1:
            end = EndOfTransaction(random.random() < 0.5, 0)
            marker = build_marker(end, producer_id=random.randrange(2), producer_epoch=0, timestamp_ms=NOW_MS)
            return self._place(marker)
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP))
        builder = BatchBuilder(codec=codec, is_transactional=transactional)
        for _ in range(random.choice((1, 2, 5, 70))):
            key, value = self.record()
            headers = [("h", b"x")] if random.random() < 0.02 else []
            builder.append(key, value, NOW_MS + random.choice((0, 0, 1, 63, 64, 10_000, -5, 1 << 40)), headers)
        return self._place(builder.build(producer_id=random.randrange(2) if transactional else -1))

    def _place(self, batch: bytes) -> bytes:
        header = parse_header(batch)._replace(base_offset=self.offset)
        self.offset = header.last_offset + 1
        return sealed(header, batch[61:])

    def record(self) -> tuple[bytes, bytes | None]:
        random = self.random
        group_id = random.choice(("g", "groß", "a-group-with-a-longer-name" * random.choice((1, 3)), ""))
        if random.random() < 0.07:
            return group_key(group_id), self._generation()
        topic, partition = random.choice(("t", "ü", "a-topic" * 9)), random.choice((0, 1, 2, 300, -1))
        key = offset_key(group_id, topic, partition)
        if random.random() < 0.05:
            legacy = OffsetKey(group_id=group_id, topic=topic, partition=partition)
            key = b"\0\0" + OffsetKey.layout(0).encode(legacy)
        if random.random() < 0.03:
            key += b"more"  # what stands behind a key is not looked at
        if random.random() < 0.2:
            return key, None
        version = random.choice((0, 1, 2, 3, 3, 4, 4, 4))
        value = OffsetValue(
            offset=random.choice((0, 7, 1 << 40, -1)),
            leader_epoch=random.choice((-1, 5)),
            metadata=random.choice(("", "", "m", "ä" * 100)),
            commit_timestamp=NOW_MS,
            topic_id=random.choice(IDS),
        )
        data = encode_offset_value(value, version)
        return key, data + b"?" if random.random() < 0.02 else data

    def _generation(self) -> bytes | None:
        if self.random.random() < 0.4:
            return None
        members = [
            GroupMemberValue(
                member_id="m", client_id="c", client_host="/h", session_timeout=9, subscription=b"", assignment=b""
            )
        ]
        members = members[: self.random.randrange(2)]
        return encode_group_value(GroupValue(protocol_type="consumer", generation=3, leader="m", members=members))

    def damage(self, batch: bytes) -> bytes:
        """The batch with some byte of its records changed, and a checksum that fits."""
        header: BatchHeader = parse_header(batch)
        records = bytearray(decompressed_records(header, batch))
        at = self.random.randrange(len(records))
        match self.random.randrange(4):
            case 0:
                del records[at:]
            case 1:
                records += b"\0"
            case _:
                records[at] = self.random.randrange(256)
        return sealed(header._replace(attributes=header.attributes & ~7), bytes(records))


@pytest.mark.parametrize("seed", range(40))
def test_the_same_comes_of_a_log_as_of_its_records_one_by_one(seed: int) -> None:
    batches = Writer(seed).log(40)
    found, error = load(GroupCoordinator, batches)
    assert (found, error) == load(Reference, batches)
    assert error == ""


@pytest.mark.parametrize("seed", range(150))
def test_the_same_is_said_of_a_damaged_log(seed: int) -> None:
    writer = Writer(seed)
    batches = writer.log(6)
    number = writer.random.randrange(len(batches))
    while parse_header(batches[number]).is_control:
        batches.append(writer.batch())
        number = len(batches) - 1
    batches[number] = writer.damage(batches[number])
    assert load(GroupCoordinator, batches) == load(Reference, batches)


def test_offsets_come_back_after_all_of_their_topic_were_deleted() -> None:
    key = offset_key("g", "t", 0)
    value = encode_offset_value(OffsetValue(offset=1, metadata="", commit_timestamp=NOW_MS, topic_id=IDS[1]))
    builder = BatchBuilder()
    for one in (value, None, value):
        builder.append(key, one, NOW_MS)
    found, error = load(GroupCoordinator, [builder.build()])
    assert (found, error) == load(Reference, [builder.build()])
    assert [offset.offset for _, _, offset in found[1][0][1]] == [1]


def test_all_is_plain_that_brokers_write_most() -> None:
    """Else the figures would be those of the other way, and nothing else would show it."""
    builder = BatchBuilder()
    for partition in range(500):
        value = OffsetValue(offset=partition, metadata="", commit_timestamp=NOW_MS, topic_id=IDS[1])
        builder.append(offset_key("g", "t", partition), encode_offset_value(value, 3 + partition % 2), NOW_MS)
    batch = builder.build()
    coordinator = GroupCoordinator(GroupConfig(), lambda: "id", partition_count=1)
    coordinator.load_started(0, 0)
    body = decompressed_records(parse_header(batch), batch)
    assert coordinator.replay_plain(0, body, 0, 500) == (len(body), 0)
    assert len(coordinator.shards[0].groups["g"].offsets) == 500
