"""``consumer_rebalances``, of the log that a coordinator wrote and of records of a conversion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from ottla.pipeline.codec import decode, schema, walk
from ottla.pipeline.gold import build
from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import dataset
from ottla.pipeline.tables import TABLES
from ottla.protocol import consumer_group_records as wire
from ottla.protocol.offsets_topic import GroupValue, encode_group_value, group_key
from ottla.protocol.records import Record
from tests.core.consumer_groups.modern_scenario import ConsumerPlay
from tests.pipeline.codec.logs import TIME
from tests.pipeline.generator import write_silver
from tests.support.batches import build_batch

Batch = tuple[int, Sequence[tuple[bytes, bytes | None]]]
TOPIC = UUID(int=1)
TABLE = TABLES["consumer_rebalances"]
KINDS = {"groups": "group_generations", "consumer_groups": "consumer_group_changes"}

RUN = [
    "beat A join",
    "advance 1s",
    "beat B join",
    "advance 2s",
    "beat A",
    "advance 3s",
    "beat A owned=t-0",
    "advance 1s",
    "beat B",
]
"""The run of KIP-848's text: B comes, A gives a partition up, B gets it."""
MORE = [
    "advance 1s",
    "beat B names=t,u",
    "beat B",
    "topic t 4",
    "advance 1s",
    "beat A",
    "advance 1s",
    "beat B leave",
    "advance 1s",
    "beat A",
    "advance 1s",
    "beat A leave",
    "advance 1s",
    "beat C join",
]


def played(steps: Sequence[str]) -> list[Batch]:
    """What a coordinator writes: a batch for each append, at the time of the step."""
    play, found = ConsumerPlay(), []
    play.step("topic t 2")
    for step in steps:
        before = len(play.world.log)
        play.step(step)
        if some := [(record.key, record.value) for _, record in play.world.log[before:]]:
            found.append((TIME + play.world.now_ms, some))
    return found


def key(made: Any) -> bytes:
    return wire.encode_consumer_group_key(made)


def value(made: Any) -> bytes:
    return wire.encode_consumer_group_value(made)


def epoch(number: int | None, group: str) -> tuple[bytes, bytes | None]:
    said = None if number is None else value(wire.ConsumerGroupMetadataValue(epoch=number))
    return key(wire.ConsumerGroupMetadataKey(group_id=group)), said


def target_epoch(number: int | None, group: str) -> tuple[bytes, bytes | None]:
    said = None
    if number is not None:
        said = value(wire.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number))
    return key(wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group)), said


def member(name: str, group: str, *, gone: bool = False) -> tuple[bytes, bytes | None]:
    said = wire.ConsumerGroupMemberMetadataValue(
        client_id=name, subscribed_topic_regex="", classic_member_metadata=None
    )
    named = wire.ConsumerGroupMemberMetadataKey(group_id=group, member_id=name)
    return key(named), None if gone else value(said)


def assignment(name: str, group: str, number: int | None, state: int = 0) -> tuple[bytes, bytes | None]:
    said = wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=number or 0, previous_member_epoch=0, state=state
    )
    named = wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=name)
    return key(named), None if number is None else value(said)


def classic(generation: int | None, group: str) -> tuple[bytes, bytes | None]:
    said = GroupValue(protocol_type="consumer", generation=generation or 0)
    return group_key(group), None if generation is None else encode_group_value(said)


def converted(group: str) -> list[Batch]:
    """A classic group of B is upgraded by A, and goes back when A leaves (the order of 6.3)."""
    upgrade = [
        classic(None, group),
        member("B", group),
        epoch(7, group),
        target_epoch(7, group),
        assignment("B", group, 7),
        member("A", group),
        epoch(8, group),
        target_epoch(8, group),
        assignment("A", group, 8, 2),
    ]
    downgrade = [
        assignment("A", group, None),
        assignment("B", group, None),
        target_epoch(None, group),
        member("A", group, gone=True),
        member("B", group, gone=True),
        epoch(None, group),
        classic(8, group),
    ]
    return [
        (TIME, [classic(7, group)]),
        (TIME + 1_000, upgrade),
        (TIME + 3_000, [assignment("B", group, 7, 1)]),
        (TIME + 8_000, [assignment("B", group, 8)]),
        (TIME + 9_000, [assignment("A", group, 8)]),
        (TIME + 60_000, downgrade),
    ]


def silver(batches: Sequence[Batch], partition: int) -> dict[str, pa.Table]:
    tables: dict[str, list[pa.RecordBatch]] = {name: [] for name in KINDS.values()}
    offset = 0
    for at_ms, records in batches:
        some = [Record(key=one, value=said, timestamp_ms=at_ms) for one, said in records]
        chunk = walk(build_batch(some, base_offset=offset), topic="__consumer_offsets", partition=partition)
        offset += len(some)
        for kind, name in KINDS.items():
            tables[name].append(decode(kind, chunk))
    return {name: pa.Table.from_batches(rows, schema(kind)) for kind, name in KINDS.items() for rows in [tables[name]]}


def rows(lake: Path) -> list[dict[str, Any]]:
    found = dataset(Lake(str(lake)).where(TABLE.name), TABLE).to_table().to_pylist()
    return sorted(found, key=lambda row: (row["cluster_id"], row["log_offset"]))


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    wanted = ("kind", "cause", "trigger_member", "epoch_before", "epoch", "outcome", "duration_ms", "members")
    return tuple(row[name] for name in wanted)


def test_what_records_tell(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_silver(lake, silver(played([*RUN, *MORE]), 3), "run")
    write_silver(lake, silver(converted("moved"), 4), "moved")
    write_silver(lake, silver(played(RUN[:5]), 3), "half")
    build(spark, Lake(str(lake)))
    found = rows(lake)
    run = [row for row in found if row["cluster_id"] == "run"]
    assert [shown(row) for row in run] == [
        ("rebalance", "member-joined", "A", None, 2, "stable", 0, 1),
        ("rebalance", "member-joined", "B", 2, 3, "stable", 6_000, 2),
        ("rebalance", "subscription-changed", "B", 3, 4, "superseded", None, 2),
        ("rebalance", "topic-metadata-changed", None, 4, 5, "superseded", None, 2),
        ("rebalance", "member-left", "B", 5, 6, "stable", 1_000, 1),
        ("rebalance", "member-left", "A", 6, 7, "empty", 0, 0),
        ("rebalance", "member-joined", "C", 7, 8, "stable", 0, 1),
    ]
    second = run[1]
    assert (second["slowest_member"], second["revoked_by"], second["revocation_ms"]) == ("B", "A", 3_000)
    assert second["moved_members"] == 2
    moved = [row for row in found if row["cluster_id"] == "moved"]
    assert [shown(row) for row in moved] == [
        ("upgrade", "group-upgraded", None, None, 7, "stable", 0, 1),
        ("rebalance", "member-joined", "A", 7, 8, "stable", 8_000, 2),
        ("downgrade", "group-downgraded", None, 8, 8, "stable", 0, 0),
    ]
    assert (moved[1]["slowest_member"], moved[1]["revoked_by"], moved[1]["revocation_ms"]) == ("A", "B", 5_000)
    assert [shown(row)[-3:] for row in found if row["cluster_id"] == "half"] == [("stable", 0, 1), ("running", None, 2)]
    build(spark, Lake(str(lake)), since=date(2023, 11, 14))
    assert rows(lake) == found
