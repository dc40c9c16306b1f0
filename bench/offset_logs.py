"""Logs of ``__consumer_offsets`` as a busy cluster leaves them, made without a broker.

Batches hold 1 to 5 records, as OffsetCommit writes them: consecutive partitions of one topic of one group, in the
log of the group's coordinator. 80 % of the values are of version 3 and the others of 4; 5 % have metadata, 0.7 % are
tombstones, and 0.5 % of the records are generations of four members.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.offsets_topic import GroupMemberValue, GroupValue, encode_group_value, group_key, offset_key
from ottla.protocol.varints import encode_varint

PARTITIONS = 50
GROUPS, TOPICS_OF_A_GROUP, PARTITIONS_OF_A_TOPIC = 1000, 2, 12
START_MS = 1_760_000_000_000
_FLUSH_BYTES = 1 << 20
_AFTER_CRC = struct.Struct(">hiqqqhii")
_HEAD = struct.Struct(">qiibI")
_OFFSET_AND_EPOCH, _TIME = struct.Struct(">hqi"), struct.Struct(">q")


def group_name(number: int) -> str:
    """Of one of `GROUPS`."""
    return f"billing-{number:04d}"


class _Log:
    """A partition's log that grows."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._file = (path / f"{0:020d}.log").open("wb")
        self._held: list[bytes] = []
        self._bytes = 0
        self.next_offset = 0

    def append(self, records: list[bytes], timestamp_ms: int) -> None:
        """A batch of records; each as it stands behind its offset delta."""
        body = bytearray()
        for delta, one in enumerate(records):
            content = b"\0\0" + encode_varint(delta) + one
            body += encode_varint(len(content)) + content
        count = len(records)
        covered = _AFTER_CRC.pack(0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + body
        self._held += (_HEAD.pack(self.next_offset, len(covered) + 9, 0, 2, crc32c(covered)), covered)
        self.next_offset += count
        self._bytes += len(covered)
        if self._bytes > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        self._file.write(b"".join(self._held))
        self._held.clear()
        self._bytes = 0

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        self._file.close()


def make(directory: Path, records: int, tell: Callable[[int], None] = lambda _: None) -> None:
    """Write a log directory in Kafka's layout.

    Args:
        directory: it is made.
        records: about how many.
        tell: told from time to time how many there are.
    """
    rng = random.Random(1)
    logs = [_Log(directory / f"{OFFSETS_TOPIC}-{number}") for number in range(PARTITIONS)]
    groups = [_Group(group_name(number)) for number in range(GROUPS)]
    written = 0
    while written < records:
        group = rng.choice(groups)
        now_ms = START_MS + written // 20
        if rng.random() < 0.015:  # of the batches, which are of three records on average
            some = [group.generation(now_ms)]
        else:
            some = group.commits(rng, written, now_ms)
        logs[group.log].append(some, now_ms)
        if written // 500_000 != (written + len(some)) // 500_000:
            tell(written)
        written += len(some)
    for log in logs:
        log.close()


class _Group:
    """A group that commits: its keys, as they stand in records."""

    def __init__(self, name: str) -> None:
        self.log = coordinator_partition(name, PARTITIONS)
        self._keys = [
            [_field(offset_key(name, f"orders-{topic}-{name[-2:]}", number)) for number in range(PARTITIONS_OF_A_TOPIC)]
            for topic in range(TOPICS_OF_A_GROUP)
        ]
        self._key = _field(group_key(name))
        self._number = 0
        owned = [ConsumerTopicPartitions(topic=f"orders-0-{name[-2:]}", partitions=[0, 1, 2])]
        self._members = [
            GroupMemberValue(
                member_id=f"{name}-consumer-{number}-0b5f6d2e-6b0f-4f0e-9c62-1c1b7a7d4a1{number}",
                client_id=f"{name}-consumer-{number}",
                client_host=f"/10.1.3.{number}",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=encode_subscription(Subscription(topics=[owned[0].topic], owned_partitions=owned)),
                assignment=encode_assignment(Assignment(assigned_partitions=owned)),
            )
            for number in range(4)
        ]

    def commits(self, rng: random.Random, position: int, now_ms: int) -> list[bytes]:
        """Of one to five partitions."""
        keys, first = rng.choice(self._keys), rng.randrange(PARTITIONS_OF_A_TOPIC)
        some = []
        for delta in range(rng.randrange(1, 6)):
            key = keys[(first + delta) % PARTITIONS_OF_A_TOPIC]
            kind = rng.random()
            if kind < 0.007:
                some.append(key + b"\x01\0")
                continue
            metadata = b"app-7@10.1.3.207" if kind > 0.95 else b""
            offset = position * 13 % 1_000_003 + position
            if kind < 0.2:
                value = _OFFSET_AND_EPOCH.pack(4, offset, 12) + bytes([len(metadata) + 1]) + metadata
                value += _TIME.pack(now_ms) + b"\0"
            else:
                value = _OFFSET_AND_EPOCH.pack(3, offset, 12) + len(metadata).to_bytes(2, "big") + metadata
                value += _TIME.pack(now_ms)
            some.append(key + _field(value) + b"\0")
        return some

    def generation(self, now_ms: int) -> bytes:
        """The next one."""
        self._number += 1
        value = GroupValue(
            protocol_type="consumer",
            generation=self._number,
            protocol="range",
            leader=self._members[0].member_id,
            current_state_timestamp=now_ms,
            members=self._members,
        )
        return self._key + _field(encode_group_value(value)) + b"\0"


def _field(content: bytes) -> bytes:
    return encode_varint(len(content)) + content
