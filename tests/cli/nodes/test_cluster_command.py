"""`ottla cluster`: who is up, by the directory or by a broker; and partitions that move to other nodes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import decode_batch, iter_batches
from ottla.protocol.stored.cluster_file import CLUSTER_NAME
from ottla.testing.broker import Broker
from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.support.nodes import Nodes


def homes(data_dir: Path) -> dict[str, list[int]]:
    """Those of all topics, as the catalog has them."""
    topics = json.loads((data_dir / "catalog.json").read_text())["state"]["topics"]
    return {name: row.get("homes") for name, row in topics.items()}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker with records in five partitions, and the offsets of a group; it was stopped."""
    lived = tmp_path_factory.mktemp("lived")
    with Broker(data_dir=lived, topics={"orders": 5}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        for partition in range(5):
            ottla.send("orders", b"one\ntwo\n", "--partition", str(partition))
        ottla.make_group("billing")
    return lived


@pytest.fixture
def grown(lived: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(lived, tmp_path / "data")


async def values_at(directory: Path, node_id: int, topic_id: UUID, partition: int) -> list[bytes | None]:
    engine = LocalEngine(str(directory), node_id=node_id, new_uuid=uuid4)
    await engine.open()
    try:
        log = await engine.open_log("orders", topic_id, partition, LogConfig())
        batches = log.read(0, max_bytes=1 << 20)
        return [record.value for _, batch in iter_batches(batches) for record in decode_batch(batch)]
    finally:
        await engine.close()


def directory(data_dir: Path, node_id: int) -> Path:
    return data_dir if node_id == 1 else data_dir / "nodes" / str(node_id)


def test_a_broker_grows(grown: Path) -> None:
    shown = HERE.json("cluster", "spread", grown, "--nodes", 3)
    at = homes(grown)
    assert sorted(Counter(at["orders"]).values()) == [1, 2, 2]
    assert sorted(Counter(at[OFFSETS_TOPIC]).values()) == [16, 17, 17]
    assert {row["node_id"]: row["after"] for row in shown["nodes"]} == Counter(
        one for all in at.values() for one in all
    )
    assert shown["moved"] == sum(one != 1 for all in at.values() for one in all)
    topic_id = UUID(json.loads((grown / "catalog.json").read_text())["state"]["topics"]["orders"]["topic_id"])
    for partition, home in enumerate(at["orders"]):
        assert (directory(grown, home) / "logs" / f"orders-{partition}").is_dir()
        values = asyncio.run(values_at(directory(grown, home), home, topic_id, partition))
        assert values == [b"one", b"two"]
    assert "belongs to 3 nodes: say --nodes 3" in HERE.run("serve", "--data-dir", grown, expect=2).output


def test_there_and_back(grown: Path) -> None:
    HERE.run("cluster", "spread", grown, "--nodes", 4)
    again = HERE.json("cluster", "spread", grown, "--nodes", 4)
    assert again["moved"] == 0
    said = HERE.run("cluster", "spread", grown, "--nodes", 1).stdout
    assert said.endswith(f"Go on with this, and with your other options:\n  ottla serve --data-dir {grown}\n")
    assert {one for all in homes(grown).values() for one in all} == {1}
    assert sorted(path.name for path in (grown / "logs").glob("orders-*")) == [f"orders-{one}" for one in range(5)]
    assert list((grown / "nodes/2/logs").iterdir()) == []
    refused = HERE.run("cluster", "status", grown, expect=1).output
    assert f"{grown} is not a directory of several nodes" in refused


def test_the_own_directory_of_a_node_is_no_data_directory(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks what all share: nothing is missed there, and nothing written."""
    HERE.run("cluster", "spread", grown, "--nodes", 2)
    part = grown / "nodes" / "2"
    before = sorted(part.rglob("*"))
    assert f"{part} belongs to node 2 of {grown}" in HERE.run("recover", part, expect=1).output
    assert f"Say: ottla recover {grown}" in HERE.run("recover", part, expect=1).output
    monkeypatch.setenv("PASSWORD", "correct horse")
    words = "users", "set", "anna", "--data-dir", part, "--password-env", "PASSWORD"
    assert "belongs to node 2" in HERE.run(*words, expect=1).output
    for more in ((), ("--nodes", 2)):
        assert "name that directory" in HERE.run("serve", "--data-dir", part, *more, expect=2).output
    checks = {one["check"]: one for one in HERE.json("doctor", "--data-dir", part, "--no-disk", expect=1)["checks"]}
    assert checks["directory"]["found"] == f"{part} belongs to node 2 of {grown}"
    assert "content" not in checks
    assert sorted(part.rglob("*")) == before


def test_a_dry_run_moves_nothing(grown: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in grown.rglob("*") if path.name != "LOCK"}
    said = HERE.run("cluster", "spread", grown, "--nodes", 2, "--dry-run").stdout
    assert "partitions would be moved." in said
    assert {path: path.stat().st_mtime_ns for path in before if path.is_file()} == {
        path: at for path, at in before.items() if path.is_file()
    }
    assert homes(grown)["orders"] is None


def test_what_was_interrupted_is_finished_and_nothing_starts_before(grown: Path) -> None:
    HERE.run("cluster", "spread", grown, "--nodes", 2)
    catalog = (grown / "catalog.json").read_text()
    # As if it had been ended right before its last step.
    (grown / "spread.json").write_text(
        json.dumps({"format": 1, "cluster_id": "x", "directories": {"1": ".", "2": "nodes/2"}, "epoch": 0,
                    "homes": homes(grown), "moves": []})
    )  # fmt: skip
    for option in ((), ("--nodes", "2")):
        refused = HERE.run("serve", "--data-dir", grown, *option, expect=2).output
        assert f"finish it with: ottla cluster spread {grown}" in refused
    HERE.run("cluster", "spread", grown, "--nodes", 2)
    assert not (grown / "spread.json").exists()
    assert (grown / "catalog.json").read_text() == catalog


def test_nothing_may_run(grown: Path) -> None:
    with Broker(data_dir=grown):
        refused = HERE.run("cluster", "spread", grown, "--nodes", 2, expect=1)
        assert "is in use by another process" in refused.output


def test_a_broker_that_was_killed_has_to_be_started_first(grown: Path) -> None:
    checkpoint = (grown / "checkpoint").read_bytes()
    assert b'"clean":true' in checkpoint
    with BrokerProcess(grown) as broker:
        broker.kill()
    refused = HERE.run("cluster", "spread", grown, "--nodes", 2, expect=1)
    assert "was not closed in order: start the nodes once, and stop them" in refused.output


def test_other_directories_are_refused(tmp_path: Path) -> None:
    refused = HERE.run("cluster", "spread", tmp_path, "--nodes", 2, expect=1)
    assert f"{tmp_path} is no data directory: there is no meta.properties" in refused.output
    refused = HERE.run("cluster", "status", tmp_path, expect=1)
    assert f"{tmp_path} is not a directory of several nodes" in refused.output
    assert f"ottla serve --data-dir {tmp_path} --nodes 3" in refused.output
    (tmp_path / CLUSTER_NAME).write_text("{}")
    assert "cluster.json cannot be read" in HERE.run("cluster", "status", tmp_path, expect=1).output


def test_status_of_a_directory(tmp_path: Path) -> None:
    with Nodes(tmp_path, 2) as nodes:
        document = HERE.json("cluster", "status", tmp_path)
        assert document["supervisor"] == nodes.process.pid
        assert [(row["node_id"], row["state"], row["address"]) for row in document["nodes"]] == [
            (1, "up", nodes.addresses[0]),
            (2, "up", nodes.addresses[1]),
        ]
        assert all(row["up_ms"] >= 0 and row["pid"] and row["epoch"] == 0 for row in document["nodes"])
        assert [row["group_shards"] for row in document["nodes"]] == [25, 25]
        assert HERE.rows("cluster", "status", tmp_path)[0][:3] == ["NODE", "STATE", "ADDRESS"]
        options = ("--data-dir", tmp_path, "--no-disk", "-b", nodes.addresses[1])
        checks = {one["check"]: one["found"] for one in HERE.json("doctor", *options)["checks"]}
        assert checks["nodes"] == "all 2 are up"
        assert ": 2 brokers of cluster " in checks["broker"]
    document = HERE.json("cluster", "status", tmp_path, expect=1)
    assert {(row["state"], row["why"], row["pid"]) for row in document["nodes"]} == {
        ("down", "no supervisor runs", None)
    }
    assert document["leaderless"] >= 50


def test_status_says_why_a_node_is_down(tmp_path: Path) -> None:
    damaged = tmp_path / "nodes/2/checkpoint"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"nothing")
    with Nodes(tmp_path, 2) as nodes:
        nodes.wait(2, lambda node: bool(node.why))
        (row,) = HERE.json("cluster", "status", tmp_path, expect=1)["nodes"][1:]
        assert row["state"] in ("down", "starting")
        assert "checkpoint is damaged" in row["why"]
        options = ("--data-dir", tmp_path, "--no-disk", "--listen", "0")
        checks = {one["check"]: one for one in HERE.json("doctor", *options, expect=1)["checks"]}
        assert checks["nodes"]["verdict"] == "fail"
        assert "node 2 is down: " in checks["nodes"]["found"]


def test_status_by_a_broker() -> None:
    with Broker(topics={"orders": 3}) as broker:
        address = broker.bootstrap_servers
        document = Ottla(address).json("cluster", "status")
    (row,) = document["nodes"]
    assert (row["node_id"], row["state"], row["address"]) == (1, "up", address)
    assert (row["group_shards"], document["leaderless"]) == (50, 0)
    assert row["partitions"] >= 53
