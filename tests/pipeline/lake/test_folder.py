"""Batches get into a folder exactly once, whenever the process is killed."""

import json
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from ottla.pipeline.topic_lake.folder import BATCHES_KEPT, LakeError, TopicFolder
from tests.pipeline.lake.lakes import KillAt, Killed, commit, new_folder, rows, stage

FIRST = {"2026-11-20": [(0, 0), (1, 0)]}
SECOND = {"2026-11-20": [(0, 1)], "2026-11-21": [(0, 2), (1, 1)]}
ALL = Counter([(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)])


@pytest.mark.parametrize("at", [*range(5), None])
def test_a_kill_at_any_step_leaves_a_batch_out_or_lets_it_in_but_never_twice(tmp_path: Path, at: int | None) -> None:
    kills = KillAt(at)
    commit(new_folder(tmp_path), 0, FIRST)
    with nullcontext() if at is None else pytest.raises(Killed):
        commit(TopicFolder(tmp_path, kills), 1, SECOND)
    assert kills.steps == ["staged", "noted", "moved", "moved", "committed"][: None if at is None else at + 1]
    assert rows(tmp_path) <= ALL
    redo(tmp_path)
    assert rows(tmp_path) == ALL
    assert TopicFolder(tmp_path).committed("q") == 1


def redo(path: Path) -> None:
    """What `BatchWriter` does when Spark does batch 1 again."""
    folder = TopicFolder(path)
    with folder.changing():
        last = folder.committed("q")
    if last < 1:
        commit(folder, 1, SECOND)


def test_a_second_kill_while_the_first_is_mended_does_no_harm(tmp_path: Path) -> None:
    for first in range(1, 5):
        for second in range(4):
            path = tmp_path / f"{first}-{second}"
            new_folder(path)
            with pytest.raises(Killed):
                commit(TopicFolder(path, KillAt(first)), 1, SECOND)
            with suppress(Killed), TopicFolder(path, KillAt(second)).changing():
                pass
            redo(path)
            assert rows(path) == Counter(row for records in SECOND.values() for row in records)


def test_notes_say_what_a_batch_had_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.pipeline.topic_lake.folder.BATCHES_KEPT", 3)
    assert BATCHES_KEPT > 3
    folder = new_folder(tmp_path)
    for number in range(8):
        folder.commit(number, "q", {"": stage(folder, "b", {"2026-11-20": [(0, number)]})}, {"rows": 1})
    kept = sorted(one.name for one in folder.batches.iterdir())
    assert kept == ["0000000005.json", "0000000006.json", "0000000007.json"]
    assert json.loads((folder.batches / kept[-1]).read_text())["rows"] == 1
    assert folder.committed("q") == 7


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    commit(folder, 3, FIRST)
    with pytest.raises(LakeError, match="another checkpoint"):
        folder.committed("other")


def test_a_folder_is_of_one_topic_and_one_cluster(tmp_path: Path) -> None:
    folder = TopicFolder(tmp_path / "orders")
    folder.claim(topic="orders", cluster_id=None)
    folder.claim(topic="orders", cluster_id="c1")
    folder.claim(topic="orders", cluster_id=None)
    with pytest.raises(LakeError, match="topic 'orders', not 'payments'"):
        folder.claim(topic="payments", cluster_id="c1")
    with pytest.raises(LakeError, match="cluster_id 'c1', not 'c2'"):
        folder.claim(topic="orders", cluster_id="c2")


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(LakeError, match="not empty \\(photos\\)"):
        TopicFolder(tmp_path).claim(topic="orders")
    with pytest.raises(LakeError, match="s3://bucket/x is no folder"):
        TopicFolder("s3://bucket/x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "not the note"),
        ('{"format": "ottla topic lake", "version": 99}', "later version"),
    ],
)
def test_notes_that_cannot_be_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "_lake.json").write_text(text)
    with pytest.raises(LakeError, match=words):
        TopicFolder(tmp_path).about()


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    with folder.only("writer"):
        with pytest.raises(LakeError, match="another writer"), TopicFolder(tmp_path).only("writer"):
            pass
        with TopicFolder(tmp_path).only("compaction"):
            pass
    with folder.only("writer"):
        pass
