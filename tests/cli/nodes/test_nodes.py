"""`ottla serve --nodes N` with real processes: they die, come back, and end with their supervisor."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue

import pytest

from ottla.cli.node_processes import NodeProcesses
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.stored.cluster_file import DOWN, UP, read_cluster
from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.support.client import Client
from tests.support.nodes import Nodes
from tests.support.processes import run
from tests.support.waiting import wait_for


def is_alive(pid: int) -> bool:
    """Whether a process of somebody's child runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def test_nodes_live_and_die(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with Nodes(tmp_path / "data", 2, "--ready-file", str(ready), "--log-format", "json") as nodes:
        assert ready.read_text() == nodes.process.bootstrap_servers + "\n"
        assert [node.address for node in nodes.cluster.nodes.values()] == nodes.addresses
        assert [node.directory for node in nodes.cluster.nodes.values()] == [".", "nodes/2"]
        assert all(map(answers, nodes.addresses))
        doors = [node.endpoints["NODES"] for node in nodes.cluster.nodes.values()]
        assert [host for host, _ in doors] == ["127.0.0.1", "127.0.0.1"]
        assert all(answers(f"{host}:{port}") for host, port in doors)
        assert os.getpgid(nodes.node(1).pid) != os.getpgid(nodes.process.pid)  # Ctrl-C reaches the supervisor alone

        before = nodes.node(2)
        group = next(name for name in map(str, range(100)) if coordinator_partition(name, 50) % 2)  # by turns
        with Client(int(before.address.rpartition(":")[2])) as member:
            generation = member.stable(group).generation_id
        nodes.signal(2)
        after = nodes.wait_up(2, after=before)
        told = Ottla(nodes.process.bootstrap_servers).run("why", group).stdout
        assert "node 2; nobody rebalanced" in told
        assert f"was at generation {generation}" in told
        assert (after.address, after.epoch) == (before.address, before.epoch + 1)
        assert nodes.node(1).epoch == 0
        pids = [node.pid for node in nodes.cluster.nodes.values()]
        assert nodes.process.stop() == 0
        assert [node.state for node in nodes.cluster.nodes.values()] == [DOWN, DOWN]
        assert nodes.cluster.supervisor_pid == 0
        assert not any(map(is_alive, pids))
        assert not ready.exists()
        lines = [json.loads(line) for line in nodes.process.log_text().splitlines()]
        assert [line.get("reason") for line in lines if line["level"] == "error"] == ["it was ended by SIGKILL"]
        assert {line["node"] for line in lines if line["event"] == "Stopped"} == {1, 2}


def test_what_is_no_report_is_passed_over() -> None:
    """A library may print anything, and that may be JSON."""
    printed = "print(5)\nprint([1])\nprint('hello')\nprint('{\"why\": \"x\"}')"
    told: SimpleQueue[tuple[object, ...]] = SimpleQueue()
    processes = NodeProcesses(lambda node_id: [sys.executable, "-c", printed], lambda _, *words: told.put(words))
    processes.reported = processes.ended = lambda node_id, told: None
    processes.start(2)
    assert [told.get(timeout=30), told.get(timeout=30)] == [(2, {"why": "x"}), (2, 0)]


def test_a_file_that_cannot_be_written_keeps_nobody_from_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "ready.tmp").mkdir()  # it is written there before it gets its name
    with Nodes(tmp_path / "data", 2, "--ready-file", str(tmp_path / "ready"), "--log-format", "json") as nodes:
        assert len(nodes.addresses) == 2
        lines = [json.loads(line) for line in nodes.process.log_text().splitlines()]
        (line,) = [line for line in lines if line["level"] == "error"]
        assert line["file"] == str(tmp_path / "ready") and "Is a directory" in line["reason"]


def test_a_first_line_that_cannot_be_printed_is_in_the_log(tmp_path: Path) -> None:
    words = ("serve", "--nodes", "1", "--ephemeral", "--listen", "127.0.0.1:0", "--log-format", "json")
    with (
        Path("/dev/full").open("w") as full,
        (tmp_path / "log").open("w") as log,
        HERE.spawn(*words, stdout=full, stderr=log) as process,
    ):
        try:
            wait_for(lambda: '"nodes": 1' in (tmp_path / "log").read_text(), "the supervisor is ready")
        finally:
            process.terminate()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["level"] == "error"]
    assert "No space left" in line["reason"]
    assert line["listen"] in [one["listen"] for one in lines if one["event"] == "Ready"]


def test_ids_and_the_cluster_stay(tmp_path: Path) -> None:
    with Nodes(tmp_path, 2) as nodes:
        first = nodes.cluster.cluster_id
    metas = [(tmp_path / one / "meta.properties").read_text().splitlines() for one in (".", "nodes/2")]
    assert [f"cluster.id={first}" in meta for meta in metas] == [True, True]
    assert [[line for line in meta if line.startswith("node.id")] for meta in metas] == [["node.id=1"], ["node.id=2"]]
    with Nodes(tmp_path, 2) as nodes:
        assert nodes.cluster.cluster_id == first


def test_nodes_end_when_their_supervisor_is_killed_and_the_next_one_waits_for_them(tmp_path: Path) -> None:
    with Nodes(tmp_path, 2) as nodes:
        before = nodes.cluster.nodes
        nodes.process.kill()
        with Nodes(tmp_path, 2) as others:
            assert [node.state for node in others.cluster.nodes.values()] == [UP, UP]
            assert not any(is_alive(node.pid) for node in before.values())


def test_a_directory_has_one_supervisor_and_no_broker_beside_it(tmp_path: Path) -> None:
    with Nodes(tmp_path, 1) as nodes:
        with pytest.raises(RuntimeError, match="in use by another process"):
            Nodes(tmp_path, 1).process.start()
        said = HERE.run("serve", "--data-dir", tmp_path, expect=2)
        assert f"{tmp_path} is in use: its nodes run, and have a supervisor" in said.output
        assert f"supervisor (pid {nodes.process.pid}); stop it or choose" in " ".join(said.output.split())
    with BrokerProcess(tmp_path), pytest.raises(RuntimeError, match="in use by another process"):
        Nodes(tmp_path, 1).process.start()


def test_one_that_cannot_start_does_not_stop_the_others(tmp_path: Path) -> None:
    checkpoint = tmp_path / "nodes/2/checkpoint"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"nothing")
    with Nodes(tmp_path, 2) as nodes:
        assert nodes.addresses == [nodes.node(1).address]
        assert str(checkpoint) in nodes.wait(2, lambda node: node.state == DOWN).why
        checkpoint.unlink()
        assert nodes.wait(2, lambda node: node.state == UP).why == ""
        assert nodes.process.log_text().count("Node does not start") == 1


def test_a_disk_that_takes_nothing_for_a_while(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    with Nodes(tmp_path, 2) as nodes:
        before = nodes.cluster
        file.unlink()
        file.mkdir()
        os.kill(before.nodes[2].pid, signal.SIGKILL)
        wait_for(lambda: "Nodes cannot be told who is up" in nodes.process.log_text(), "the error")
        assert is_alive(before.nodes[1].pid)
        file.rmdir()
        wait_for(file.exists, "the file")
        assert nodes.wait_up(2, after=before.nodes[2]).address == before.nodes[2].address


def test_none_can_start(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"nothing")
    with pytest.raises(RuntimeError, match="No node starts"):
        Nodes(tmp_path, 1).process.start()


@pytest.mark.parametrize("option", ["--listen", "--http"])
def test_no_node_starts_where_another_process_has_a_port_of_one(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = {"--listen": "127.0.0.1:0", option: f"127.0.0.1:{port - 1}"}.items()
        said = HERE.run("serve", "--nodes", "3", "--data-dir", tmp_path, *chain(*arguments), expect=1)
    assert "cannot listen on 127.0.0.1:" in said.output
    assert re.search(rf"Port {port}(, for HTTP,)? is taken", said.output)
    assert f"{option} 127.0.0.1:{port - 1}" not in said.output.partition("To have your own beside it")[2]
    assert not (tmp_path / "journal").exists()  # nobody has looked at it


def test_a_node_that_finds_its_port_taken_tries_again_and_reads_nothing(tmp_path: Path) -> None:
    with Nodes(tmp_path, 2) as nodes:
        before = nodes.node(2)
        nodes.signal(2)
        host, _, port = before.address.rpartition(":")
        with wait_for(lambda: taken_of(host, int(port)), "the port"):
            nodes.wait(2, lambda node: node.state == DOWN and "in use" in node.why)
        assert nodes.wait_up(2, after=before).epoch == before.epoch + 1
        assert "group events are lost" not in nodes.process.log_text()


def taken_of(host: str, port: int) -> socket.socket | None:
    """Somebody's socket at this address, if it is free."""
    with suppress(OSError):
        return socket.create_server((host, port))
    return None


def refuses(nodes: Nodes, why: str) -> bool:
    """Whether the supervisor has said so."""
    return any("no node is restarted" in line and why in line for line in nodes.process.log_text().splitlines())


def test_sighup_restarts_one_after_the_other(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("num.partitions=1\n")
    with Nodes(tmp_path / "data", 2, "--config", str(settings)) as nodes:
        before = nodes.cluster.nodes
        unreadable = f"listeners=SSL://127.0.0.1:0\nssl.keystore.location={tmp_path}/none.pem\n"
        for refused, why in (("num.partitions=none\n", "num.partitions"), (unreadable, "none.pem")):
            settings.write_text(refused)
            os.kill(nodes.process.pid, signal.SIGHUP)
            wait_for(partial(refuses, nodes, why), f"the refusal of {why}")
        assert nodes.cluster.nodes == before
        settings.write_text("num.partitions=2\n")
        os.kill(nodes.process.pid, signal.SIGHUP)
        wait_for(lambda: "Rolling restart is through" in nodes.process.log_text(), "the rolling restart")
        after = nodes.cluster.nodes
        assert [(node.state, node.epoch) for node in after.values()] == [(UP, 1), (UP, 1)]
        assert [node.address for node in after.values()] == [node.address for node in before.values()]
        assert after[1].since_ms <= after[2].since_ms


def test_any_free_ports_stay_as_long_as_the_supervisor_lives(tmp_path: Path) -> None:
    with Nodes(tmp_path, 2, "--listen", "127.0.0.1:0", "--http", "0") as nodes:
        before = nodes.node(2)
        nodes.signal(2)
        after = nodes.wait_up(2, after=before)
        assert (after.address, after.http) == (before.address, before.http)
        assert len({node.address for node in nodes.cluster.nodes.values()}) == 2


def test_all_come_back_where_they_were(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, nodes=2, http=True) as process:
        first, second = process.bootstrap_servers.split(",")
        assert (first, second) == (f"127.0.0.1:{process.port}", f"127.0.0.1:{process.port + 1}")
        process.kill()
        assert process.restart().bootstrap_servers == f"{first},{second}"


AT_A_TERMINAL = """
import os, pty, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.executable, [sys.executable, "-m", "ottla.cli", "serve", "--nodes", "1", "--listen", "127.0.0.1:0",
                              "--data-dir", sys.argv[1]])
shown = b""
while b"nodes=1" not in shown:
    shown += os.read(terminal, 4096).replace(b"\\x1b[36m", b"").replace(b"\\x1b[0m", b"").replace(b"\\x1b[35m", b"")
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_nodes_end_with_the_terminal_and_are_not_restarted(tmp_path: Path) -> None:
    """The signal is the same."""
    assert run(sys.executable, "-c", AT_A_TERMINAL, tmp_path) == "0\n"
    cluster = read_cluster(tmp_path)
    assert cluster is not None
    assert [(node.state, node.epoch) for node in cluster.nodes.values()] == [(DOWN, 0)]


def test_nodes_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = BrokerProcess(None, arguments=("--nodes", "2"))
    with process:
        (shared,) = tmp_path.glob("ottla-*")
        nodes = Nodes(shared, 2)
        before = nodes.node(2)
        nodes.signal(2)
        assert nodes.wait_up(2, after=before).epoch == before.epoch + 1
        assert len(process.bootstrap_servers.split(",")) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--set listeners=NODES://localhost:9092 --set listener.security.protocol.map=NODES:PLAINTEXT",
         "give yours another name"),
        ("--listen 65534", "leaves too few ports below 65536"),
        ("--listen 9092 --http 9093", "PLAINTEXT://localhost:9092 and HTTP at 9093 would meet"),
        ("--set listeners=A://localhost:9092,B://localhost:9094 --set listener.security.protocol.map="
         "A:PLAINTEXT,B:PLAINTEXT", "A://localhost:9092 and B://localhost:9094 would meet"),
    ],
)  # fmt: skip
def test_ports_that_would_meet_are_refused(tmp_path: Path, options: str, said: str) -> None:
    refused = HERE.run("serve", "--nodes", "3", "--data-dir", tmp_path, *options.split(), expect=2)
    assert said in refused.output


def catalog(directory: Path, homes: dict[str, list[int]]) -> None:
    """A catalog of topics with a partition at each of these homes."""
    rows = {
        name: {"topic_id": "00000000-0000-0000-0000-00000000000a", "partitions": len(at), "configs": {}, "homes": at}
        for name, at in homes.items()
    }
    directory.mkdir(exist_ok=True)
    (directory / "nodes").mkdir()
    (directory / "catalog.json").write_text(json.dumps({"format": 1, "state": {"format": 2, "topics": rows}}))


def test_fewer_nodes_than_homes_are_refused(tmp_path: Path) -> None:
    catalog(tmp_path, {"orders": [1, 2, 3, 4], "more": [4]})
    refused = HERE.run("serve", "--nodes", "2", "--data-dir", tmp_path, expect=2)
    assert "at home on node 3 (1 partition), node 4 (2 partitions); say --nodes 4" in " ".join(refused.output.split())
    assert f"ottla cluster spread {tmp_path} --nodes 2" in refused.output
    refused = HERE.run("serve", "--data-dir", tmp_path, expect=2)
    assert f"{tmp_path}: this directory belongs to 4 nodes: say --nodes 4" in refused.output
