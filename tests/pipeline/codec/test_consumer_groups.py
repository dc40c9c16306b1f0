"""Records of consumer groups: what Kafka's schemas say they are, and what of them cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.pipeline.codec import decode, walk
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import TIME, rows_in_ms
from tests.support.batches import build_batch

TOPIC = "__consumer_offsets"
ID = "0102030405060708090a0b0c0d0e0f10"
ORDERS = "01020304-0506-0708-090a-0b0c0d0e0f10"
PLACE = {"log_partition": 4, "log_offset": 0, "log_ts": TIME}


def record(key: str, value: str | None) -> Record:
    return Record(key=bytes.fromhex(key), value=None if value is None else bytes.fromhex(value), timestamp_ms=TIME)


def rows_of(kind: str, *some: Record) -> list[dict[str, Any]]:
    return rows_in_ms(decode(kind, walk(build_batch(some), topic=TOPIC, partition=4)))


def of(*partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": ORDERS, "partition": partition} for partition in partitions]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "0003000167",
            "0000000000020100087182b63b37dbcc4c",
            {"record": "group_epoch", "epoch": 2, "metadata_hash": 8179300238714719308},
        ),
        ("0003000167", "00000000000200", {"record": "group_epoch", "epoch": 2, "metadata_hash": 0}),
        (
            "000500016700016d",
            "0000000002630b2f3132372e302e302e3102027401000493e000010012010000afc8020672616e6765040102030000",
            {
                "record": "member",
                "member_id": "m",
                "client_id": "c",
                "client_host": "/127.0.0.1",
                "topics": ["t"],
                "rebalance_timeout_ms": 300_000,
                "session_timeout_ms": 45_000,
                "is_classic": True,
            },
        ),
        (
            "0006000167",
            "0000000000020100080000018bcfe56800",
            {"record": "target_epoch", "epoch": 2, "computed_at": 1_700_000_000_000},
        ),
        ("0006000167", "00000000000200", {"record": "target_epoch", "epoch": 2}),
        (
            "000700016700016d",
            f"000002{ID}040000000000000001000000020000",
            {"record": "target", "member_id": "m", "partitions": of(0, 1, 2)},
        ),
        ("000700016700016d", "00000100", {"record": "target", "member_id": "m", "partitions": []}),
        (
            "000800016700016d",
            f"0000000000020000000201 02{ID}0200000000010005020000000202{ID}0300000001000000020100090300000002"
            "0000000200",
            {
                "record": "assignment",
                "member_id": "m",
                "epoch": 2,
                "previous_epoch": 2,
                "state": "UNREVOKED_PARTITIONS",
                "partitions": of(0),
                "to_revoke": of(1, 2),
            },
        ),
        (
            "00100001670003742e2a",
            "0000030274037432000000000000002a0000018bcfe5680000",
            {"record": "regex", "regex": "t.*", "topics": ["t", "t2"], "computed_at": 1_700_000_000_000},
        ),
    ],
)
def test_golden_bytes(key: str, value: str, said: dict[str, Any]) -> None:
    """They are in their table and nowhere else; what a record does not say is NULL, and so is all of a tombstone."""
    named = {name: said[name] for name in ("record", "member_id") if name in said}
    if said["record"] == "regex":
        named["regex"] = said["regex"]
    for body, expected, is_tombstone in ((value, said, False), (None, named, True)):
        (row,) = rows_of("consumer_groups", record(key, body))
        found = {name: one for name, one in row.items() if one is not None}
        assert found == {**PLACE, "group_id": "g", "is_tombstone": is_tombstone, **expected}
        assert rows_of("quarantine", record(key, body)) == rows_of("groups", record(key, body)) == []


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("000300016700", "00000000000200", "1 bytes behind the key"),
        ("0003000167", "0000000000020000", "bytes behind the value"),
        ("0003000167", "000100000002", "value: ConsumerGroupMetadataValue has no version 1"),
        ("00080001670001", None, "key: ConsumerGroupCurrentMemberAssignmentKey.member_id"),
        ("0003000000", "00", "key"),
        ("000b000167", "00000000000200", "key type 11, of nothing that is known here"),
    ],
)
def test_what_cannot_be_read_is_kept_with_the_reason(key: str, value: str | None, error: str) -> None:
    assert rows_of("consumer_groups", record(key, value)) == []
    (row,) = rows_of("quarantine", record(key, value))
    assert error in row["error"] and row["key"] == bytes.fromhex(key)
