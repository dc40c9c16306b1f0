"""The journal of a data directory, read beside a broker that may be running.

What was appended last is in the journal and not yet, or not certainly, in the segments. A reader of segments that wants
all of a log reads them as far as the checkpoint vouches for them, and goes on with the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.log_rows import INTERNAL, record_json, record_line, records_of
from ottla.cli.output import Refused, print_json, say
from ottla.cli.segments import StoredBatch, partition_of
from ottla.protocol.batch import BatchError
from ottla.protocol.batch import parse_header as parse_batch_header

if TYPE_CHECKING:
    from ottla.broker.storage.local.checkpoint import Checkpoint
    from ottla.broker.storage.local.frames import Frame
    from ottla.broker.storage.local.recovery import JournalReader

DIRECTORY = "journal"
WAL = ".wal"
_MOST_LOOKS = 10


class Place(NamedTuple):
    """Where the body of a frame lies."""

    path: Path
    position: int
    size: int


def data_directory_of(path: Path) -> Path | None:
    """The data directory that a path is in, if it has a journal."""
    path = path.absolute()
    for directory in (path, *path.parents[:3]):
        if (directory / DIRECTORY).is_dir() and (directory / "meta.properties").is_file():
            return directory
    return None


class JournalView:
    """What the journal of a data directory has beyond its checkpoint, at the moment of looking.

    ``in_use`` says that a broker has the directory open: then segments can be read to their ends.
    """

    def __init__(self, data_dir: Path, *, in_use: bool) -> None:
        from ottla.broker.storage.local.files import OsFiles

        self.data_dir = data_dir
        self.in_use = in_use
        self._files = OsFiles()

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """None if there is none that can be read."""
        from ottla.broker.storage.engine import Corrupt
        from ottla.broker.storage.local.checkpoint import decode_checkpoint

        path = self.data_dir / "checkpoint"
        try:
            return decode_checkpoint(path.read_bytes(), str(path))
        except (OSError, Corrupt):
            return None

    def reader(self) -> JournalReader:
        """A reader of the frames as they are now."""
        from ottla.broker.storage.local.recovery import JournalReader

        return JournalReader(self._files, str(self.data_dir / DIRECTORY))

    def trusted(self, name: str) -> tuple[int, int] | None:
        """The base offset of the last segment of a log that can be trusted, and how many bytes of it; None for all.

        ``name`` is that of the log's directory.
        """
        if self.in_use or self.checkpoint is None or self.checkpoint.clean:
            return None
        for state in self.checkpoint.logs:
            if state.name == name:
                return (state.next_offset - 1, -1) if state.segment is None else (state.segment, state.length)
        return (-1, 0)

    @cached_property
    def _places(self) -> dict[str, list[Place]]:
        """The batches of the journal by the directories of their logs, in order."""
        from ottla.broker.storage.local.frames import HEADER_BYTES, Kind

        if self.checkpoint is None or self.checkpoint.clean:
            return {}
        names = {state.log_id: state.name for state in self.checkpoint.logs}
        found: dict[str, list[Place]] = {}
        reader = self.reader()
        for frame in reader.frames(self.checkpoint.lsn):
            if frame.kind == Kind.LOG:
                names[frame.log_id] = log_name(frame)
                found.pop(names[frame.log_id], None)  # a log of that name began anew
            elif frame.kind == Kind.BATCH and frame.log_id in names:
                path = Path(reader.paths[reader.first_lsn])
                place = Place(path, frame.lsn - reader.first_lsn + HEADER_BYTES, len(frame.body))
                found.setdefault(names[frame.log_id], []).append(place)
        return found

    def names(self) -> set[str]:
        """The directories of the logs that have batches here."""
        return set(self._places)

    def batches(self, name: str, next_offset: int) -> Iterator[tuple[Path, StoredBatch]]:
        """The batches of a log, with their files, that have ``next_offset`` or more."""
        for place in self._places.get(name, ()):
            with place.path.open("rb") as file:
                file.seek(place.position)
                data = file.read(place.size)
            try:
                header = parse_batch_header(data)
            except BatchError:
                return  # the file was recycled meanwhile: the segments have it now
            if header.base_offset >= next_offset:
                yield place.path, StoredBatch(place.position, header, data)


def print_journal(path: Path, with_records: bool, as_json: bool) -> None:
    """The frames of one file that follow each other, as lines or as JSON.

    Raises:
        Refused: it is not in the journal of a data directory.
    """
    from ottla.broker.storage.local.frames import HEADER_BYTES, Kind
    from ottla.broker.storage.local.journal import parse_journal_name

    root, first_lsn = data_directory_of(path.parent), parse_journal_name(path.name)
    if root is None or first_lsn is None:
        raise Refused(f"{path} is not in a journal.", "Name a file of the form DATA_DIR/journal/<lsn>.wal.")
    view = JournalView(root, in_use=True)
    names = {state.log_id: state.name for state in view.checkpoint.logs} if view.checkpoint is not None else {}
    reader = view.reader()
    if not as_json:
        say(str(path), bold=True)
        say(f"  {'LSN':>14}  {'KIND':<6}  {'EPOCH':>5}  {'BYTES':>9}  {'SYNCED':>14}  LOG")
    for frame in reader.frames(first_lsn):
        if reader.first_lsn != first_lsn:
            break
        if frame.kind == Kind.LOG:
            names[frame.log_id] = log_name(frame)
        name = names.get(frame.log_id, f"log {frame.log_id}") if frame.log_id else ""
        kind = Kind(frame.kind).name.lower() if frame.kind in set(Kind) else str(frame.kind)
        position = frame.lsn - first_lsn
        row: dict[str, Any] = {
            "lsn": frame.lsn,
            "position": position,
            "kind": kind,
            "epoch": frame.epoch,
            "bytes": len(frame.body),
            "synced_lsn": frame.synced_lsn,
            "log": name,
        }
        batch = None
        if frame.kind == Kind.BATCH:
            batch = StoredBatch(position + HEADER_BYTES, parse_batch_header(frame.body), frame.body)
        _print_frame(row, batch, name, with_records, as_json)


def _print_frame(row: dict[str, Any], batch: StoredBatch | None, name: str, with_records: bool, as_json: bool) -> None:
    topic = (partition_of(name) or ("", 0))[0]
    decode_as = topic if topic in INTERNAL else None
    records = list(records_of(batch)) if batch is not None and with_records else []
    if as_json:
        if batch is not None:
            row |= {"base_offset": batch.header.base_offset, "last_offset": batch.header.last_offset}
            if with_records:
                row["records"] = [record_json(record, batch, decode_as) for record in records]
        print_json(row, indent=None)
        return
    offsets = "" if batch is None else f" {batch.header.base_offset}–{batch.header.last_offset}"
    say(
        f"  {row['lsn']:>14}  {row['kind']:<6}  {row['epoch']:>5}  {row['bytes']:>9}  {row['synced_lsn']:>14}  "
        f"{name}{offsets}".rstrip()
    )
    for record in records:
        if batch is not None:
            say(*f"    | {record_line(record, batch, decode_as)}".split("\n"))


class JournalFaults(NamedTuple):
    """What checking a journal found."""

    frames: int
    first_lsn: int
    end_lsn: int
    """Where the frames that follow each other end."""
    synced_lsn: int
    """How far it was certainly on the disk."""
    path: Path | None
    """The file in which they end."""
    position: int

    @property
    def is_damaged(self) -> bool:
        return self.end_lsn < self.synced_lsn


def check_journal(view: JournalView) -> JournalFaults | None:
    """Follow the frames from the checkpoint on; None where there is nothing to follow."""
    found = _follow(view)
    for _ in range(_MOST_LOOKS if view.in_use else 0):
        if found is None or not found.is_damaged:
            return found
        # Where a broker is writing, the end that was met is soon not the end any more; damage stays where it is.
        again = _follow(JournalView(view.data_dir, in_use=True))
        if again is not None and again.end_lsn == found.end_lsn:
            return again
        found = again
    return found if not view.in_use or found is None else found._replace(synced_lsn=found.end_lsn)


def _follow(view: JournalView) -> JournalFaults | None:
    checkpoint = view.checkpoint
    if checkpoint is None or checkpoint.clean:
        return None
    reader = view.reader()
    count = sum(1 for _ in reader.frames(checkpoint.lsn))
    path = Path(reader.paths[reader.first_lsn]) if reader.first_lsn >= 0 else None
    position = reader.end_lsn - max(reader.first_lsn, 0)
    for _ in reader.frames_beyond():
        pass
    synced = max(reader.synced_lsn, checkpoint.synced_lsn)
    return JournalFaults(count, checkpoint.lsn, reader.end_lsn, synced, path, position)


def log_name(frame: Frame) -> str:
    """The directory of the log that a frame begins."""
    return frame.body[16:].decode(errors="replace")
