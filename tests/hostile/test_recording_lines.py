"""A recording that somebody sends: no event in it, and no number of lines, makes its readers grow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import msgpack

from ottla.broker.core.events import TopicDeleted
from ottla.observe.recording import (
    HEAD,
    LARGEST_BYTES,
    MOST_NOTES,
    NoRecording,
    beginning,
    open_recording,
)
from tests.observe.makers import HEADER
from tests.observe.test_recording import Loop, writer_of

HUGE_BYTES = 400 << 20
MOST_BYTES = 80 << 20
"""A reader takes half of it, most of that for its own modules."""
READ = """
import sys
from click.testing import CliRunner
from ottla.cli.main import command
for options in (["replay"], ["why", "--file"], ["timeline", "group", "--file"]):
    result = CliRunner().invoke(command, [*options, sys.argv[1]])
    print(result.exit_code, result.output.strip())
status = open("/proc/self/status", encoding="ascii").read()
print(int(status.partition("VmHWM:")[2].split()[0]) << 10)
"""


def with_a_huge_event(path: Path) -> int:
    """Write a recording whose first event is huge; return the byte at which that begins."""
    is_json = path.suffix == ".jsonl"
    begin = beginning(HEADER, as_json=is_json)
    with path.open("wb") as file:
        file.write(begin + (b'{"seq":1,"x":"' if is_json else HEAD.pack(HUGE_BYTES, 1)))
        file.truncate(len(begin) + HEAD.size + HUGE_BYTES)  # takes no room on the disk
    return len(begin)


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["events.jsonl", "events.rec"])
def test_a_huge_event_is_refused_by_all_who_read_recordings(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    begin = with_a_huge_event(path)
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    *told, peak_bytes = done.stdout.splitlines()
    assert int(peak_bytes) < MOST_BYTES
    assert [line.rstrip(".") for line in told] == [
        f"1 Error: {path}, byte {begin}: no event takes more than 8 MiB, and this one does"
    ] * 3


@pytest.mark.parametrize("name", ["events.jsonl", "events.rec"])
def test_a_huge_header_is_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(b'{"x":"' if name == "events.jsonl" else b"ottla-recording\n" + HEAD.pack(3, 0))
        file.truncate(HUGE_BYTES)
    with pytest.raises(NoRecording, match="is no recording of Ottla"):
        open_recording(path)


def test_lines_that_cannot_be_read_are_told_so_many_times(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    nested = b"[" * 100_000
    path.write_bytes(beginning(HEADER, as_json=True) + (b'{"seq":1,"x":' + nested + b"\n") + b"x\n" * 100_000)
    recording = open_recording(path)
    assert list(recording.entries()) == []
    assert len(recording.notes) == MOST_NOTES + 1


@pytest.mark.parametrize("name", ["events.jsonl", "events.rec"])
def test_no_event_is_written_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    writer = writer_of(tmp_path / name, Loop())
    writer.start(1)
    for seq, size in enumerate((1, LARGEST_BYTES, 1), 1):
        event = TopicDeleted(group_id="", cause=0, number=seq, topic="t" * size)
        writer.write(seq, msgpack.encode(event), event)
    writer.close()
    recording = open_recording(tmp_path / name)
    assert [seq for seq, _ in recording.entries()] == [1, 3]
    assert recording.notes == [f"{name}: the events 2 to 2 are missing"]
    assert writer.lost_events == 1
