"""`ottla lake` and its commands, as far as they go without Spark."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.lake import command
from ottla.pipeline.topic_lake.folder import TopicFolder
from ottla.testing import Broker
from tests.pipeline.lake.lakes import commit, new_folder, rows


def run(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), env={"OTTLA_BOOTSTRAP_SERVERS": ""})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--topic TOPIC --to DIR"),
        (["--topic", "orders"], "--topic TOPIC --to DIR"),
        (["--topic", "orders", "--to", "x"], "--bootstrap-server HOST:PORT"),
        (["--topic", "orders", "--to", "x", "--log-dir", ".", "--group", "g"], "--group"),
        (["--topic", "orders", "--to", "x", "-b", "h:1", "--trigger", "soon"], "trigger: 'soon' is no duration"),
        (["compact"], "DIR"),
        (["compact", "x", "--target-size", "5"], "'5' is no size of 1k or more"),
        (["compact", "x", "--before", "soon"], "soon"),
    ],
)
def test_what_cannot_be_is_refused_as_usage(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}) as broker:
        done = run("--topic", "order", "--to", str(tmp_path / "x"), "-b", broker.bootstrap_servers)
        assert done.exit_code == 1
        assert "There is no topic 'order' at" in done.output
        assert "did you mean 'orders'?" in done.output
        TopicFolder(tmp_path / "payments").claim(topic="payments")
    (tmp_path / "orders-0").mkdir()
    done = run("--topic", "payments", "--to", str(tmp_path / "x"), "--log-dir", str(tmp_path))
    assert (done.exit_code, "no topic 'payments' in" in done.output) == (1, True)
    done = run("--topic", "orders", "--to", str(tmp_path / "payments"), "--log-dir", str(tmp_path))
    assert (done.exit_code, "holds topic 'payments', not 'orders'" in done.output) == (1, True)
    assert run("compact", str(tmp_path / "nothing")).exit_code == 1


def test_compact_takes_a_folder_of_folders_and_says_what_it_did(tmp_path: Path) -> None:
    for topic in ("orders", "payments"):
        folder = new_folder(tmp_path / topic)
        for number in range(3):
            commit(folder, number, {"2026-11-19": [(0, number)]})
    done = run("compact", str(tmp_path), "--before", "2026-11-20")
    assert done.exit_code == 0, done.output
    assert f"{tmp_path}/payments/date=2026-11-19" in done.output
    assert "2 days were rewritten, 0 stay as they are." in done.output
    assert len(TopicFolder(tmp_path / "orders").files()) == 1
    assert "0 days were rewritten, 2 stay" in run("compact", str(tmp_path), "--before", "2026-11-20").output


def test_snapshot_prints_a_folder_that_can_be_read(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    commit(folder, 0, {"2026-11-19": [(0, 1)]})
    done = run("snapshot", str(tmp_path))
    assert rows(Path(done.output.strip())) == {(0, 1): 1}
    assert os.stat(folder.files()[0]).st_nlink == 2
