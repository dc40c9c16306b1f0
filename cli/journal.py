"""The journal of a data directory, printed and checked beside a broker that may be running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ottla.cli.log_rows import INTERNAL, record_json, record_line, records_of
from ottla.cli.output import Refused, print_json, say
from ottla.cli.segments import PartitionFiles, StoredBatch
from ottla.protocol.batch import BatchError, parse_header
from ottla.protocol.stored.frames import HEADER_BYTES, Kind
from ottla.protocol.stored.journal import JournalView, data_directory_of
from ottla.protocol.stored.names import LOGS_NAME, parse_directory_name, parse_journal_name

_MOST_LOOKS = 10


def with_journal(partitions: list[PartitionFiles], journal: JournalView) -> list[PartitionFiles]:
    """The partitions, and behind them those of which nothing has reached a segment yet."""
    names = sorted(set(journal.places) - {one.path.name for one in partitions})
    alone = [(journal.data_dir / LOGS_NAME / name, parse_directory_name(name)) for name in names]
    return partitions + [PartitionFiles(path, *tp, ()) for path, tp in alone if tp is not None]


def journal_batches(view: JournalView, name: str, next_offset: int) -> Iterator[tuple[Path, StoredBatch]]:
    """The batches of a log that have ``next_offset`` or more, with their files."""
    for place in view.places.get(name, ()):
        with place.path.open("rb") as file:
            file.seek(place.position)
            data = file.read(place.size)
        try:
            header = parse_header(data)
        except BatchError:
            return  # the file was recycled meanwhile: the segments have it now
        if header.base_offset >= next_offset:
            yield place.path, StoredBatch(place.position, header, data)


def print_journal(path: Path, with_records: bool, as_json: bool) -> None:
    """The frames of one file that follow each other, as lines or as JSON.

    Raises:
        Refused: it is not in the journal of a data directory.
    """
    root, first_lsn = data_directory_of(path.parent), parse_journal_name(path.name)
    if root is None or first_lsn is None:
        raise Refused(f"{path} is not in a journal.", "Name a file of the form DATA_DIR/journal/<lsn>.wal.")
    view = JournalView(root)
    names = {state.log_id: state.name for state in view.checkpoint.logs} if view.checkpoint is not None else {}
    reader = view.reader()
    if not as_json:
        say(str(path), bold=True)
        say(f"  {'LSN':>14}  {'KIND':<6}  {'EPOCH':>5}  {'BYTES':>9}  {'SYNCED':>14}  LOG")
    for frame in reader.frames(first_lsn):
        if reader.first_lsn != first_lsn:
            break
        if frame.kind == Kind.LOG:
            names[frame.log_id] = frame.log_name
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
            batch = StoredBatch(position + HEADER_BYTES, parse_header(frame.body), frame.body)
        _print_frame(row, batch, name, with_records, as_json)


def _print_frame(row: dict[str, Any], batch: StoredBatch | None, name: str, with_records: bool, as_json: bool) -> None:
    tp = parse_directory_name(name)
    decode_as = tp.topic if tp is not None and tp.topic in INTERNAL else None
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
    """The result of checking a journal."""

    frames: int
    first_lsn: int
    end_lsn: int
    """The end of the frames that follow each other."""
    synced_lsn: int
    """It was certainly on the disk up to here."""
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
        again = _follow(JournalView(view.data_dir))
        if again is not None and again.end_lsn == found.end_lsn:
            return again
        found = again
    return found if not view.in_use or found is None else found._replace(synced_lsn=found.end_lsn)


def _follow(view: JournalView) -> JournalFaults | None:
    if view.checkpoint is None or view.is_clean:
        return None
    reader = view.followed.reader
    path = Path(reader.paths[reader.first_lsn]) if reader.first_lsn >= 0 else None
    position = reader.end_lsn - max(reader.first_lsn, 0)
    for _ in reader.frames_beyond():
        pass
    return JournalFaults(
        view.followed.frame_count, view.checkpoint.lsn, reader.end_lsn, reader.synced_lsn, path, position
    )
