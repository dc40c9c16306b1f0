"""Segments that Apache Kafka 4.3 wrote (tests/differential/write_segments.py), read without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ottla.cli.main import command
from ottla.cli.segment_indexes import read_offset_index

KAFKA = Path(__file__).with_name("kafka_4_3")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(command, [str(one) for one in arguments], prog_name="ottla")
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--format", "json").splitlines()]


def test_they_are_sound() -> None:
    found = {row["topic"]: row for row in json.loads(run("log", "verify", "--records", KAFKA, "--format", "json"))}
    assert (found["orders"]["records"], found["orders"]["last_offset"]) == (60, 59)
    assert found["__transaction_state"]["records"] > 10
    assert all(not row["remark"] for row in found.values())


def test_an_index_that_is_filled_in_advance() -> None:
    (path,) = (KAFKA / "orders-0").glob("*.index")
    assert path.stat().st_size == 4096
    assert 1 < len(read_offset_index(path)) < 20


def test_records_of_every_codec() -> None:
    rows = lines("log", "dump", KAFKA / "orders-0", "--print-data-log")
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
    (row,) = lines("log", "dump", KAFKA / "orders-0", "--offset", 59)
    assert row["last_offset"] == 59


def test_transactions() -> None:
    rows = lines("log", "dump", KAFKA / "results-0", "--print-data-log")
    markers = [record["control"] for row in rows for record in row["records"] if "control" in record]
    assert markers == ["COMMIT", "ABORT", "COMMIT"]
    (aborted,) = (KAFKA / "results-0").glob("*.txnindex")
    (entry,) = lines("log", "dump", aborted)
    assert (entry["first_offset"], entry["last_offset"]) == (2, 3)
    states = [
        record["decoded"]["state"]
        for row in lines("log", "dump", KAFKA / "__transaction_state-0", "--decode")
        for record in row["records"]
    ]
    assert states[0] == "Empty" and states[-1] == "CompleteCommit"
    assert {"Ongoing", "PrepareCommit", "PrepareAbort", "CompleteAbort"} <= set(states)


def test_groups_of_both_protocols() -> None:
    rows = lines("offsets", "decode", KAFKA)
    kinds = {row["type"] for row in rows}
    assert {"OffsetCommit", "GroupMetadata", "COMMIT", "ABORT", "ConsumerGroupMetadata"} <= kinds
    assert "ConsumerGroupCurrentMemberAssignment" in kinds and "unreadable" not in kinds
    (group,) = [row for row in rows if row["type"] == "GroupMetadata" and row.get("members")]
    (member,) = group["members"]
    assert (group["group"], member["group_instance_id"]) == ("classic", "instance-1")
    assert member["assignment"] == [{"topic": "orders", "partitions": [0]}]
    assert "group gone: deleted" in run("offsets", "decode", KAFKA)


def test_what_is_in_force() -> None:
    rows = lines("offsets", "decode", KAFKA, "--latest")
    offsets = {row["group"]: row["offset"] for row in rows if row["type"] == "OffsetCommit"}
    # The transaction that was committed last was written before the member's own last commit.
    assert offsets == {"classic": 60, "modern": 60, "alone": 7}
    assert "some metadata\\x00" in run("offsets", "decode", KAFKA, "--latest")
