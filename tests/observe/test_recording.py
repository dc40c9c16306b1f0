"""The file of a recording: what is read is what was written, through rotation, damage and a full disk."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ottla.broker.core.events import (
    Commit,
    CommitReceived,
    Event,
    GroupLoaded,
    JoinReceived,
    LoadedMember,
    NamedBytes,
    OwnershipChanged,
    PendingCommit,
    StateChanged,
)
from ottla.observe import recording_writer
from ottla.observe.recorder import Recorder
from ottla.observe.recording import (
    HEAD,
    MAGIC,
    NoRecording,
    earlier_parts,
    frame,
    json_line,
    open_recording,
)
from ottla.observe.recording_writer import RecordingWriter
from tests.observe.http.fakes import Lines
from tests.observe.makers import HEADER, event_of
from tests.shell.host import Clock


@pytest.fixture(params=["events.rec", "events.jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where it is recorded, in each form."""
    return tmp_path / str(request.param)


class Loop(Clock, Lines):
    """Clock, event loop and log of a writer."""

    def __init__(self) -> None:
        Clock.__init__(self)
        Lines.__init__(self)

    def soon(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def tick(self) -> None:
        self.advance(recording_writer.HAND_OVER_MS)


def samples(count: int) -> Iterator[Event]:
    for number in range(count):
        common: dict[str, Any] = {"number": number, "client_id": "ü", "client_host": "/::1", "member_id": ""}
        yield event_of(
            JoinReceived,
            group_id="g/ü",
            at_ms=number,
            wall_ms=number,
            generation=-1,
            rebalance_timeout_ms=-1,
            protocols=[NamedBytes("range", b"\x00\xff" * 10)],
            **common,
        )
        yield StateChanged(group_id="g", cause=number, before="Empty", after="Stable", generation=2**31 - 1)
        commits = [Commit("t", 0, 2**63 - 1, -1, None, 3), Commit("t", 1, 0, 0, "m", 0, 7, 8, b"\x01" * 16)]
        yield event_of(CommitReceived, commits=commits, **common)
        yield event_of(
            GroupLoaded,
            cause=number,
            loaded=[LoadedMember("m", None, "c", "/h", 1, 2, b"s", b"")],
            commits=[Commit("t", 0, 1, 2, "")],
            pending=[PendingCommit(5, True, Commit("t", 0, 1, 2, ""))],
            is_recorded=False,
        )
        yield OwnershipChanged(group_id="", cause=0, number=number, partition=1, state="loaded", groups=0)


def writer_of(path: Path, loop: Loop, *, run_id: str = "run", **limits: int) -> RecordingWriter:
    limits = {"limit_bytes": 1 << 30, "limit_parts": 3} | limits
    return RecordingWriter(path, replace(HEADER, run_id=run_id), **limits, clock=loop, soon=loop.soon, log=loop)


def record(path: Path, events: list[Event], loop: Loop, **options: Any) -> Recorder:
    recorder = Recorder(1 << 20)
    recorder.file = writer = writer_of(path, loop, **options)
    writer.start(1)
    for number, event in enumerate(events):
        recorder(event)
        if number % 10 == 9:
            loop.tick()
    writer.close()
    return recorder


def test_what_is_read_is_what_was_written(path: Path) -> None:
    events = list(samples(30))
    record(path, events, Loop())
    recording = open_recording(path)
    assert recording.header == HEADER
    assert list(recording.events()) == events
    assert [seq for seq, _ in recording.entries()] == list(range(1, 151))
    assert (recording.notes, recording.unknown, recording.starts_in_the_middle) == ([], 0, False)


def test_json_lines_are_plain_json(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl", list(samples(1)), Loop())
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert msgspec.json.decode(lines[0])["ottla_recording"] == 1
    second = msgspec.json.decode(lines[2])
    assert second["seq"] == 2
    assert second["event"] == "StateChanged"
    assert second["generation"] == 2**31 - 1


def test_parts_are_set_aside_and_the_oldest_go(path: Path) -> None:
    events = list(samples(400))
    record(path, events, Loop(), limit_bytes=40_000)
    earlier = earlier_parts(path)
    assert len(earlier) == 3
    assert all(40_000 <= one.stat().st_size < 50_000 for one in earlier)
    recording = open_recording(path)
    numbered = list(recording.entries())
    first = numbered[0][0]
    assert recording.starts_in_the_middle
    assert first > 1
    assert [event for _, event in numbered] == events[first - 1 :]
    assert recording.notes == [f"the events before number {first} are not there any more"]
    until = open_recording(earlier[1])
    assert until.parts == earlier[:2]
    middle = list(until.entries())
    assert middle == numbered[: middle[-1][0] - first + 1]
    assert len(middle) < len(numbered)


def test_an_earlier_run_is_kept_and_not_mixed_in(path: Path) -> None:
    first, second = list(samples(2)), list(samples(3))
    record(path, first, Loop(), run_id="one")
    record(path, second, Loop(), run_id="two")
    recording = open_recording(path)
    assert list(recording.events()) == second
    (earlier,) = earlier_parts(path)
    assert recording.notes == [f"this is one run of the broker; what was before its start is in {earlier}"]
    recording = open_recording(earlier)
    assert list(recording.events()) == first
    assert recording.notes == []


def test_two_brokers_do_not_share_a_file(path: Path) -> None:
    first = list(samples(2))
    writer, other = writer_of(path, Loop()), writer_of(path, Loop(), run_id="other")
    writer.start(1)
    with pytest.raises(OSError, match="another broker records in it"):
        other.start(1)
    writer.close()
    assert not earlier_parts(path)
    record(path, first, Loop(), run_id="other")
    assert list(open_recording(path).events()) == first


def test_each_earlier_run_is_named_by_its_last_part(path: Path) -> None:
    first, second, third = list(samples(80)), list(samples(2)), list(samples(3))
    record(path, first, Loop(), run_id="one", limit_bytes=20_000, limit_parts=9)
    parts_of_first = len(earlier_parts(path)) + 1
    assert parts_of_first > 1
    record(path, second, Loop(), run_id="two", limit_parts=9)
    record(path, third, Loop(), run_id="three", limit_parts=9)
    *_, last_of_first, only_of_second = earlier_parts(path)
    recording = open_recording(path)
    assert list(recording.events()) == third
    where = f"{only_of_second}, {last_of_first}"
    assert recording.notes == [f"this is one run of the broker; what was before its start is in {where}"]
    recording = open_recording(last_of_first)
    assert len(recording.parts) == parts_of_first
    assert list(recording.events()) == first
    last_of_first.write_bytes(b"damaged")
    assert list(open_recording(path).events()) == third


def test_a_torn_end_is_noted_wherever_it_is(path: Path) -> None:
    events = list(samples(3))
    record(path, events, Loop())
    whole = path.read_bytes()
    sizes = {len(list(open_recording(path).events()))}
    for end in range(len(whole) - 1, len(whole) - 700, -1):
        path.write_bytes(whole[:end])
        recording = open_recording(path)
        found = list(recording.events())
        assert found == events[: len(found)]
        assert recording.notes in ([], [f"{path.name}: its end was torn off; the last event is not whole"])
        sizes.add(len(found))
    assert sizes == set(range(min(sizes), len(events) + 1))
    assert len(sizes) > 3


def test_a_folder_is_refused_and_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "events.rec").mkdir()
    (tmp_path / "events.rec" / "dear").touch()
    writer = writer_of(tmp_path / "events.rec", Loop())
    with pytest.raises(IsADirectoryError):
        writer.start(1)
    assert [one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*")] == ["events.rec", "events.rec/dear"]


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (b"", b"hello", b"{}\n", b"{", b"[1]", MAGIC, MAGIC + b"\0" * 5, MAGIC + frame(0, b"\xc0")):
        path.write_bytes(data)
        with pytest.raises(NoRecording, match="is no recording of Ottla"):
            open_recording(path)
    with pytest.raises(NoRecording, match="No such file"):
        open_recording(tmp_path / "nothing")
    later = msgspec.structs.asdict(HEADER) | {"ottla_recording": 2}
    path.write_bytes(msgspec.json.encode(later) + b"\n")
    with pytest.raises(NoRecording, match="version 2"):
        open_recording(path)


def test_events_of_a_later_version_are_skipped_and_damage_is_told(path: Path) -> None:
    event = next(samples(1))
    record(path, [event], Loop())
    as_json = path.suffix == ".jsonl"
    encode = msgspec.json.encode if as_json else msgspec.msgpack.encode
    for seq, more in ((2, {"event": "Later", "group_id": "g"}), (3, {"event": "StateChanged", "cause": "x"})):
        data = encode({"seq": seq, **more})
        with open(path, "ab") as file:
            file.write(data + b"\n" if as_json else frame(seq, data))
    with open(path, "ab") as file:
        data = msgspec.msgpack.encode(event)
        file.write(json_line(9, event) if as_json else frame(9, data))
    recording = open_recording(path)
    assert list(recording.entries()) == [(1, event), (2, None), (9, event)]
    assert recording.unknown == 1
    assert list(open_recording(path).events()) == [event, event]
    trouble, gap = recording.notes
    assert trouble.startswith(f"{path.name}: event number 3 cannot be read")
    assert gap == f"{path.name}: the events 3 to 8 are missing"


def test_a_damaged_length_ends_a_part(tmp_path: Path) -> None:
    path = tmp_path / "events.rec"
    record(path, list(samples(1)), Loop())
    with open(path, "ab") as file:
        file.write(HEAD.pack(2**32 - 1, 6) + b"x" * 100)
    recording = open_recording(path)
    assert len(list(recording.events())) == 5
    assert recording.notes == ["events.rec: what follows event number 6 is damaged"]


class FullDisk:
    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(data[: self.room])
        self.room -= written
        return int(written)

    def fileno(self) -> int:
        return int(self.file.fileno())

    def close(self) -> None:
        self.file.close()


def test_a_full_disk_ends_the_recording_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, events = Loop(), list(samples(100))

    def open_small(path: Path, mode: str, **more: Any) -> FullDisk:
        return FullDisk(open(path, mode, **more), 10_000)

    monkeypatch.setattr(recording_writer, "open", open_small, raising=False)
    recorder = record(path, events, loop)
    assert recorder.file is not None
    assert recorder.file.failed == "No space left on device"
    assert recorder.file_failed
    assert loop.lines == [("error", "Recording has ended, the broker goes on: the file cannot be written")]
    assert recorder.last_seq == len(events)
    assert len(recorder.events("g")) == 300
    recording = open_recording(path)
    found = list(recording.events())
    assert found == events[: len(found)]
    assert 20 < len(found) < 100


def test_a_slow_disk_costs_events_and_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "MOST_WAITING_BYTES", 10_000)
    loop, events = Loop(), list(samples(100))
    held: list[tuple[Any, ...]] = []
    loop.soon = lambda *call: held.append(call)  # type: ignore[method-assign]
    recorder = record(tmp_path / "events.rec", events, loop)
    assert recorder.file is not None
    assert 100 < recorder.file.lost_events < 500
    found = list(open_recording(tmp_path / "events.rec").events())
    assert found == events[: len(found)]
    assert len(found) + recorder.file.lost_events == len(events)


def test_the_loop_hands_over_after_a_while_or_when_it_is_much(tmp_path: Path) -> None:
    loop = Loop()
    recorder = Recorder(0)
    recorder.file = writer = writer_of(tmp_path / "e.rec", loop, limit_parts=1)
    writer.start(1)
    (event, *_) = samples(1)
    recorder(event)
    recorder(event)
    assert len(loop.timers) == 1
    loop.tick()
    for _ in range(5000):
        recorder(event)
    assert len(loop.timers) > 2
    writer.close()
    assert len(list(open_recording(tmp_path / "e.rec").events())) == 5002
