"""`ottla why`, `timeline` and `replay` on what several nodes have recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from ottla.broker.core.events import Event
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.recording import beginning, json_line
from ottla.protocol.apis import ApiKey
from tests.cli.commands import HERE
from tests.core.world import World, join
from tests.observe.makers import HEADER
from tests.observe.why.story import assigned
from tests.support.requests import sync_fields

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=100)


def write(path: Path, node_id: int, events: Sequence[Event]) -> None:
    path.parent.mkdir(exist_ok=True)
    started = {"started_ms": events[0].wall_ms, "started_at_ms": events[0].at_ms}
    header = replace(
        HEADER, version="1.2", node_id=node_id, run_id=str(node_id), partitions=1, settings=asdict(CONFIG), **started
    )
    lines = [json_line(seq, event) for seq, event in enumerate(events, 1)]
    path.write_bytes(beginning(header, as_json=True) + b"".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The group began at node 1 and went on at node 2."""
    world = World(CONFIG, 1)
    world.load()
    member_id = join(world, "").answer.member_id
    join(world, member_id)
    world.advance_to(1_000)
    given = assigned({"orders": [0, 1]})
    world.send("c", ApiKey.SYNC_GROUP, 5, sync_fields("g", 1, member_id, {member_id: given}))
    world.advance_to(2_000)
    world.coordinator.unload(0, world.now_ms, world.wall_ms)
    world.settle()
    first = list(world.events)
    world.advance_to(2_500)
    world.restart()
    world.advance_to(3_000)
    write(tmp_path / "e-1.jsonl", 1, first)
    write(tmp_path / "e-2.jsonl", 2, world.events[len(first) :])
    (tmp_path / "notes.txt").write_text("not a recording")
    return tmp_path


def places(folder: Path) -> list[list[object]]:
    """All ways to name both."""
    return [[folder], [folder / "e.jsonl"], [folder / "e-2.jsonl", folder / "e-1.jsonl"]]


def options(paths: Sequence[object]) -> list[object]:
    return [word for path in paths for word in ("--file", path)]


@pytest.mark.parametrize("way", range(3))
def test_the_story_goes_on_at_another_node(folder: Path, way: int) -> None:
    files = options(places(folder)[way])
    told = json.loads(HERE.run("why", "g", "--last", 9, *files, "--format", "json").stdout)["episodes"]
    assert [one["number"] for one in told] == [1, 2, 3]
    assert [one["kind"] for one in told] == ["rebalance", "stopped", "loaded"]
    text = HERE.run("why", "g", *files).stdout.splitlines()
    assert text[0].startswith("rebalance 1 ")
    assert text[-2].endswith("node 1 stopped, or its coordinator moved to another.")
    assert text[-1].endswith("the coordinator came to node 2; nobody rebalanced.")
    assert HERE.run("why", *files).stdout == "g\n"


def test_a_timeline_is_of_the_node_that_had_the_group_last(folder: Path) -> None:
    drawn = HERE.run("timeline", "g", "--file", folder)
    assert "The coordinator came to node 2; nobody rebalanced." in drawn.stdout
    assert (
        f"This is of {folder / 'e-2.jsonl'}, of node 2. The group is also in {folder / 'e-1.jsonl'}, of node 1: "
        in drawn.stderr
    )
    alone = HERE.run("timeline", "g", "--file", folder / "e-1.jsonl")
    assert not alone.stderr
    assert "came to" not in alone.stdout


def test_a_timeline_looks_at_each_recording_of_a_node(folder: Path) -> None:
    """A broker that was started twice has two."""
    first, second = folder / "e-1.jsonl", folder / "e-2.jsonl"
    second.write_bytes(second.read_bytes().replace(b'"node_id":2', b'"node_id":1'))
    for files in ([first, second], [second, first]):
        drawn = HERE.run("timeline", "g", *options(files))
        assert "The coordinator came to node 1; nobody rebalanced." in drawn.stdout
        assert f"This is of {second}, of node 1. The group is also in {first}, of node 1: " in drawn.stderr


def test_each_node_is_played_back_by_itself(folder: Path) -> None:
    lines = HERE.run("replay", folder).stdout.splitlines()
    assert [" of node 1 " in lines[0], " of node 2 " in lines[2]] == [True, True]
    assert all(line.startswith("Same: ") for line in lines[1::2])
    told = json.loads(HERE.run("replay", folder, "--format", "json").stdout)
    assert [(one["node_id"], one["same"]) for one in told] == [(1, True), (2, True)]


def test_what_differs_at_one_node_differs(folder: Path) -> None:
    other = (folder / "e-1.jsonl").read_bytes()
    changed = other.replace(b'"before":"Stable","after":"Dead"', b'"before":"Empty","after":"Dead"')
    assert changed != other
    (folder / "e-1.jsonl").write_bytes(changed)
    HERE.run("replay", folder, expect=1)


def test_a_folder_without_a_recording(tmp_path: Path) -> None:
    assert "there is no recording in it" in HERE.run("why", "g", "--file", tmp_path, expect=1).stderr
    assert "there is no recording in it" in HERE.run("replay", tmp_path, expect=1).stderr
