"""A broker refuses what is damaged and says where; `ottla recover` takes out what is damaged and nothing else."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.clients import Producer
from ottla.protocol.groups import coordinator_partition
from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import flip

ottla = HERE.run
recover = partial(HERE.json, "recover")

GROUPS = ["g0", "g1", "g2", "g3"]


def segment(data: Path, log: str) -> Path:
    return data / "logs" / log / "00000000000000000000.log"


async def commit(bootstrap: str) -> None:
    """One transaction."""
    async with Producer(bootstrap_servers=bootstrap, transactional_id="billing") as producer, producer.transaction():
        await producer.send("paid", b"1")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that stopped in order, with a topic, and groups that have read all of it."""
    data = tmp_path_factory.mktemp("damage") / "data"
    with BrokerProcess(data, topics={"orders": 1, "paid": 1}) as broker:
        client = Ottla(broker.bootstrap_servers)
        client.send("orders", b"".join(b"value %d\n" % number for number in range(20)))
        for group in GROUPS:
            client.read("orders", "--group", group, "--exit")
        asyncio.run(commit(broker.bootstrap_servers))
    return data


@pytest.fixture
def data(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "data"))


def refused(data: Path) -> str:
    """The log of a broker that does not start."""
    broker = BrokerProcess(data)
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    text = broker.log_text()
    assert "Traceback" not in text
    return text


def test_a_damaged_partition_of_the_groups(data: Path) -> None:
    hit = f"__consumer_offsets-{coordinator_partition(GROUPS[0])}"
    path = segment(data, hit)
    flip(path, 70)
    text = refused(data)
    assert f"{hit} is damaged: {path}, bytes 0 to " in text
    assert f"\n      ottla recover {data} --accept-loss" in text
    report = recover(data, expect=1)
    assert {row["log"] for row in report["lost"]} == {hit}
    (row,) = report["lost"]
    assert row["from_offset"] == 0 and row["records"] == row["upto_offset"]
    words = ottla("recover", data, expect=1).stdout
    assert "RECORDS" in words and "TO OFFSET (INCL.)" in words and str(path) in words
    words = ottla("recover", data, "--accept-loss").stdout
    assert f"Set aside: {path}.kept" in words and "A broker starts" in words
    assert "Nothing is damaged" in ottla("recover", data).stdout
    others = [group for group in GROUPS if coordinator_partition(group) != coordinator_partition(GROUPS[0])]
    assert others
    with BrokerProcess(data) as broker:
        for group in others:
            (found,) = HERE.json("groups", "describe", group, "-b", broker.bootstrap_servers)
            assert '"committed_offset": 20' in json.dumps(found), found


@pytest.mark.parametrize("offset", [0, 1 << 40])
def test_an_offset_that_cannot_be(data: Path, offset: int) -> None:
    """No CRC covers it."""
    hit = f"__consumer_offsets-{coordinator_partition(GROUPS[0])}"
    path = segment(data, hit)
    last = HERE.lines("log", "dump", path)[-1]
    assert last["base_offset"] > 0
    content = bytearray(path.read_bytes())
    content[last["position"] : last["position"] + 8] = offset.to_bytes(8, "big")
    path.write_bytes(content)
    assert f"{hit} is damaged: {path}, bytes {last['position']} to " in refused(data)
    (row,) = recover(data, "--accept-loss")["lost"]
    assert (row["from_offset"], row["upto_offset"]) == (last["base_offset"], last["last_offset"] + 1)
    with BrokerProcess(data):
        pass


def test_a_damaged_partition_of_the_transactions(data: Path) -> None:
    (path,) = [path for path in data.glob("logs/__transaction_state-*/*.log") if path.stat().st_size]
    flip(path, 70)
    text = refused(data)
    assert f"{path.parent.name} is damaged: {path}, bytes 0 to " in text
    assert f"\n      ottla recover {data} --accept-loss" in text
    recover(data, "--accept-loss")
    with BrokerProcess(data) as broker:
        asyncio.run(commit(broker.bootstrap_servers))


def test_the_doctor_sees_what_no_broker_starts_with(data: Path) -> None:
    def verdicts(expect: int) -> dict[str, Any]:
        found = HERE.json("doctor", "--data-dir", data, "--no-disk", "--listen", "localhost:0", expect=expect)
        return {row["check"]: row for row in found["checks"]}

    assert verdicts(0)["content"]["verdict"] == "ok"
    flip(data / "checkpoint", 60)
    (data / "catalog.json").write_text("{")
    found = verdicts(1)["content"]
    assert found["verdict"] == "fail" and "catalog.json" in found["found"]
    assert f"ottla recover {data}" in found["advice"]


def test_a_damaged_topic_is_served_and_can_be_mended(data: Path) -> None:
    flip(segment(data, "orders-0"), 70)
    with BrokerProcess(data):
        pass
    assert "DAMAGED" in ottla("log", "verify", data, expect=1).stdout
    (row,) = recover(data, "--accept-loss")["lost"]
    assert (row["log"], row["from_offset"], row["upto_offset"], row["records"]) == ("orders-0", 0, 20, 20)
    ottla("log", "verify", data)


def test_a_damaged_checkpoint(data: Path) -> None:
    flip(data / "checkpoint", 60)
    text = refused(data)
    assert "checkpoint is damaged" in text and f"\n      ottla recover {data} --accept-loss" in text
    assert recover(data, expect=1)["problems"]
    ottla("recover", data, "--accept-loss")
    with BrokerProcess(data):
        pass


@pytest.mark.parametrize("gone", [True, False])
def test_a_catalog_that_is_lost(data: Path, gone: bool) -> None:
    path = data / "catalog.json"
    if gone:
        path.unlink()
    else:
        path.write_text(path.read_text().replace('"topics"', '"topiks"'))
    before = sorted(data.glob("logs/*/*"))
    text = refused(data)
    assert "catalog" in text and f"\n      ottla recover {data}\n" in text
    words = ottla("recover", data, "--accept-loss", expect=1).stdout
    assert "from a backup" in words and "orders" in words and "A broker starts" not in words
    assert sorted(data.glob("logs/*/*")) == before


# -- after a kill


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
    batches = [row for row in HERE.lines("log", "dump", path) if row["kind"] == "batch" and row["log"] == "orders-0"]
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
    assert "ottla recover" in refused(damaged)
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
