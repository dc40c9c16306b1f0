"""Segments that Apache Kafka 4.3 wrote (tests/differential/write_segments.py), read without a broker."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.segment_indexes import read_offset_index
from tests.cli.commands import HERE

KAFKA = Path(__file__).with_name("kafka_4_3")


def test_they_are_sound() -> None:
    found = {row["topic"]: row for row in HERE.json("log", "verify", "--records", KAFKA)}
    assert (found["orders"]["records"], found["orders"]["last_offset"]) == (60, 59)
    assert found["__transaction_state"]["records"] > 10
    assert all(not row["remark"] for row in found.values())


def test_an_index_that_is_filled_in_advance() -> None:
    (path,) = (KAFKA / "orders-0").glob("*.index")
    assert path.stat().st_size == 4096
    assert 1 < len(read_offset_index(path)) < 20


def test_records_of_every_codec() -> None:
    rows = HERE.lines("log", "dump", KAFKA / "orders-0", "--print-data-log")
    assert {row["codec"] for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    records = [record for row in rows for record in row["records"]]
    assert [record["offset"] for record in records] == list(range(60))
    assert records[5] == {
        "offset": 5,
        "timestamp": records[5]["timestamp"],
        "key": "key 5",
        "value": "value 5",
        "headers": [{"name": "h", "value": "x"}],
    }
    assert records[11]["value"] is None
    (row,) = HERE.lines("log", "dump", KAFKA / "orders-0", "--offset", 59)
    assert row["last_offset"] == 59


def test_transactions() -> None:
    rows = HERE.lines("log", "dump", KAFKA / "results-0", "--print-data-log")
    markers = [record["control"] for row in rows for record in row["records"] if "control" in record]
    assert markers == ["COMMIT", "ABORT", "COMMIT"]
    (aborted,) = (KAFKA / "results-0").glob("*.txnindex")
    (entry,) = HERE.lines("log", "dump", aborted)
    assert (entry["first_offset"], entry["last_offset"]) == (2, 3)
    states = [
        record["decoded"]["state"]
        for row in HERE.lines("log", "dump", KAFKA / "__transaction_state-0", "--decode")
        for record in row["records"]
    ]
    assert states[0] == "Empty" and states[-1] == "CompleteCommit"
    assert {"Ongoing", "PrepareCommit", "PrepareAbort", "CompleteAbort"} <= set(states)


def test_groups_of_both_protocols() -> None:
    rows = HERE.lines("offsets", "decode", KAFKA)
    kinds = {row["type"] for row in rows}
    assert {"OffsetCommit", "GroupMetadata", "COMMIT", "ABORT", "ConsumerGroupMetadata"} <= kinds
    assert "ConsumerGroupCurrentMemberAssignment" in kinds and "unreadable" not in kinds
    modern = [row for row in rows if row.get("group") == "modern"]
    assert [row["epoch"] for row in modern if row["type"] == "ConsumerGroupMetadata"] == [2, 3]
    (assignment,) = [row for row in modern if row["type"].endswith("CurrentMemberAssignment") and "deleted" not in row]
    (target,) = [row for row in modern if row["type"].endswith("TargetAssignmentMember") and "deleted" not in row]
    assert (assignment["state"], assignment["member_epoch"], assignment["previous_member_epoch"]) == ("STABLE", 2, 0)
    assert [one["partitions"] for one in assignment["assigned"]] == [one["partitions"] for one in target["target"]]
    (group,) = [row for row in rows if row["type"] == "GroupMetadata" and row.get("members")]
    (member,) = group["members"]
    assert (group["group"], member["group_instance_id"]) == ("classic", "instance-1")
    assert member["assignment"] == [{"topic": "orders", "partitions": [0]}]
    assert "group gone: deleted" in HERE.run("offsets", "decode", KAFKA).stdout


def test_what_is_in_force() -> None:
    rows = HERE.lines("offsets", "decode", KAFKA, "--latest")
    offsets = {row["group"]: row["offset"] for row in rows if row["type"] == "OffsetCommit"}
    # The transaction that was committed last was written before the member's own last commit.
    assert offsets == {"classic": 60, "modern": 60, "alone": 7}
    assert "some metadata\\x00" in HERE.run("offsets", "decode", KAFKA, "--latest").stdout
