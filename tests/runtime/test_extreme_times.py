"""Times and lengths of time as far from now as 64 bits can say: what is made of them, from Produce to compaction."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.protocol.batch import ATTRIBUTES_AT, CRC_AT, NO_TIMESTAMP, batch_crc
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.records import Record
from tests.handlers.conftest import NOW_MS
from tests.runtime.conftest import CleaningWorld
from tests.support.batches import build_batch

LEAST, MOST = -(2**63), 2**63 - 1
WALKED, MANY = 3, 40
"""Records of a batch that is looked at record by record, and of one that is not."""
EDGES = [LEAST, LEAST + 1, -2, NO_TIMESTAMP, 0, 1, NOW_MS, MOST - NOW_MS, MOST - 1, MOST]

any_time = st.sampled_from(EDGES) | st.integers(LEAST, MOST)
any_length = st.sampled_from([0, 1, 3_600_000, MOST - NOW_MS, MOST - 1, MOST])


def batch(base_ms: int, deltas_ms: Sequence[int], max_ms: int, **options: Any) -> bytes:
    """Records with nothing but times, tombstones among them; the header says what it is told to."""
    records = [Record(0, delta, b"%d" % (index % 3), b"v" if index % 2 else None) for index, delta in
               enumerate((0, *deltas_ms))]  # fmt: skip
    made = bytearray(build_batch(records, **options))
    struct.pack_into(">qq", made, 27, base_ms, max_ms)
    made[CRC_AT:ATTRIBUTES_AT] = batch_crc(made).to_bytes(4, "big")
    return bytes(made)


async def story(batches: list[bytes], looked_for: list[int], lengths: dict[str, int], policy: str) -> None:
    """Produce, search, forget and compact. Every answer is one, and what is kept keeps its time."""
    world = await CleaningWorld().start()
    topic = await world.topic(cleanup_policy=policy, **lengths)
    for data in batches:
        row = world.produced(data)
        assert row.error_code in (ErrorCode.NONE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
    before = read(world)
    await search(world, looked_for)
    for _ in range(2):
        await world.log_of().roll()
        world.write((b"filler", b"x"), at_ms=world.wall)
        await world.cleaner.drop_expired()
        topic.config = dataclasses.replace(topic.config, compacted=True)
        await world.compact_all()
        # Where every record is looked at, none has a time beyond 64 bits.
        assert not world.cleaner.uncleanable or max(before.values()) > MOST or min(before.values()) < LEAST
        assert not world.events("a log could not be compacted")
        assert {offset: at for offset, at in read(world).items() if offset in before}.items() <= before.items()
        await search(world, looked_for)
        world.advance(1)


def read(world: CleaningWorld) -> dict[int, int]:
    """Offset → timestamp of every record that is there."""
    return {record.offset: record.timestamp_ms for record in world.records()}


async def search(world: CleaningWorld, looked_for: list[int]) -> None:
    for version in (1, 11):
        wanted = [ListOffsetsPartition(partition_index=0, timestamp=at) for at in looked_for]
        for each in wanted:
            asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[each])])
            answer = await world.ask(asked, version)
            assert answer.topics[0].partitions[0].error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)


@st.composite
def produced(draw: st.DrawFn) -> bytes:
    deltas = draw(st.lists(any_time, min_size=WALKED - 1, max_size=WALKED - 1))
    if draw(st.booleans()):
        deltas += [0] * (MANY - WALKED)
    return batch(draw(any_time), deltas, draw(any_time))


ALLOWED = {"message_timestamp_after_max_ms": MOST, "delete_retention_ms": MOST, "retention_ms": MOST}


@example([batch(NOW_MS, [0], NOW_MS)], [], ALLOWED, "compact")
@example([batch(LEAST, [LEAST], LEAST)], [], {}, "delete")
@example([batch(LEAST, [0] * MANY, NOW_MS)], [LEAST], ALLOWED, "delete")
@example([batch(MOST, [1] * MANY, MOST)], [MOST, NOW_MS], ALLOWED, "delete")
@given(
    st.lists(produced(), min_size=1, max_size=3),
    st.lists(any_time, max_size=2),
    st.fixed_dictionaries(
        {
            "delete_retention_ms": any_length,
            "message_timestamp_after_max_ms": any_length,
            "message_timestamp_before_max_ms": any_length,
            "retention_ms": any_length,
        }
    ),
    st.sampled_from(["compact", "delete", "compact,delete"]),
)
def test_no_time_is_too_far_away(
    batches: list[bytes], looked_for: list[int], lengths: dict[str, int], policy: str
) -> None:
    asyncio.run(story(batches, [-3, *looked_for], lengths, policy))
