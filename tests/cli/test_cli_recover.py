"""`ottla recover`: what is damaged, what it costs, and giving it up."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import flip

ottla = HERE.run


def recover(path: Path, *options: str, expect: int = 0) -> dict[str, Any]:
    return dict(HERE.json("recover", path, *options, expect=expect))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that was killed after three batches were acknowledged, one by one."""
    data = tmp_path_factory.mktemp("recover") / "data"
    broker = BrokerProcess(data, topics={"orders": 1})
    broker.start()
    for number in range(3):
        Ottla(broker.bootstrap_servers).send("orders", b"value %d\n" % number)
    broker.kill()
    return data


@pytest.fixture
def damaged(killed: Path, tmp_path: Path) -> Path:
    """The second batch is damaged in the journal."""
    data = Path(shutil.copytree(killed, tmp_path / "data"))
    (path,) = (data / "journal").glob("*.wal")
    rows = HERE.lines("log", "dump", path)
    batches = [row for row in rows if row["kind"] == "batch" and row["log"] == "orders-0"]
    flip(path, batches[1]["position"] + 60)
    return data


def contents(path: Path) -> dict[Path, bytes]:
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_after_a_kill_nothing_is_damaged(killed: Path) -> None:
    before = contents(killed)
    assert recover(killed)["problems"] == []
    assert recover(killed, "--accept-loss")["set_aside"] == []
    assert "a broker starts" in ottla("recover", killed).stdout
    assert contents(killed) == before


def test_what_is_damaged_is_told_and_nothing_changed(damaged: Path) -> None:
    before = contents(damaged)
    report = recover(damaged, expect=1)
    assert report["problems"]
    (lost,) = report["lost"]
    assert (lost["log"], lost["from_offset"], lost["upto_offset"]) == ("orders-0", 1, 3)
    result = ottla("recover", damaged, expect=1)
    assert "Would be given up" in result.stdout and "--accept-loss" in result.stdout
    assert contents(damaged) == before


def test_accepting_the_loss_lets_a_broker_start(damaged: Path) -> None:
    broker = BrokerProcess(damaged)
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    assert "ottla recover" in broker.log_text()
    text = ottla("recover", damaged, "--accept-loss").stdout
    assert "Given up" in text and "Set aside" in text
    assert recover(damaged)["problems"] == []
    with BrokerProcess(damaged) as broker:
        read = ottla("consume", "orders", "--offset", "earliest", "--exit", "-b", broker.bootstrap_servers).stdout
    assert read.splitlines() == ["value 0"]


def test_a_directory_in_use_is_left_alone(damaged: Path) -> None:
    before = contents(damaged)
    with (damaged / "LOCK").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "in use" in ottla("recover", damaged, "--accept-loss", expect=1).stderr
    assert contents(damaged) == before


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    assert "no data directory" in ottla("recover", tmp_path, expect=1).stderr
    ottla("recover", tmp_path / "absent", expect=2)
