"""The file of a recording: every event of the coordinator, in its order, and what a reader must know besides.

A recording is one file, or several parts of which the last one has the given name. There are two forms, told apart by
the first bytes; docs/recorder.md describes them for other programs:

- msgpack: the line ``ottla-recording``, then frames: the length of what follows (4 bytes), the event's number
  (8 bytes), the event. The first frame has the number 0 and is the header.
- JSON lines: the header, then one event a line, with its number as ``seq``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from struct import Struct as Packed
from struct import error as StructError
from typing import Any, BinaryIO, TypeAlias

import msgspec

from ottla.broker.core import events
from ottla.broker.core.events import Event

FORMAT = 1
"""The version of the form. Readers refuse what has a higher one; new kinds of events and fields do not change it."""

MAGIC = b"ottla-recording\n"
HEAD = Packed(">IQ")
LARGEST_BYTES = 8 << 20
"""No event takes more in the file: what is larger is not written, and not read."""
LARGEST_HEADER_BYTES = 1 << 20
MOST_NAMED = 5
"""So many earlier runs are named."""
MOST_NOTES = 100
"""So much that is missing is told; the rest in one note."""


class NoRecording(Exception):
    """A file is no recording, or cannot be read; the message says why."""


class Header(msgspec.Struct, kw_only=True):
    """The beginning of a recording.

    Attributes:
        ottla_recording: the version of the form.
        version, node_id, cluster_id: of the broker.
        run_id: the same in all parts of one run of a broker, and in no other.
        started_ms: when the broker started, in Unix time; started_at_ms: on the clock of ``at_ms``.
        part: counts from 1; first_seq: the number of the first event that may be in this part.
        partitions: of ``__consumer_offsets``.
        settings: of the coordinator; what settings were not at their default besides is not told.
        hashed: what was made unrecognizable: ``group.ids``, ``client.hosts``.
    """

    ottla_recording: int = FORMAT
    version: str
    node_id: int
    cluster_id: str
    run_id: str
    started_ms: int
    started_at_ms: int
    part: int = 1
    first_seq: int = 1
    partitions: int
    settings: dict[str, int | str]
    hashed: list[str] = msgspec.field(default_factory=list)


# Writing

_json = msgspec.json.Encoder().encode
_msgpack = msgspec.msgpack.Encoder().encode


def is_json(path: Path) -> bool:
    """True if a recording of that name is written as JSON lines."""
    return path.suffix in (".jsonl", ".json", ".ndjson")


def json_line(seq: int, event: Event) -> bytes:
    """An event as a line."""
    return b'{"seq":%d,%b\n' % (seq, _json(event)[1:])


def frame(seq: int, data: bytes) -> bytes:
    """An event that is msgpack already as a frame."""
    return HEAD.pack(len(data) + 8, seq) + data


def beginning(header: Header, *, as_json: bool) -> bytes:
    """The first bytes of a part."""
    return _json(header) + b"\n" if as_json else MAGIC + frame(0, _msgpack(header))


_ASIDE = re.compile(r"(.+)\.\d{6,}")
"""The stem of an earlier part."""


def part_path(path: Path, part: int) -> Path:
    """The name of an earlier part: ``events.rec`` → ``events.000001.rec``."""
    return path.with_name(f"{path.stem}.{part:06}{path.suffix}")


def earlier_parts(path: Path) -> list[Path]:
    """The parts before the last one that are there, in their order."""
    pattern = re.compile(re.escape(path.stem) + r"\.(\d{6,})" + re.escape(path.suffix))
    found = [(int(match[1]), one) for one in path.parent.glob("*") if (match := pattern.fullmatch(one.name))]
    return [one for _, one in sorted(found)]


# Reading

_KINDS = {one.__name__: one for one in vars(events).values() if isinstance(one, type) and issubclass(one, Event)}
_ANY_EVENT: Any = reduce(or_, _KINDS.values())
_decode_msgpack: Callable[[bytes], Event] = msgspec.msgpack.Decoder(_ANY_EVENT).decode
_decode_json: Callable[[bytes], Event] = msgspec.json.Decoder(_ANY_EVENT).decode

Numbered: TypeAlias = tuple[int, Event | None]
"""An event with its number; None where this version does not know its kind."""


class Recording:
    """The events of one run of a broker, from as many parts as there are.

    Attributes:
        header: of the first part.
        notes: what was found to be missing, and where earlier runs are, in words; grows while events are read.
        unknown: how many events were skipped because this version does not know their kind.
    """

    def __init__(self, header: Header, parts: list[Path], earlier_runs: Sequence[Path] = ()) -> None:
        self.header = header
        self.parts = parts
        self.notes: list[str] = []
        self.unknown = 0
        if self.starts_in_the_middle:
            self.notes.append(f"the events before number {header.first_seq} are not there any more")
        if earlier_runs:
            names = ", ".join(str(one) for one in earlier_runs[:MOST_NAMED])
            more = f" and {len(earlier_runs) - MOST_NAMED} more" if len(earlier_runs) > MOST_NAMED else ""
            self.notes.append(f"this is one run of the broker; what was before its start is in {names}{more}")

    @property
    def starts_in_the_middle(self) -> bool:
        """True if the first events are missing."""
        return self.header.first_seq > 1

    def events(self) -> Iterator[Event]:
        """The events in their order."""
        return (event for _, event in self.entries() if event is not None)

    def entries(self) -> Iterator[Numbered]:
        """All that is there with its numbers: what is of an unknown kind, too."""
        due = self.header.first_seq
        for path in self.parts:
            for seq, event in self._read(path):
                if seq > due:
                    self._note(f"{path.name}: the events {due} to {seq - 1} are missing")
                due = seq + 1
                self.unknown += event is None
                yield seq, event

    def _read(self, path: Path) -> Iterator[Numbered]:
        with open(path, "rb") as file:
            _, is_lines = _read_header(file, path)
            for seq, event, trouble in (_lines if is_lines else _frames)(file, path):
                if trouble:
                    self._note(f"{path.name}: {trouble}")
                else:
                    yield seq, event

    def _note(self, text: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.append(text)
        elif len(self.notes) == MOST_NOTES:
            self.notes.append("more is missing, or cannot be read")


def open_recording(path: Path | str) -> Recording:
    """Open the recording of that name: the newest run of a broker in it, with all parts of it that are left.

    The last part of an earlier run stands for that run: ``events.000003.rec`` is read with the parts before it that
    the same run wrote. Runs are not mixed, as each counts its events and reads its clock from the start.

    An end that was torn off, as by a crash, is noted and no error.

    Raises:
        NoRecording: it is none, or of a newer version. Reading the events raises it too, of one that is too large.
    """
    path = Path(path)
    header = newest = _header(path)
    parts, earlier_runs = [path], list[Path]()
    run_id = newest.run_id
    for earlier in reversed(_before(path)):
        try:
            one = _header(earlier)
        except NoRecording:
            if run_id == newest.run_id:
                raise
            continue  # an earlier run that cannot be read is none to point at
        if one.run_id == newest.run_id:
            parts.insert(0, earlier)
            header = one
        elif one.run_id != run_id:
            earlier_runs.append(earlier)
        run_id = one.run_id
    return Recording(header, parts, earlier_runs)


def recordings_at(path: Path) -> list[Path]:
    """The names of the recordings that a name stands for, in the order of their nodes.

    Several nodes of one machine write ``events-1.rec`` and ``events-2.rec`` where one writes ``events.rec``: unless
    there is a file of that name, it stands for these. A directory stands for all recordings that are in it.

    Raises:
        NoRecording: there is none.
    """
    if path.is_dir():
        found = [one for one in sorted(path.iterdir()) if one.is_file() and not _ASIDE.fullmatch(one.stem)]
        found = [one for one in found if _is_recording(one)]
        if not found:
            raise NoRecording(f"{path}: there is no recording in it")
    elif path.exists():
        return [path]
    else:
        pattern = re.compile(re.escape(path.stem) + r"-\d+" + re.escape(path.suffix))
        found = [one for one in path.parent.glob("*") if pattern.fullmatch(one.name)] or [path]
    return sorted(found, key=lambda one: (_header(one).node_id, one.name))


def _is_recording(path: Path) -> bool:
    try:
        _header(path)
    except NoRecording:
        return False
    return True


def _before(path: Path) -> list[Path]:
    """The parts before one, in their order, whether it is the last one or set aside."""
    aside = _ASIDE.fullmatch(path.stem)
    if aside is None:
        return earlier_parts(path)
    parts = earlier_parts(path.with_name(aside[1] + path.suffix))
    return parts[: parts.index(path)] if path in parts else []


def _header(path: Path) -> Header:
    try:
        with open(path, "rb") as file:
            return _read_header(file, path)[0]
    except OSError as error:
        raise NoRecording(f"{path}: {error.strerror or error}") from error


def _read_header(file: BinaryIO, path: Path) -> tuple[Header, bool]:
    """The header, and whether lines follow."""
    begin = file.read(len(MAGIC))
    is_lines = begin[:1] == b"{"
    try:
        if is_lines:
            found = msgspec.json.decode(begin + file.readline(LARGEST_HEADER_BYTES))
        elif begin == MAGIC:
            size, _ = HEAD.unpack(file.read(HEAD.size))
            found = msgspec.msgpack.decode(file.read(min(max(size - 8, 0), LARGEST_HEADER_BYTES)))
        else:
            raise ValueError("it does not begin like one")
        if (version := found["ottla_recording"]) > FORMAT:
            raise NoRecording(f"{path} has version {version} of the form; this Ottla reads up to {FORMAT}")
        return msgspec.convert(found, Header), is_lines
    except (ValueError, TypeError, KeyError, StructError, RecursionError, msgspec.DecodeError) as wrong:
        raise NoRecording(f"{path} is no recording of Ottla: {wrong}") from wrong


_Read: TypeAlias = Iterator[tuple[int, Event | None, str]]
"""Number, event, and what is wrong with it, if anything is."""


def _too_large(path: Path, position: int) -> NoRecording:
    return NoRecording(
        f"{path}, byte {position}: no event takes more than {LARGEST_BYTES >> 20} MiB, and this one does"
    )


def _frames(file: BinaryIO, path: Path) -> _Read:
    while head := file.read(HEAD.size):
        if len(head) < HEAD.size:
            yield 0, None, TORN
            return
        size, seq = HEAD.unpack(head)
        if size > LARGEST_BYTES and path.stat().st_size - file.tell() >= size - 8:
            raise _too_large(path, file.tell() - HEAD.size)
        if not 8 <= size <= LARGEST_BYTES:
            yield 0, None, f"what follows event number {seq} is damaged" if seq else TORN
            return
        data = file.read(size - 8)
        if len(data) < size - 8:
            yield 0, None, TORN
            return
        yield _read_event(seq, data, _decode_msgpack, _kind_msgpack)


def _lines(file: BinaryIO, path: Path) -> _Read:
    while line := file.readline(LARGEST_BYTES + 1):
        if len(line) > LARGEST_BYTES:
            raise _too_large(path, file.tell() - len(line))
        if not line.endswith(b"\n"):
            yield 0, None, TORN
            return
        try:
            seq = msgspec.json.decode(line, type=_Seq).seq
        except (msgspec.DecodeError, RecursionError) as wrong:
            yield 0, None, f"a line cannot be read: {wrong}"
            continue
        yield _read_event(seq, line, _decode_json, _kind_json)


TORN = "its end was torn off; the last event is not whole"


class _Seq(msgspec.Struct):
    seq: int


class _Kind(msgspec.Struct):
    event: str


_kind_msgpack = msgspec.msgpack.Decoder(_Kind).decode
_kind_json = msgspec.json.Decoder(_Kind).decode


def _read_event(
    seq: int, data: bytes, decode: Callable[[bytes], Event], kind: Callable[[bytes], _Kind]
) -> tuple[int, Event | None, str]:
    try:
        return seq, decode(data), ""
    except (msgspec.DecodeError, RecursionError) as wrong:
        try:
            if kind(data).event not in _KINDS:
                return seq, None, ""
        except (msgspec.DecodeError, RecursionError):
            pass
        return seq, None, f"event number {seq} cannot be read: {wrong}"
