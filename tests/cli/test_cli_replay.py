"""`ottla replay`: what it prints and its exit codes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from ottla.broker.core.events import Event, GenerationStarted
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.recording import beginning, json_line
from tests.cli.commands import HERE
from tests.core.world import World, join
from tests.observe.makers import HEADER

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=100)


@pytest.fixture
def events() -> list[Event]:
    world = World(CONFIG, 1)
    world.load()
    join(world, join(world, "").answer.member_id)
    world.advance_to(60_000)
    return world.events


def run(path: Path, events: list[Event], *options: str, first_seq: int = 1, expect: int = 0) -> Result:
    of_broker = {"version": "1.2", "node_id": 4, "started_ms": 0, "started_at_ms": 0, "partitions": 1}
    header = replace(HEADER, **of_broker, settings=asdict(CONFIG), first_seq=first_seq)
    lines = [json_line(seq, event) for seq, event in enumerate(events, first_seq)]
    path.write_bytes(beginning(header, as_json=True) + b"".join(lines))
    return HERE.run("replay", path, *options, expect=expect)


def test_the_same(tmp_path: Path, events: list[Event]) -> None:
    result = run(tmp_path / "e.jsonl", events)
    assert result.stdout.splitlines() == [
        f"{len(events)} events, of node 4 (Ottla 1.2) since 1970-01-01 00:00:00 UTC",
        f"Same: 8 inputs of 1 group led to the {len(events)} events that were recorded.",
    ]
    assert not result.stderr


def test_different(tmp_path: Path, events: list[Event]) -> None:
    at = next(index for index, event in enumerate(events) if isinstance(event, GenerationStarted))
    events[at] = replace(events[at], generation=9)
    result = run(tmp_path / "e.jsonl", events, expect=1)
    assert "Different: " in result.stdout
    assert f"  event {at + 1} of group g\n    recorded: GenerationStarted generation=9" in result.stdout
    told = json.loads(run(tmp_path / "e.jsonl", events, "--format", "json", expect=1).stdout)
    assert (told["same"], told["differences"][0]["seq"]) == (False, at + 1)


def test_a_beginning_that_is_missing_is_said(tmp_path: Path, events: list[Event]) -> None:
    result = run(tmp_path / "e.jsonl", events[8:], first_seq=9)
    assert "e.jsonl" not in result.stdout
    assert "the events before number 9 are not there any more" in result.stderr
    assert "left out, because their beginning is not recorded: g" in result.stderr


def test_what_is_missing_in_the_middle_is_said(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "e.jsonl"
    run(path, events)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], *lines[11:]]))
    result = HERE.run("replay", path)
    assert "the events 9 to 10 are missing" in result.stderr
    assert "played up to number 8" in result.stderr


def test_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "hello"
    path.write_text("hello")
    assert "is no recording of Ottla" in HERE.run("replay", path, expect=1).stderr
