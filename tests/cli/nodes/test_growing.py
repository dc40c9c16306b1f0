"""A broker that becomes several nodes and one again, with what its clients have left there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ottla.testing.process import BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.support.nodes import Nodes

LINES = sorted(f"line {number}" for number in range(60))


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """The directory of a broker that was stopped, with lines in six partitions, half of which a group has read."""
    with BrokerProcess(tmp_path, topics={"orders": 6}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        for partition in range(6):
            part = "\n".join(LINES[10 * partition : 10 * partition + 10]) + "\n"
            ottla.send("orders", part.encode(), "--partition", str(partition))
        ottla.run("groups", "reset-offsets", "billing", "-t", "orders", "--to-offset", "5", "--execute", "--create")
    return tmp_path


def check(bootstrap: str) -> None:
    """Everything is there, wherever it is asked for."""
    ottla = Ottla(bootstrap)
    read = ottla.read("orders", "--from-beginning", "--max-messages", "60").decode()
    assert sorted(read.splitlines()) == LINES
    rows = [line.split() for line in ottla.run("groups", "describe", "billing", "--offsets").stdout.splitlines()]
    assert [row[2:5] for row in rows if row[:1] == ["orders"]] == [["5", "10", "5"]] * 6


def led(data_dir: Path) -> Counter[int]:
    return Counter({row["node_id"]: row["partitions"] for row in HERE.json("cluster", "status", data_dir)["nodes"]})


def test_what_is_there_stays_at_home(grown: Path) -> None:
    with Nodes(grown, 2) as nodes:
        assert led(grown)[2] == 0
        for address in nodes.addresses:
            check(address)
        Ottla(nodes.addresses[1]).run("topics", "create", "more", "--partitions", "4")
        assert led(grown)[2] == 4  # new ones go where there are fewest
        Ottla(nodes.addresses[0]).run("topics", "delete", "more")
    with BrokerProcess(grown) as broker:
        check(broker.bootstrap_servers)


def test_it_is_spread_and_put_together_again(grown: Path) -> None:
    for count in (3, 2):
        HERE.run("cluster", "spread", grown, "--nodes", count)
        with Nodes(grown, count) as nodes:
            held = led(grown)
            assert max(held.values()) - min(held.values()) <= 4  # kinds are counted apart
            for address in nodes.addresses:
                check(address)
    HERE.run("cluster", "spread", grown, "--nodes", 1)
    with BrokerProcess(grown) as broker:
        check(broker.bootstrap_servers)
    said = HERE.json("recover", grown)
    assert said["problems"] == []
