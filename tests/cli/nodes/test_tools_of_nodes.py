"""Commands that read a data directory read those of all nodes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from ottla.protocol.stored.cluster_file import CLUSTER_NAME, ClusterFile, NodeEntry, encode_cluster
from ottla.testing.broker import Broker
from tests.cli.commands import HERE, Ottla
from tests.cli.segment_files import flip


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of three nodes, with records in five partitions and a group; nothing runs."""
    data_dir: Path = tmp_path_factory.mktemp("nodes")
    with Broker(data_dir=data_dir, topics={"orders": 5}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        for partition in range(5):
            ottla.send("orders", b"one\ntwo\n", "--partition", str(partition))
        for group in ("billing", "mail", "search"):
            ottla.make_group(group)
    HERE.run("cluster", "spread", data_dir, "--nodes", 3)
    assert len(list(data_dir.glob("logs/orders-*"))) < 5
    return data_dir


def test_log_reads_the_partitions_of_all(three_nodes: Path) -> None:
    printed = HERE.run("log", "dump", three_nodes, "--print-data-log").stdout
    named = [line.split()[0] for line in printed.splitlines() if line.startswith("orders-")]
    assert named == [f"orders-{partition}" for partition in range(5)]
    assert (printed.count('value "one"'), printed.count('value "two"')) == (5, 5)
    verified = HERE.run("log", "verify", three_nodes).stdout.splitlines()
    assert {line.split()[0] for line in verified if line.startswith("orders-")} == {f"orders-{at}" for at in range(5)}


def test_offsets_are_those_of_all_groups(three_nodes: Path) -> None:
    rows = HERE.lines("offsets", "decode", three_nodes)
    assert {row["group"] for row in rows if "group" in row} >= {"billing", "mail", "search"}


def test_doctor_and_recover_look_at_each(three_nodes: Path) -> None:
    checks = {
        one["check"]: one["verdict"]
        for one in HERE.json("doctor", "--data-dir", three_nodes, "--no-disk", "--listen", "0")["checks"]
    }
    assert [checks[name] for name in ("content", "content of node 2", "content of node 3")] == ["ok", "ok", "ok"]
    assert HERE.json("recover", three_nodes)["problems"] == []
    checkpoint = three_nodes / "nodes/3/checkpoint"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(b"nothing")
    try:
        (problem, *_) = HERE.json("recover", three_nodes, expect=1)["problems"]
        assert str(checkpoint) in problem
        failed = HERE.json("doctor", "--data-dir", three_nodes, "--no-disk", "--listen", "0", expect=1)["checks"]
        assert [one["check"] for one in failed if one["verdict"] == "fail"] == ["content of node 3"]
    finally:
        checkpoint.write_bytes(whole)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """The directory while somebody else has it."""
    directory.mkdir(exist_ok=True)
    with (directory / "LOCK").open("a") as lock:
        flock(lock, LOCK_EX)
        yield


@pytest.mark.parametrize(
    ("entry", "verdict", "found"),
    [
        ({"state": "up"}, "ok", "all 2 are up"),
        ({"state": "up", "why": "it has not answered for 5 s"}, "warn", "node 2 is up: it has not answered for 5 s"),
        ({"state": "starting"}, "warn", "node 2 is starting"),
        ({"state": "starting", "why": "no room"}, "fail", "node 2 is down: no room"),
        ({"state": "down", "why": "no room"}, "fail", "node 2 is down: no room"),
    ],
)
def test_doctor_warns_of_a_node_that_hangs_or_starts(
    tmp_path: Path, entry: dict[str, str], verdict: str, found: str
) -> None:
    nodes = {1: NodeEntry(node_id=1, state="up"), 2: NodeEntry(node_id=2, directory="nodes/2", **entry)}
    (tmp_path / CLUSTER_NAME).write_bytes(encode_cluster(ClusterFile(cluster_id="x", supervisor_pid=1, nodes=nodes)))
    with locked(tmp_path / "nodes"):
        words = ("doctor", "--data-dir", tmp_path, "--no-disk", "--listen", "0")
        checks = {one["check"]: one for one in HERE.json(*words, expect=int(verdict == "fail"))["checks"]}
    assert (checks["nodes"]["verdict"], checks["nodes"]["found"]) == (verdict, found)


@pytest.fixture
def damaged(three_nodes: Path, tmp_path: Path) -> Path:
    """A copy of that directory in which the first node has a damaged log."""
    data_dir = Path(shutil.copytree(three_nodes, tmp_path / "data"))
    flip(_hit(data_dir), 70)
    return data_dir


def _hit(data_dir: Path) -> Path:
    return next(path for path in sorted(data_dir.glob("logs/orders-*/*.log")))


@pytest.mark.parametrize("where", ["nodes", "nodes/2"])
def test_nothing_is_given_up_while_another_node_runs(damaged: Path, where: str) -> None:
    """Or a supervisor, which may be about to start one."""
    before = _hit(damaged).read_bytes()
    with locked(damaged / where):
        assert f"{damaged / where} is in use" in HERE.run("recover", damaged, "--accept-loss", expect=1).stderr
    assert _hit(damaged).read_bytes() == before
    assert HERE.json("recover", damaged, "--accept-loss")["lost"]
    assert HERE.json("recover", damaged)["problems"] == []


def test_what_was_given_up_is_told_though_another_node_has_no_directory(damaged: Path) -> None:
    (damaged / "nodes/3/meta.properties").unlink()
    report = HERE.json("recover", damaged, "--accept-loss", expect=1)
    assert {row["log"] for row in report["lost"]} == {_hit(damaged).parent.name}
    (problem,) = report["cannot_be_mended"]
    assert str(damaged / "nodes/3/meta.properties") in problem
