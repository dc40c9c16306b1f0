"""`ottla timeline`: of a broker, of a recording, as lanes, as JSON and as a page."""

from __future__ import annotations

import json
import os
import pty
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec

from ottla.observe.timeline.model import Timeline
from ottla.testing.broker import Broker
from tests.cli.conftest import Join, Ottla, membership


def test_lanes(ottla: Ottla, join: Join) -> None:
    """Two members come, one leaves; a pipe gets ASCII."""
    join("billing", "alpha")
    beta = join("billing", "beta")
    beta.close()
    lines = ottla.run("timeline", "billing").stdout.splitlines()
    assert re.match(r"billing: \w+, generation \d+, \d+ rebalances, ", lines[0])
    lanes = {line.split()[0]: line for line in lines if line.startswith(("alpha", "beta"))}
    assert "#" in lanes["alpha"]
    assert re.search(r"#-!? *$", lanes["beta"]), "beta left"
    assert all(line.isascii() for line in lines)
    assert any("beta" in line and "joined" in line for line in lines), "the stories are below"


def test_json_and_last(ottla: Ottla, join: Join) -> None:
    join("billing", "alpha")
    join("billing", "beta")
    whole = ottla.json("timeline", "-G", "billing")
    assert whole["group_id"] == "billing"
    assert {lane["client_id"] for lane in whole["lanes"]} == {"alpha", "beta"}
    assert [mark["number"] for mark in whole["marks"]] == list(range(1, len(whole["marks"]) + 1))
    last = ottla.json("timeline", "billing", "--last", "1")
    assert [mark["number"] for mark in last["marks"]] == [len(whole["marks"])]
    assert msgspec.convert(whole, Timeline).is_live


def test_a_page(ottla: Ottla, join: Join, tmp_path: Path) -> None:
    join("billing", "alpha")
    path = tmp_path / "billing.html"
    result = ottla.run("timeline", "billing", "--html", str(path))
    assert "no network is needed" in result.stderr
    text = path.read_text()
    assert '"group_id":"billing"' in text
    assert "src=" not in text.partition("<script")[0]
    missing = ottla.run("timeline", "billing", "--html", str(tmp_path / "no" / "where.html"), expect=1)
    assert "No such file or directory" in missing.stderr


def test_a_terminal(ottla: Ottla, join: Join) -> None:
    """Coloured blocks, as wide as it is."""
    join("billing", "alpha")
    main, other = pty.openpty()
    environment = {"COLUMNS": "90", "TERM": "xterm-256color"}
    with ottla.spawn("timeline", "billing", stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        shown = b""
        try:
            while chunk := os.read(main, 65_536):
                shown += chunk
        except OSError:
            pass  # the other end is closed: it is over
    os.close(main)
    assert process.returncode == 0
    text = shown.decode()
    assert "█" in text
    assert "\x1b[32m" in text
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 90


def test_what_is_not_there(ottla: Ottla) -> None:
    assert "nobody" in ottla.run("timeline", "nobody", expect=1).stderr
    assert "Name a group" in ottla.run("timeline", expect=2).stderr
    assert "Name one group" in ottla.run("timeline", "a", "-G", "b", expect=2).stderr


def test_http_has_the_same(ottla_broker_factory: Callable[..., Broker]) -> None:
    """There it is made with pauses."""
    broker = ottla_broker_factory(topics={"orders": 3}, http=True)
    with membership(broker.bootstrap_servers, "billing", "alpha"):
        pass
    shown = Ottla(broker.bootstrap_servers).json("timeline", "billing")
    with urllib.request.urlopen(f"{broker.http_url}/v1/groups/billing/timeline") as answer:
        served = json.load(answer)
    assert served["marks"] == shown["marks"]
    assert served["lanes"] == shown["lanes"]
    assert [mark["cause"] for mark in served["marks"]] == ["group-started", "left-closed"]


def test_a_recording(ottla_broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    """The same lanes without a broker."""
    path = tmp_path / "events.rec"
    broker = ottla_broker_factory(topics={"orders": 3}, settings={"ottla.recorder.file": str(path)})
    ottla = Ottla(broker.bootstrap_servers)
    with membership(broker.bootstrap_servers, "billing", "alpha"):
        live = msgspec.convert(ottla.json("timeline", "billing"), Timeline)
    broker.stop()
    read = msgspec.convert(ottla.json("timeline", "billing", "--file", str(path)), Timeline)
    assert not read.is_live
    assert [lane.tenants[0].member_id for lane in read.lanes] == [lane.tenants[0].member_id for lane in live.lanes]
    assert read.marks[0].headline == live.marks[0].headline
    assert "alpha" in ottla.run("timeline", "billing", "--file", str(path)).stdout
    assert "no group 'other'" in ottla.run("timeline", "other", "--file", str(path), expect=1).stderr
    assert ottla.run("timeline", "billing", "--file", str(tmp_path / "none"), expect=1).stderr
