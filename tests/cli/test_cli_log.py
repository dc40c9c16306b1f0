"""`ottla log`: segment files read, checked and followed without a broker."""

from __future__ import annotations

import fcntl
import json
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.log import Enough, Wish, follow
from ottla.cli.log_tail import Follower
from ottla.cli.segments import find_partitions
from ottla.protocol.compression import Codec
from ottla.protocol.control import EndOfTransaction, build_marker
from ottla.testing.broker import Broker
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import NOW_MS, flip, records, write_log
from tests.support.batches import build_batch

ottla, rows = HERE.run, HERE.lines
verdicts = partial(HERE.json, "log", "verify")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of two segments: offsets 0–2 and 3–5 in batches, then 6."""
    path = tmp_path / "orders-1"
    write_log(path, [records(b"a", b"b", b"c"), records(b"d", b"e", None, start_ms=NOW_MS + 60_000)])
    write_log(path, [records(b"\xff", key=None, start_ms=NOW_MS + 120_000)], base_offset=6)
    return path


# -- dump


def test_batches_segment_by_segment(directory: Path) -> None:
    found = rows("log", "dump", directory)
    assert [(row["base_offset"], row["last_offset"], row["record_count"]) for row in found] == [
        (0, 2, 3),
        (3, 5, 3),
        (6, 6, 1),
    ]
    assert {(row["topic"], row["partition"]) for row in found} == {("orders", 1)}
    assert [row["position"] for row in found] == [0, found[0]["bytes"], 0]
    assert [Path(row["file"]).name for row in found] == [f"{base:020d}.log" for base in (0, 0, 6)]
    assert "records" not in found[0]
    lines = ottla("log", "dump", directory).stdout.splitlines()
    assert lines[0].startswith("orders-1  ") and lines[1].split()[0] == "OFFSETS"
    assert lines[2].split()[:2] == ["0–2", "3"]
    assert "2023-11-14T22:13:22.000Z" in lines[2]


def test_records(directory: Path) -> None:
    found = [record for row in rows("log", "dump", directory, "--print-data-log") for record in row["records"]]
    assert [record["offset"] for record in found] == list(range(7))
    assert found[1] == {"offset": 1, "timestamp": NOW_MS + 1000, "key": "k", "value": "b", "headers": []}
    assert found[5]["value"] is None
    assert (found[6]["key"], found[6]["value_base64"]) == (None, "/w==")
    text = ottla("log", "dump", directory, "--print-data-log").stdout
    assert '| 1  2023-11-14T22:13:21.000Z  key "k"  value "b"' in text
    assert "key null  value base64:/w==" in text


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_batches(tmp_path: Path, codec: Codec) -> None:
    write_log(tmp_path / "t-0", [build_batch(records(b"a" * 100, b"b"), codec=codec)])
    (row,) = rows("log", "dump", tmp_path / "t-0", "--print-data-log")
    assert row["codec"] == codec.name.lower()
    assert [record["value"] for record in row["records"]] == ["a" * 100, "b"]


@pytest.mark.parametrize(("offset", "expected"), [(0, 7), (1, 6), (4, 3), (6, 1), (7, 0), (99, 0)])
def test_beginning_at_an_offset(directory: Path, offset: int, expected: int) -> None:
    found = rows("log", "dump", directory, "--print-data-log", "--offset", offset)
    assert [record["offset"] for row in found for record in row["records"]] == list(range(7))[7 - expected :]


def test_an_index_that_lies_is_not_followed(directory: Path) -> None:
    (directory / f"{0:020d}.index").write_bytes(struct.pack(">ii", 1, 17))
    found = rows("log", "dump", directory, "--print-data-log", "--offset", 4)
    assert [record["offset"] for row in found for record in row["records"]] == [4, 5, 6]


@pytest.mark.parametrize(("most", "expected"), [(1, [0]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (100, list(range(7)))])
def test_so_many_records_and_no_more(directory: Path, most: int, expected: list[int]) -> None:
    found = rows("log", "dump", directory, "--print-data-log", "--max-messages", most)
    assert [record["offset"] for row in found for record in row["records"]] == expected


def test_producers_transactions_and_markers(tmp_path: Path) -> None:
    written = build_batch(records(b"x"), producer_id=7, producer_epoch=2, base_sequence=5, is_transactional=True)
    end = build_marker(EndOfTransaction(True, 3), producer_id=7, producer_epoch=2, timestamp_ms=NOW_MS)
    write_log(tmp_path / "t-0", [written, end])
    data, marker = rows("log", "dump", tmp_path / "t-0", "--print-data-log")
    assert (data["producer_id"], data["producer_epoch"], data["base_sequence"]) == (7, 2, 5)
    assert data["is_transactional"] and not data["is_control"] and marker["is_control"]
    assert marker["records"] == [{"offset": 1, "timestamp": NOW_MS, "control": "COMMIT"}]
    text = ottla("log", "dump", tmp_path / "t-0", "--print-data-log").stdout
    assert "7/2 sequence 5 transactional" in text and "COMMIT of producer 7" in text


def test_what_comes_before_damage_is_printed(directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    at = rows("log", "dump", directory)[1]["position"]
    path.write_bytes(path.read_bytes()[: at + 30])
    result = ottla("log", "dump", directory, expect=1)
    assert [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")] == [
        "OFFSETS", "0–2", "OFFSETS", "6",
    ]  # fmt: skip
    assert f"byte {at}: 30 bytes are too few for a batch" in result.stderr
    assert "1 of 2 files cannot be read" in result.stderr


def test_old_message_formats_are_named(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", [])
    path.write_bytes(struct.pack(">qiIbb", 0, 60, 0, 1, 0) + bytes(100))
    assert "messages of format v1" in ottla("log", "dump", path, expect=1).stderr


def test_index_files(directory: Path) -> None:
    (entry,) = rows("log", "dump", directory / f"{0:020d}.index")
    assert entry == {"offset": 5, "position": rows("log", "dump", directory)[1]["position"]}
    first, _ = rows("log", "dump", directory / f"{0:020d}.timeindex")
    assert first == {"timestamp": NOW_MS + 2000, "offset": 2}
    aborted = directory / f"{6:020d}.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 9, 6, 8, 7))
    assert rows("log", "dump", aborted) == [
        {"producer_id": 9, "first_offset": 6, "last_offset": 8, "last_stable_offset": 7}
    ]
    (directory / f"{6:020d}.index").write_bytes(b"123")
    assert "is no index" in ottla("log", "dump", directory / f"{6:020d}.index", expect=1).stderr


def test_places_without_segments_are_refused(tmp_path: Path) -> None:
    for words in ("dump", "verify", "tail"):
        assert "There are no segments" in ottla("log", words, tmp_path, expect=1).stderr
    ottla("log", "dump", tmp_path / "absent", expect=2)
    ottla("log", "dump", expect=2)


# -- verify


def test_sound_segments(directory: Path) -> None:
    for options in ((), ("--records",)):
        first, second = verdicts(directory, *options)
        assert (first["ok"], first["batches"], first["records"]) == (True, 2, 6)
        assert (first["first_offset"], first["last_offset"]) == (0, 5)
        assert (second["ok"], second["bytes"]) == (True, (directory / f"{6:020d}.log").stat().st_size)
    lines = ottla("log", "verify", directory).stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["RESULT", "ok", "ok"]


def test_every_byte_that_a_crc_covers_is_checked(directory: Path) -> None:
    """And those before it, as far as they mean anything: not the leader epoch, which a broker sets."""
    path = directory / f"{0:020d}.log"
    whole = path.read_bytes()
    second = rows("log", "dump", directory)[1]["position"]
    unseen = []
    for at in range(second, len(whole)):
        flip(path, at)
        first = _verdict(path)
        if first["ok"]:
            unseen.append(at - second)
        else:
            fault = first["faults"][0]
            # An offset that is still above those before it is known by the index alone.
            assert fault["position"] == second or (at - second < 8 and fault["file"].endswith("index"))
        path.write_bytes(whole)
    assert unseen == [12, 13, 14, 15]


def _verdict(path: Path) -> dict[str, Any]:
    result = ottla("log", "verify", path, "--format", "json", expect=None)
    (found,) = json.loads(result.stdout)
    assert result.exit_code == (0 if found["ok"] else 1)
    return dict(found)


def test_the_first_bad_byte_is_named(directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    at = rows("log", "dump", directory)[1]["position"]
    flip(path, at + 70)
    result = ottla("log", "verify", directory, expect=1)
    assert "DAMAGED" in result.stdout
    assert f"{path}, byte {at}: the CRC is" in result.stderr
    assert f"1 of 2 segments are damaged; the first bad byte is {path}:{at}" in result.stderr


def test_offsets_must_rise(tmp_path: Path) -> None:
    batch = build_batch(records(b"a", b"b"))
    path = write_log(tmp_path / "t-0", [batch])
    path.write_bytes(batch + batch)
    (row,) = verdicts(path, expect=1)
    assert row["faults"][0]["reason"] == "offset 0 where at least 2 is due"
    assert row["faults"][0]["position"] == len(batch)


def test_a_segment_ends_where_the_next_begins(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [records(b"a", b"b", b"c")])
    write_log(tmp_path / "t-0", [records(b"c")], base_offset=2)
    first, second = verdicts(tmp_path / "t-0", expect=1)
    assert first["faults"][0]["reason"] == "offset 2; the next segment begins at 2"
    assert second["ok"]


def test_holes_are_fine(tmp_path: Path) -> None:
    """Compaction leaves them, within segments and between."""
    one = build_batch(records(b"a", b"b"), base_offset=4)
    path = write_log(tmp_path / "t-0", [], indexed=False)
    path.write_bytes(one + build_batch(records(b"c"), base_offset=9))
    write_log(tmp_path / "t-0", [records(b"d")], base_offset=50)
    assert all(row["ok"] for row in verdicts(tmp_path / "t-0"))


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".index", struct.pack(">ii", 5, 7), "no batch begins at byte 7"),
        (".index", b"12345", "no whole number of entries"),
        (".timeindex", struct.pack(">qi", NOW_MS, 5), "up to offset 5 the index says"),
        (".timeindex", struct.pack(">qiqi", NOW_MS + 90_000, 2, NOW_MS, 5), "does not come after"),
        (".timeindex", b"1", "no whole number of entries"),
    ],
)
def test_indexes_must_agree(directory: Path, suffix: str, content: bytes, reason: str) -> None:
    path = directory / f"{0:020d}{suffix}"
    path.write_bytes(content)
    first, second = verdicts(directory, expect=1)
    assert reason in first["faults"][0]["reason"]
    assert first["faults"][0]["file"] == str(path)
    assert second["ok"]


def test_an_index_entry_that_skips_records(directory: Path) -> None:
    position = rows("log", "dump", directory)[1]["position"]
    index = directory / f"{0:020d}.index"
    index.write_bytes(struct.pack(">ii", 2, position))
    assert "the index says 2" in verdicts(directory, expect=1)[0]["faults"][0]["reason"]
    index.write_bytes(struct.pack(">iiii", 5, position, 5, position))
    assert "does not come after" in verdicts(directory, expect=1)[0]["faults"][0]["reason"]


def test_indexes_may_be_missing_or_filled_in_advance(directory: Path) -> None:
    index = directory / f"{0:020d}.index"
    index.write_bytes(index.read_bytes() + bytes(8000))
    (directory / f"{0:020d}.timeindex").unlink()
    assert verdicts(directory)[0]["ok"]


def test_zeros_at_the_end_are_space_in_the_last_segment_only(directory: Path) -> None:
    last = directory / f"{6:020d}.log"
    end = last.stat().st_size
    last.write_bytes(last.read_bytes() + bytes(5000))
    assert f"5,000 zero bytes from byte {end}" in verdicts(directory)[1]["remark"]
    assert len(rows("log", "dump", last)) == 1
    last.write_bytes(last.read_bytes() + b"\1")
    assert verdicts(directory, expect=1)[1]["faults"][0]["position"] == end
    first = directory / f"{0:020d}.log"
    first.write_bytes(first.read_bytes() + bytes(10))
    assert "10 zero bytes" in verdicts(directory, expect=1)[0]["faults"][0]["reason"]


def test_an_unfinished_end_is_damage_unless_a_broker_is_writing(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "logs" / "t-0"
    path = write_log(directory, [records(b"a"), records(b"b" * 100)])
    path.write_bytes(path.read_bytes()[:-5])
    lock = tmp_path / "data" / "LOCK"
    lock.touch()
    assert "a broker cuts off" in verdicts(tmp_path / "data", expect=1)[0]["faults"][0]["reason"]
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (row,) = verdicts(tmp_path / "data")
    assert (row["ok"], row["batches"]) == (True, 1)
    assert row["remark"].startswith("a batch is being written at byte ")


def test_a_data_directory_is_all_its_partitions(tmp_path: Path) -> None:
    for name in ("b-0", "a-10", "a-2", "gone-0.5-delete"):
        write_log(tmp_path / "logs" / name, [records(b"x")])
    (tmp_path / "meta.properties").touch()
    assert [(row["topic"], row["partition"]) for row in verdicts(tmp_path)] == [("a", 2), ("a", 10), ("b", 0)]
    # Kafka's have no folder in between.
    assert [row["topic"] for row in verdicts(tmp_path / "logs")] == ["a", "a", "b"]


def test_what_a_broker_wrote_is_sound(tmp_path: Path, ottla_broker_factory: Callable[..., Broker]) -> None:
    broker = ottla_broker_factory(data_dir=tmp_path / "data", topics={"orders": 1})
    Ottla(broker.bootstrap_servers).send("orders", b"".join(b"line %d\n" % number for number in range(3000)))
    broker.stop()
    found = {row["topic"]: row for row in verdicts(tmp_path / "data", "--records") if row["records"]}
    assert found["orders"]["records"] == 3000
    printed = rows("log", "dump", tmp_path / "data" / "logs" / "orders-0", "--print-data-log")
    assert [record["value"] for row in printed for record in row["records"]][-1] == "line 2999"


# -- tail


def follower(directory: Path, *, from_beginning: bool = False) -> Follower:
    return Follower(find_partitions(directory)[0], from_beginning=from_beginning)


def offsets(follower: Follower) -> list[tuple[int, int]]:
    return [(batch.header.base_offset, batch.header.last_offset) for batch in follower.poll()]


def test_only_what_is_new(directory: Path) -> None:
    tail = follower(directory)
    assert offsets(tail) == []
    path = directory / f"{6:020d}.log"
    more = build_batch(records(b"n"), base_offset=7)
    path.write_bytes(path.read_bytes() + more[:-1])
    assert offsets(tail) == []
    path.write_bytes(path.read_bytes() + more[-1:])
    assert offsets(tail) == [(7, 7)]
    assert offsets(tail) == []


def test_from_the_beginning(directory: Path) -> None:
    assert offsets(follower(directory, from_beginning=True)) == [(0, 2), (3, 5), (6, 6)]


def test_new_segments_are_followed(directory: Path) -> None:
    tail = follower(directory)
    write_log(directory, [records(b"a")], base_offset=7)
    write_log(directory, [records(b"b")], base_offset=8)
    assert offsets(tail) == [(7, 7), (8, 8)]


def test_an_empty_partition_may_get_its_first_segment(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    tail = follower(tmp_path / "t-0")
    assert offsets(tail) == []
    write_log(tmp_path / "t-0", [records(b"a")])
    assert offsets(tail) == [(0, 0)]


def test_segments_may_go_and_be_compacted(directory: Path) -> None:
    tail = follower(directory)
    (directory / f"{0:020d}.log").unlink()
    path = directory / f"{6:020d}.log"
    kept = build_batch(records(b"x" * 5), base_offset=6)
    path.write_bytes(kept + build_batch(records(b"y"), base_offset=9))
    assert offsets(tail) == [(9, 9)]


def test_following_prints_and_waits(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (partition,) = find_partitions(directory)
    waits = []

    def wait() -> None:
        waits.append(1)
        write_log(directory, [records(b"later")], base_offset=6 + len(waits))

    with pytest.raises(Enough):
        follow([(partition, follower(directory))], Wish(True, None, None, 2, False), wait)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed] == [["orders-1", "7"], ["orders-1", "8"]]
    assert len(waits) == 2


def test_tail_stops_after_so_many(directory: Path) -> None:
    found = rows("log", "tail", directory, "--from-beginning", "--max-messages", 4)
    assert [(row["topic"], row["partition"], row["offset"]) for row in found] == [("orders", 1, at) for at in range(4)]


def test_tail_ends_at_damage(directory: Path) -> None:
    flip(directory / f"{0:020d}.log", 80)
    assert "byte 0: the CRC is" in ottla("log", "tail", directory, "--from-beginning", expect=1).stderr


def test_tail_prints_what_is_before_damage(directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    flip(path, path.stat().st_size - 3)
    found = ottla("log", "tail", directory, "--from-beginning", "--format", "json", expect=1)
    assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [0, 1, 2]


# -- bytes that nobody meant


@given(st.data())
def test_damage_of_any_kind_is_told_and_never_raised(data: st.DataObject) -> None:
    whole = b"".join(build_batch(records(b"a" * 30, b"b"), base_offset=offset) for offset in (0, 2, 4))
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert"])):
            case "set":
                changed[at] = data.draw(st.integers(0, 255))
            case "cut":
                del changed[at : at + data.draw(st.integers(1, 80))]
            case _:
                changed[at:at] = data.draw(st.binary(max_size=20))
        if not changed:
            break
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{0:020d}.log"
        path.write_bytes(changed)
        sound = _verdict(path)["ok"]
        result = ottla("log", "dump", path, "--print-data-log", "--decode", expect=None)
        if sound:
            assert result.exit_code == 0


@given(st.binary(max_size=200), st.sampled_from([".index", ".timeindex"]))
def test_index_files_of_any_bytes(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = write_log(Path(directory), [records(b"a"), records(b"b", b"c")])
        path.with_suffix(suffix).write_bytes(content)
        found = _verdict(path)
        assert all(fault["file"].endswith(suffix) for fault in found["faults"])
        for offset in ("0", "1", "2"):
            first, *_ = rows("log", "dump", path, "--offset", offset, "--print-data-log")
            assert first["records"][0]["offset"] == int(offset), "whatever the index says"
