"""Compaction: fewer files, the same rows, at every moment and whenever it is killed."""

import errno
import os
import threading
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ottla.pipeline.topic_lake import compaction
from ottla.pipeline.topic_lake.compaction import compact
from ottla.pipeline.topic_lake.folder import BAD, LakeError, TopicFolder
from ottla.pipeline.topic_lake.snapshot import snapshot, take
from ottla.pipeline.topic_lake.swap import CannotSwap, swap
from tests.pipeline.lake.lakes import KillAt, Killed, commit, new_folder, rows, stage, table

DAY = "2026-11-20"
TODAY = date(2026, 11, 22)


def filled(path: Path, batches: int = 6, size: int = 8) -> Counter[tuple[int, int]]:
    folder = new_folder(path)
    for number in range(batches):
        commit(folder, number, {DAY: [(p, number * 10 + n) for n in range(10) for p in (1, 0)]}, size)
    return Counter((p, n) for n in range(batches * 10) for p in (0, 1))


def test_a_finished_day_becomes_one_file_sorted_by_partition_and_offset(tmp_path: Path) -> None:
    there = filled(tmp_path)
    commit(TopicFolder(tmp_path), 6, {"2026-11-22": [(0, 900)]})
    commit(TopicFolder(tmp_path), 7, {"2026-11-22": [(0, 901)]})
    kills = KillAt(None)
    done = compact(tmp_path, before=TODAY, step=kills)
    assert kills.steps == STEPS[False]
    assert [(one.day, one.files_before, one.files_after, one.rows) for one in done] == [(f"date={DAY}", 6, 1, 120)]
    (file,) = TopicFolder(tmp_path).files(day=f"date={DAY}")
    kept = pq.read_table(file, partitioning=None)
    places = list(zip(kept["partition"].to_pylist(), kept["offset"].to_pylist(), strict=True))
    assert places == sorted(there)
    expected = table(sorted(there)).to_pylist()
    assert kept.to_pylist() == expected, "every column is what it was"
    assert rows(tmp_path) == there + Counter([(0, 900), (0, 901)])
    assert len(TopicFolder(tmp_path).files(day="date=2026-11-22")) == 2, "today is not over"


def test_a_second_run_does_nothing_and_late_rows_are_taken_in(tmp_path: Path) -> None:
    there = filled(tmp_path)
    compact(tmp_path, before=TODAY)
    (file,) = TopicFolder(tmp_path).files()
    assert [one.skipped for one in compact(tmp_path, before=TODAY)] == ["compact already"]
    assert TopicFolder(tmp_path).files() == [file]
    commit(TopicFolder(tmp_path), 6, {DAY: [(0, 777)]})
    assert [one.files_before for one in compact(tmp_path, before=TODAY)] == [2]
    assert rows(tmp_path) == there + Counter([(0, 777)])


def cannot(one: Path, other: Path) -> None:
    raise CannotSwap(errno.EINVAL, "this file system cannot exchange two folders in one step", str(other))


STEPS = {
    False: ["begun", "written", "linked", "swapped", "removed"],
    True: ["begun", "written", "linked", "halfway", "swapped", "removed"],
}
"""Of a compaction with readers, and with readers stopped where folders cannot change places."""


@pytest.mark.parametrize(("stopped", "at"), [(one, at) for one in STEPS for at in range(len(STEPS[one]))])
def test_a_kill_at_any_step_changes_no_row_and_the_next_run_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool, at: int
) -> None:
    if stopped:
        monkeypatch.setattr(compaction, "swap", cannot)
    there, kills = filled(tmp_path), KillAt(at)
    with pytest.raises(Killed):
        compact(tmp_path, before=TODAY, readers_stopped=stopped, step=kills)
    assert kills.steps == STEPS[stopped][: at + 1]
    assert stopped or rows(tmp_path) == there, "readers see no difference"
    commit(TopicFolder(tmp_path), 6, {DAY: [(5, 5)]})
    compact(tmp_path, before=TODAY, readers_stopped=stopped)
    assert rows(tmp_path) == there + Counter([(5, 5)])
    assert len(TopicFolder(tmp_path).files()) == 1
    assert not list(TopicFolder(tmp_path).staging.glob("compact-*"))


def test_where_folders_cannot_change_places_nothing_is_done_unless_readers_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "swap", cannot)
    there = filled(tmp_path)
    with pytest.raises(LakeError, match="--readers-stopped"):
        compact(tmp_path, before=TODAY)
    assert (rows(tmp_path), len(TopicFolder(tmp_path).files())) == (there, 6)
    compact(tmp_path, before=TODAY, readers_stopped=True)
    assert (rows(tmp_path), len(TopicFolder(tmp_path).files())) == (there, 1)


def test_a_batch_that_comes_in_meanwhile_is_kept(tmp_path: Path) -> None:
    there = filled(tmp_path)

    def late(name: str) -> None:
        if name == "written":
            commit(TopicFolder(tmp_path), 6, {DAY: [(7, 7)]})

    compact(tmp_path, before=TODAY, step=late)
    assert rows(tmp_path) == there + Counter([(7, 7)])
    assert len(TopicFolder(tmp_path).files()) == 2


def test_a_writer_that_was_killed_halfway_is_helped_first(tmp_path: Path) -> None:
    there = filled(tmp_path)
    with pytest.raises(Killed):
        commit(TopicFolder(tmp_path, KillAt(2)), 6, {DAY: [(7, 7)], "2026-11-19": [(7, 8)]})
    compact(tmp_path, before=TODAY)
    assert rows(tmp_path) == there + Counter([(7, 7), (7, 8)])


def test_large_files_stay_as_they_are(tmp_path: Path) -> None:
    there = filled(tmp_path, batches=8, size=150)
    compact(tmp_path, before=TODAY, target_bytes=16_000, memory_bytes=4_000)
    files = {file.name: file.stat() for file in TopicFolder(tmp_path).files()}
    assert 2 <= len(files) < 8
    large = {name for name, stat in files.items() if stat.st_size >= 12_000}
    commit(TopicFolder(tmp_path), 8, {DAY: [(7, 7)]})
    commit(TopicFolder(tmp_path), 9, {DAY: [(7, 8)]})
    compact(tmp_path, before=TODAY, target_bytes=16_000)
    now = {file.name: file.stat() for file in TopicFolder(tmp_path).files()}
    assert large
    assert all(now[name].st_ino == files[name].st_ino for name in large)
    assert rows(tmp_path) == there + Counter([(7, 7), (7, 8)])


def test_a_reader_of_snapshots_sees_every_row_once_whatever_happens_meanwhile(tmp_path: Path) -> None:
    there, wrong, looks = filled(tmp_path), [], 0
    done = threading.Event()

    def read() -> None:
        nonlocal looks
        while not done.is_set():
            with snapshot(tmp_path) as frozen:
                seen = rows(frozen)
            looks += 1
            if any(seen[row] != 1 for row in there):
                wrong.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(6, 26):
        commit(TopicFolder(tmp_path), number, {DAY: [(9, number)]})
        compact(tmp_path, before=TODAY)
    done.set()
    reader.join()
    assert (wrong, looks > 0) == ([], True)


def test_a_snapshot_stays_what_it_was_and_takes_no_space(tmp_path: Path) -> None:
    there = filled(tmp_path)
    with snapshot(tmp_path) as frozen:
        (inode,) = {file.stat().st_ino for file in frozen.glob("*/*0003-*.parquet")} or {0}
        commit(TopicFolder(tmp_path), 6, {DAY: [(9, 9)]})
        compact(tmp_path, before=TODAY)
        assert rows(frozen) == there
        assert inode not in {file.stat().st_ino for file in TopicFolder(tmp_path).files()}
    assert not frozen.exists()
    assert rows(tmp_path) == there + Counter([(9, 9)])


def test_snapshots_that_were_left_behind_go_after_a_while(tmp_path: Path) -> None:
    filled(tmp_path)
    old, new = take(TopicFolder(tmp_path)), take(TopicFolder(tmp_path))
    os.utime(old, (1, 1))
    compact(tmp_path, before=TODAY)
    assert (old.exists(), new.exists()) == (False, True)


def test_columns_that_were_added_are_null_in_older_rows(tmp_path: Path) -> None:
    import pyarrow as pa

    folder = new_folder(tmp_path)
    commit(folder, 0, {DAY: [(0, 0)]})
    place = stage(folder, "batch-1", {DAY: [(0, 1)]})
    (file,) = place.rglob("*.parquet")
    pq.write_table(pq.read_table(file, partitioning=None).append_column("price", pa.array([1.5])), file)
    folder.commit(1, "q", {"": place}, {})
    compact(tmp_path, before=TODAY)
    (file,) = folder.files()
    kept = pq.read_table(file, partitioning=None)
    assert kept.column_names[-1] == "price"
    assert kept["price"].to_pylist() == [None, 1.5]


def test_bad_rows_are_compacted_too_and_days_without_a_date_are_not(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for number in range(3):
        places = {"": stage(folder, "b", {"__HIVE_DEFAULT_PARTITION__": [(0, number)]})}
        places[BAD] = stage(folder, "c", {DAY: [(1, number)]})
        folder.commit(number, "q", places, {})
    done = compact(tmp_path, before=TODAY)
    assert [(one.part, one.day, one.files_after) for one in done] == [(BAD, f"date={DAY}", 1)]
    assert rows(tmp_path / BAD) == Counter([(1, 0), (1, 1), (1, 2)])
    assert len(folder.files()) == 3


def test_a_damaged_file_stops_it_before_anything_changed(tmp_path: Path) -> None:
    filled(tmp_path)
    file = TopicFolder(tmp_path).files()[2]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(LakeError, match="date=2026-11-20"):
        compact(tmp_path, before=TODAY)
    assert len(TopicFolder(tmp_path).files()) == 6


def test_rows_that_do_not_come_out_as_they_went_in_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = filled(tmp_path)
    count = iter(range(100))
    monkeypatch.setattr(compaction._Count, "add", _forgetful(compaction._Count.add, count))
    with pytest.raises(LakeError, match="nothing was changed"):
        compact(tmp_path, before=TODAY)
    assert rows(tmp_path) == there


def _forgetful(add, count):  # type: ignore[no-untyped-def]
    def dropping(self, table) -> None:  # type: ignore[no-untyped-def]
        add(self, table.slice(1) if next(count) == 0 else table)

    return dropping


def test_what_was_removed_meanwhile_is_left_to_the_next_run(tmp_path: Path) -> None:
    filled(tmp_path)

    def remove(name: str) -> None:
        if name == "written":
            TopicFolder(tmp_path).files()[0].unlink()

    (done,) = compact(tmp_path, before=TODAY, step=remove)
    assert "was removed meanwhile" in done.skipped
    assert sum(rows(tmp_path).values()) == 100, "what somebody removed does not come back"


def test_by_default_today_is_not_over(tmp_path: Path) -> None:
    folder, today = new_folder(tmp_path), datetime.now(UTC).date().isoformat()
    commit(folder, 0, {today: [(0, 0)]})
    commit(folder, 1, {today: [(0, 1)]})
    assert compact(tmp_path) == []


def test_what_is_no_lake_is_refused_and_one_runs_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no topic lake"):
        compact(tmp_path / "nothing")
    folder = new_folder(tmp_path / "lake")
    with folder.only("compaction"), pytest.raises(LakeError, match="another compaction"):
        compact(tmp_path / "lake")


def test_swapping_exchanges_and_needs_both(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    swap(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path / "a") == ["b"]
    with pytest.raises(FileNotFoundError):
        swap(tmp_path / "a", tmp_path / "c")
