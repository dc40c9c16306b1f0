"""`ottla log` and `ottla offsets` on a data directory whose last records are in the journal alone."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.journal import journal_batches
from ottla.protocol.stored.journal import JournalView
from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import flip

ottla, lines = HERE.run, HERE.lines
verdicts = partial(HERE.json, "log", "verify")


def values(path: Path, *options: object) -> list[str]:
    rows = lines("log", "dump", path, "--print-data-log", *options)
    return [record["value"] for row in rows if row["topic"] == "orders" for record in row["records"]]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that stopped once in order and was killed the next time, with records of both lives."""
    data = tmp_path_factory.mktemp("journal") / "data"
    broker = BrokerProcess(data, topics={"orders": 1}, settings={"offsets.topic.num.partitions": 2})
    for life in ("one", "two"):
        broker.start()
        client = Ottla(broker.bootstrap_servers)
        client.send("orders", b"".join(b"%s %d\n" % (life.encode(), number) for number in range(50)))
        client.read("orders", "--group", "g", "--exit")
        if life == "one":
            broker.stop()
        else:
            broker.kill()
    return data


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def last_file(data: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The last file of the journal that has frames, and those."""
    paths = sorted((data / "journal").glob("*.wal"), reverse=True)
    return next((path, rows) for path in paths if (rows := lines("log", "dump", path)))


EXPECTED = [f"{life} {number}" for life in ("one", "two") for number in range(50)]


def test_every_acknowledged_record_is_printed(data: Path) -> None:
    assert values(data) == EXPECTED
    assert values(data / "logs" / "orders-0") == EXPECTED
    assert values(data, "--offset", 75) == EXPECTED[75:]
    files = {Path(row["file"]).suffix for row in lines("log", "dump", data / "logs" / "orders-0")}
    assert files == {".log", ".wal"}


def test_the_last_commit_counts(data: Path) -> None:
    rows = [row for row in lines("offsets", "decode", data, "--latest") if row["type"] == "OffsetCommit"]
    assert [(row["group"], row["topic"], row["offset"]) for row in rows] == [("g", "orders", 100)]


def test_frames_of_the_journal(data: Path) -> None:
    path, _ = last_file(data)
    rows = lines("log", "dump", path, "--print-data-log")
    assert [row["lsn"] for row in rows] == sorted(row["lsn"] for row in rows)
    batches = [row for row in rows if row["kind"] == "batch"]
    assert {row["log"] for row in batches} >= {"orders-0"}
    assert any(record.get("value") == "two 49" for row in batches for record in row["records"])
    text = ottla("log", "dump", path, "--print-data-log").stdout
    assert "orders-0" in text and "offset of group g in orders-0: 100" in text


def test_options_hold_for_a_file_of_the_journal(data: Path) -> None:
    path, _ = last_file(data)

    def records(*options: object) -> list[dict[str, Any]]:
        found = lines("log", "dump", path, "--print-data-log", *options)
        return [record for row in found for record in row.get("records", ())]

    assert any("decoded" in record for record in records())
    assert not any("decoded" in record for record in records("--no-decode"))
    assert records("-c", 1) == records()[:1]


def test_a_killed_brokers_directory_is_sound(data: Path) -> None:
    found = verdicts(data)
    assert all(row["ok"] for row in found)
    (journal,) = [row for row in found if row["file"].endswith(".wal")]
    assert journal["batches"] > 1 and "whole frames from lsn" in journal["remark"]


def test_what_the_segments_have_beyond_the_checkpoint_does_not_count(data: Path) -> None:
    (segment,) = (data / "logs" / "orders-0").glob("*.log")
    segment.write_bytes(segment.read_bytes() + b"never synced" * 10)
    assert values(data) == EXPECTED
    (row,) = verdicts(data / "logs" / "orders-0")
    assert row["ok"] and "come from the journal" in row["remark"]


def test_damage_that_the_checkpoint_vouches_for(data: Path) -> None:
    (segment,) = (data / "logs" / "orders-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:100])
    (row,) = verdicts(data / "logs" / "orders-0", expect=1)
    assert not row["ok"]


def test_damage_of_acknowledged_frames_is_found(data: Path) -> None:
    path, frames = last_file(data)
    first = next(row for row in frames if row["kind"] == "batch")
    flip(path, first["position"] + 60)
    (journal,) = [row for row in verdicts(data, expect=1) if row["file"].endswith(".wal")]
    assert journal["faults"][0]["position"] == first["position"]
    assert "what was acknowledged reaches to lsn" in journal["faults"][0]["reason"]


def test_an_unfinished_last_frame_is_no_damage(data: Path) -> None:
    path, frames = last_file(data)
    if frames[-1]["kind"] == "batch":
        flip(path, frames[-1]["position"] + 45)
    assert all(row["ok"] for row in verdicts(data))


def test_tail_follows_the_journal(tmp_path: Path) -> None:
    from ottla.cli.log_tail import Follower
    from ottla.cli.stored_logs import stored_logs

    broker = BrokerProcess(tmp_path / "data", topics={"orders": 1})
    broker.start()
    try:
        client = Ottla(broker.bootstrap_servers)
        client.send("orders", b"before\n")
        (log,) = [log for log in stored_logs(tmp_path / "data") if log.partition.topic == "orders"]
        follower = Follower(log.partition, from_beginning=False)
        assert not list(follower.poll())
        for word in (b"one\n", b"two\n"):
            client.send("orders", word)
            (batch,) = follower.poll()
            assert batch.header.record_count == 1
        assert not list(follower.poll())
        assert [row["ok"] for row in verdicts(tmp_path / "data")]
    finally:
        broker.kill()
    everything = Follower(log.partition, from_beginning=True).poll()
    assert [batch.header.base_offset for batch in everything] == [0, 1, 2]


def test_a_later_look_reads_only_what_is_new(data: Path) -> None:
    first = JournalView(data)
    assert first.followed.places
    later = JournalView(data, first.followed).followed
    assert (later.frame_count, later.names) == (0, first.followed.names)


@pytest.mark.parametrize("byte", [None, 6])
def test_a_file_of_the_journal_may_be_recycled_while_it_is_read(data: Path, byte: int | None) -> None:
    """It may be gone, or hold a batch of another log by then."""
    journal = JournalView(data)
    place = journal.followed.places["orders-0"][0]
    if byte is None:
        place.path.rename(place.path.with_suffix(".spare"))
    else:
        flip(place.path, place.position + byte)
    assert list(journal_batches(journal, "orders-0", 0)) == []


def test_a_directory_that_was_closed_has_nothing_in_the_journal(data: Path) -> None:
    broker = BrokerProcess(data)
    broker.start()
    broker.stop()
    assert not [row for row in verdicts(data) if row["file"].endswith(".wal")]
    assert values(data) == EXPECTED
    assert {Path(row["file"]).suffix for row in lines("log", "dump", data)} == {".log"}


def test_records_that_no_segment_has_yet_are_counted(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", topics={"big": 1})
    broker.start()
    Ottla(broker.bootstrap_servers).send("big", b"".join(b"%d\n" % number for number in range(30)))
    broker.kill()
    found = [row for row in verdicts(tmp_path / "data") if row["topic"] == "big"]
    assert sum(row["records"] + (row["records_in_journal"] or 0) for row in found) == 30
    assert "IN JOURNAL" in ottla("log", "verify", tmp_path / "data").stdout
    rows = [row for row in lines("log", "dump", tmp_path / "data") if row["topic"] == "big"]
    assert rows and all(row["in_journal"] for row in rows)
    assert "(in the journal, not yet in a segment)" in ottla("log", "dump", tmp_path / "data").stdout
    directory = tmp_path / "data" / "logs" / "big-0"
    shutil.rmtree(directory, ignore_errors=True)
    words = ottla("log", "dump", directory, expect=1).stderr
    assert f"in the journal. Print them with:\n  ottla log dump {tmp_path / 'data'} --print-data-log" in words
    ottla("log", "dump", tmp_path / "data" / "logs" / "absent-0", expect=2)


def test_a_file_of_something_else_is_no_segment(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some text\n" * 20)
    assert "is no segment" in ottla("log", "verify", tmp_path / "notes.txt", expect=1).stderr
