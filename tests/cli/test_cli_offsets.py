"""`ottla offsets decode`: `__consumer_offsets` from files and from a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.internal_records import OTHER_TYPES, described, in_words
from ottla.cli.offsets import Entry, in_force
from ottla.protocol.batch import Record
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.control import EndOfTransaction, build_marker
from ottla.protocol.offsets_topic import (
    GroupMemberValue,
    GroupValue,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)
from ottla.protocol.transaction_log import (
    TransactionLogPartitions,
    TransactionLogValue,
    TransactionStatus,
    encode_transaction_value,
    transaction_key,
)
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import NOW_MS, flip, write_log
from tests.support.batches import build_batch

ottla = HERE.run
rows = partial(HERE.lines, "offsets", "decode")
OFFSETS = "__consumer_offsets"


def offset_value(offset: int, **options: Any) -> bytes:
    return encode_offset_value(OffsetValue(offset=offset, commit_timestamp=NOW_MS, **options))


def commit(group: str, partition: int, offset: int | None, **options: Any) -> Record:
    value = None if offset is None else offset_value(offset, **options)
    return Record(0, NOW_MS, offset_key(group, "orders", partition), value)


def generation(group: str, number: int) -> Record:
    assigned = Assignment(assigned_partitions=[ConsumerTopicPartitions(topic="orders", partitions=[0, 2])])
    member = GroupMemberValue(
        member_id="m-1",
        group_instance_id="i-1",
        client_id="c",
        client_host="/10.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=10_000,
        subscription=encode_subscription(Subscription(topics=["orders"])),
        assignment=encode_assignment(assigned),
    )
    value = GroupValue(protocol_type="consumer", generation=number, protocol="range", leader="m-1", members=[member])
    return Record(0, NOW_MS, group_key(group), encode_group_value(value))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions of the topic, and another topic."""
    logs = tmp_path / "logs"
    write_log(logs / f"{OFFSETS}-3", [[generation("g", 1)], [commit("g", 0, 10), commit("g", 1, 11)]])
    write_log(logs / f"{OFFSETS}-3", [[commit("g", 0, 20, metadata="note")], [commit("g", 1, None)]], base_offset=3)
    write_log(logs / f"{OFFSETS}-12", [[commit("other", 0, 5, leader_epoch=4)]])
    write_log(logs / "orders-0", [[Record(0, NOW_MS, b"k", b"v")]])
    return tmp_path


def test_every_record_in_order(data: Path) -> None:
    found = rows(data)
    assert [(row["log_partition"], row["log_offset"], row["type"], row["group"]) for row in found] == [
        (3, 0, "GroupMetadata", "g"),
        (3, 1, "OffsetCommit", "g"),
        (3, 2, "OffsetCommit", "g"),
        (3, 3, "OffsetCommit", "g"),
        (3, 4, "OffsetCommit", "g"),
        (12, 0, "OffsetCommit", "other"),
    ]
    (member,) = found[0]["members"]
    assert (member["member_id"], member["group_instance_id"], member["topics"]) == ("m-1", "i-1", ["orders"])
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 2]}]
    assert (found[1]["topic"], found[1]["partition"], found[1]["offset"]) == ("orders", 0, 10)
    assert found[4]["deleted"] and "offset" not in found[4]
    assert found[5]["leader_epoch"] == 4


def test_in_words(data: Path) -> None:
    text = ottla("offsets", "decode", data).stdout
    assert "group g: generation 1, 1 member, protocol range" in text
    assert "m-1 (instance i-1) on /10.0.0.1 leads: orders 0,2" in text
    assert "offset of group g in orders-0: 20, metadata 'note'" in text
    assert "offset of group g in orders-1: deleted" in text
    assert "offset of group other in orders-0: 5, epoch 4" in text


def test_what_is_in_force(data: Path) -> None:
    found = rows(data, "--latest")
    assert [(row["type"], row["group"], row.get("partition"), row.get("offset")) for row in found] == [
        ("GroupMetadata", "g", None, None),
        ("OffsetCommit", "g", 0, 20),
        ("OffsetCommit", "other", 0, 5),
    ]
    lines = ottla("offsets", "decode", data, "--latest").stdout.splitlines()
    assert [line.split()[:4] for line in lines[-2:]] == [["g", "orders", "0", "20"], ["other", "orders", "0", "5"]]


def test_one_group(data: Path) -> None:
    assert {row["group"] for row in rows(data, "--group", "other")} == {"other"}
    assert [row["offset"] for row in rows(data, "--group", "other", "--latest")] == [5]
    assert rows(data, "--group", "absent") == []
    assert "nothing in force" in ottla("offsets", "decode", data, "-G", "absent", "--latest").stderr


def test_a_group_without_records_is_told(data: Path) -> None:
    done = ottla("offsets", "decode", data, "-G", "absent")
    assert (done.stdout, done.stderr) == ("", "There is no record of group 'absent'.\n")
    assert ottla("offsets", "decode", data, "-G", "g").stderr == ""


@pytest.mark.parametrize("options", [(), ("--latest",), ("--group", "g")])
def test_records_of_another_topic_are_a_failure(data: Path, options: tuple[str, ...]) -> None:
    done = ottla("offsets", "decode", data / "logs" / "orders-0", *options, expect=1)
    assert f"Not one record there is of {OFFSETS}" in done.stderr


def test_a_single_segment_wherever_it_lies(data: Path, tmp_path: Path) -> None:
    copied = tmp_path / "dump.log"
    copied.write_bytes((data / "logs" / f"{OFFSETS}-12" / f"{0:020d}.log").read_bytes())
    assert [row["group"] for row in rows(copied)] == ["other"]


def test_a_directory_without_the_topic(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        write_log(tmp_path / name, [])
    assert f"There is no {OFFSETS}" in ottla("offsets", "decode", tmp_path, expect=1).stderr


def test_damage_is_named_and_the_rest_is_read(data: Path) -> None:
    flip(data / "logs" / f"{OFFSETS}-3" / f"{0:020d}.log", 100)
    result = ottla("offsets", "decode", data, "--latest", expect=1)
    assert "Not everything could be read" in result.stderr and "byte 0: the CRC" in result.stderr
    assert "other" in result.stdout and "note" in result.stdout


def entry(offset: int, group: str, committed: int | None, producer_id: int = -1, marker: str = "") -> Entry:
    record = commit(group, 0, committed)
    return Entry(0, offset, NOW_MS, record.key, record.value, producer_id, marker)


def marker(partition: int, offset: int, producer_id: int, kind: str) -> Entry:
    return Entry(partition, offset, NOW_MS, b"", b"", producer_id, kind)


OPEN = entry(0, "a", 1, producer_id=7)
FOUR = [
    entry(0, "a", 1),
    entry(1, "a", 2, producer_id=7),
    entry(2, "b", 3, producer_id=8),
    entry(3, "c", 4, producer_id=9),
]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(FOUR, {"a": 1}, id="open transactions do not count"),
        pytest.param(
            [*FOUR, marker(0, 4, 7, "COMMIT"), marker(0, 5, 8, "ABORT")], {"a": 2}, id="they count when they commit"
        ),
        pytest.param([OPEN, marker(1, 0, 7, "COMMIT")], {}, id="those of another partition stay open"),
        pytest.param([OPEN, entry(1, "a", 2), marker(0, 2, 7, "COMMIT")], {"a": 2}, id="a later commit wins"),
        pytest.param([OPEN, entry(1, "a", None), marker(0, 2, 7, "COMMIT")], {}, id="a tombstone takes what waits"),
    ],
)
def test_transactions_in_force(entries: list[Entry], expected: dict[str, int]) -> None:
    assert [(row["group"], row["offset"]) for row in in_force(entries)] == list(expected.items())


def test_transactions_in_files(tmp_path: Path) -> None:
    pending = build_batch([commit("g", 0, 6)], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end = build_marker(EndOfTransaction(False, 0), producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS)
    write_log(tmp_path / f"{OFFSETS}-0", [[commit("g", 0, 5)], pending, end])
    _, second, third = rows(tmp_path / f"{OFFSETS}-0")
    assert (second["offset"], second["producer_id"]) == (6, 7)
    assert (third["type"], third["producer_id"]) == ("ABORT", 7)
    assert [row["offset"] for row in rows(tmp_path / f"{OFFSETS}-0", "--latest")] == [5]
    text = ottla("offsets", "decode", tmp_path / f"{OFFSETS}-0").stdout
    assert "(producer 7)" in text and "ABORT of producer 7" in text


# -- records of any kind


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_other_group_protocols_are_named(kind: int) -> None:
    key = kind.to_bytes(2, "big") + b"\x00\x02g1" + b"\x00\x02m1"
    row = described(OFFSETS, key, b"\0\0anything")
    assert (row["type"], row["group"], row["value_bytes"]) == (OTHER_TYPES[kind], "g1", 10)
    assert row.get("member_id") == ("m1" if "Member" in OTHER_TYPES[kind] else None)
    assert OTHER_TYPES[kind] in in_words(row) and "g1" in in_words(row)
    assert "deleted" in in_words(described(OFFSETS, key, None))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"\0", b"x"),
        (b"\0\1\0\5ab", b""),
        (b"\0\1" + b"\0\1g\0\1t\0\0\0\0", b"\0\x63"),
        (b"\0\2\0\1g", b"\0\3"),
        (b"\0\3\0\x05g", b"x"),
        (b"\0\3\0\1\xff", b"x"),
        (b"\0\x05\0\1g", b"x"),
        (b"\0\x08\0\1g\0\1m", b"\0\0\0\0"),
        (b"\0\x10\0\1g\0\1r", b"\0\1"),
        (b"\x7f\xff", b"x"),
        (b"\xff\xff", None),
    ],
)
def test_nothing_is_fatal(key: bytes | None, value: bytes | None) -> None:
    for topic in (OFFSETS, "__transaction_state"):
        row = described(topic, key, value)
        assert row["type"] and in_words(row)
        json.dumps(row)


ID = "0102030405060708090a0b0c0d0e0f10"
ORDERS = "01020304-0506-0708-090a-0b0c0d0e0f10"


@pytest.mark.parametrize(
    ("key", "value", "expected", "words"),
    [
        (
            "0003000167",
            "0000000000020100087182b63b37dbcc4c",
            {"type": "ConsumerGroupMetadata", "group": "g", "epoch": 2, "metadata_hash": 8179300238714719308},
            "consumer group g: epoch 2, topics hash to 8179300238714719308",
        ),
        (
            "0003000167",
            "00000000000200",
            {"type": "ConsumerGroupMetadata", "group": "g", "epoch": 2, "metadata_hash": 0},
            "consumer group g: epoch 2, no topics",
        ),
        (
            "0004000167",
            f"0000 02 {ID} 027400000003 02 00000000 02 0372 31 00 00 00".replace(" ", ""),
            {
                "type": "ConsumerGroupPartitionMetadata",
                "group": "g",
                "topics": [
                    {
                        "topic_id": ORDERS,
                        "topic": "t",
                        "partitions": 3,
                        "racks": [{"partition": 0, "racks": ["r1"]}],
                    }
                ],
            },
            "topics of consumer group g: t (3 partitions)",
        ),
        (
            "000500016700016d",
            "0000000002630b2f3132372e302e302e3102027401000493e000010012010000afc8020672616e6765040102030000",
            {
                "type": "ConsumerGroupMemberMetadata",
                "group": "g",
                "member_id": "m",
                "group_instance_id": None,
                "rack_id": None,
                "client_id": "c",
                "client_host": "/127.0.0.1",
                "topics": ["t"],
                "regex": "",
                "rebalance_timeout_ms": 300_000,
                "assignor": None,
                "classic": {"session_timeout_ms": 45_000, "protocols": ["range"]},
            },
            "member m of consumer group g: on /127.0.0.1, subscribes to t; classic protocol (range)",
        ),
        (
            "0006000167",
            "0000000000020100080000018bcfe56800",
            {
                "type": "ConsumerGroupTargetAssignmentMetadata",
                "group": "g",
                "assignment_epoch": 2,
                "assignment_timestamp": 1_700_000_000_000,
            },
            "target of consumer group g: epoch 2, computed 2023-11-14T22:13:20.000Z",
        ),
        (
            "000700016700016d",
            f"000002{ID}040000000000000001000000020000",
            {
                "type": "ConsumerGroupTargetAssignmentMember",
                "group": "g",
                "member_id": "m",
                "target": [{"topic_id": ORDERS, "partitions": [0, 1, 2]}],
            },
            f"target of member m of consumer group g: {ORDERS} 0,1,2",
        ),
        (
            "000800016700016d",
            f"00000000000200000002 01 02{ID}02 00000000 01000502 00000002 02{ID}03 00000001 00000002 01000903 00000002"
            " 00000002 00".replace(" ", ""),
            {
                "type": "ConsumerGroupCurrentMemberAssignment",
                "group": "g",
                "member_id": "m",
                "member_epoch": 2,
                "previous_member_epoch": 2,
                "state": "UNREVOKED_PARTITIONS",
                "assigned": [{"topic_id": ORDERS, "partitions": [0], "assignment_epochs": [2]}],
                "pending_revocation": [{"topic_id": ORDERS, "partitions": [1, 2], "assignment_epochs": [2, 2]}],
            },
            f"assignment of member m of consumer group g: epoch 2 (before 2), UNREVOKED_PARTITIONS: {ORDERS} 0; "
            f"has to give up {ORDERS} 1,2",
        ),
        (
            "00100001670003742e2a",
            "0000030274037432000000000000002a0000018bcfe5680000",
            {
                "type": "ConsumerGroupRegularExpression",
                "group": "g",
                "regex": "t.*",
                "topics": ["t", "t2"],
                "version": 42,
                "resolved_timestamp": 1_700_000_000_000,
            },
            "regex t.* of consumer group g: t, t2, resolved 2023-11-14T22:13:20.000Z",
        ),
    ],
)
def test_records_of_consumer_groups(key: str, value: str, expected: dict[str, Any], words: str) -> None:
    row = described(OFFSETS, bytes.fromhex(key), bytes.fromhex(value))
    assert row == expected
    assert in_words(row) == words
    assert in_words(described(OFFSETS, bytes.fromhex(key), None)) == f"{words.split(': ')[0]}: deleted"


def test_members_whose_bytes_mean_nothing() -> None:
    member = GroupMemberValue(member_id="m", subscription=b"\xff", assignment=b"\0")
    for protocol_type in ("consumer", "connect"):
        value = encode_group_value(GroupValue(protocol_type=protocol_type, protocol="p", members=[member]))
        (row,) = described(OFFSETS, group_key("g"), value)["members"]
        assert (row["subscription_bytes"], row["assignment_bytes"]) == (1, 1)


def test_transaction_metadata() -> None:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_status=TransactionStatus.PREPARE_COMMIT,
        transaction_partitions=[TransactionLogPartitions(topic="orders", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=NOW_MS,
    )
    row = described("__transaction_state", transaction_key("tx"), encode_transaction_value(value))
    assert (row["transactional_id"], row["state"], row["producer_id"]) == ("tx", "PrepareCommit", 7)
    assert row["partitions"] == [{"topic": "orders", "partitions": [0, 3]}]
    assert in_words(row) == "transactional id tx: PrepareCommit, producer 7 epoch 2, orders 0,3"
    assert in_words(described("__transaction_state", transaction_key("tx"), None)) == "transactional id tx: deleted"


def test_the_transaction_log_is_decoded_by_dump(tmp_path: Path) -> None:
    value = encode_transaction_value(TransactionLogValue(producer_id=1, transaction_partitions=None))
    record = Record(0, NOW_MS, transaction_key("tx"), value)
    write_log(tmp_path / "__transaction_state-4", [[record]])
    text = ottla("log", "dump", tmp_path / "__transaction_state-4", "--decode").stdout
    assert "transactional id tx: Empty, producer 1" in text
    raw = ottla("log", "dump", tmp_path / "__transaction_state-4", "--print-data-log", "--no-decode").stdout
    assert "transactional id" not in raw and 'key "' in raw


def test_a_running_broker(ottla_broker_factory: Callable[..., Any]) -> None:
    broker = ottla_broker_factory(topics={"orders": 1})
    client = Ottla(broker.bootstrap_servers)
    client.send("orders", b"a\nb\nc\n")
    client.read("orders", "--group", "g", "--exit")
    (row,) = [row for row in rows("-b", broker.bootstrap_servers, "--latest") if row["type"] == "OffsetCommit"]
    assert (row["group"], row["topic"], row["partition"], row["offset"]) == ("g", "orders", 0, 3)
    assert rows("-b", broker.bootstrap_servers, "--group", "nobody") == []
