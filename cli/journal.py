"""The journal of a data directory, read and checked beside a broker that may be running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.cli.output import Refused
from ottla.cli.segments import PartitionFiles, StoredBatch
from ottla.protocol.batch import BatchError, parse_header
from ottla.protocol.stored.frames import HEADER_BYTES, Kind
from ottla.protocol.stored.journal import JournalView, data_directory_of
from ottla.protocol.stored.names import LOGS_NAME, parse_directory_name, parse_journal_name

_MOST_LOOKS = 10


def with_journal(partitions: list[PartitionFiles], journal: JournalView) -> list[PartitionFiles]:
    """The partitions, and behind them those of which nothing has reached a segment yet."""
    names = sorted(set(journal.followed.places) - {one.path.name for one in partitions})
    alone = [(journal.data_dir / LOGS_NAME / name, parse_directory_name(name)) for name in names]
    return partitions + [PartitionFiles(path, *tp, ()) for path, tp in alone if tp is not None]


def journal_batches(view: JournalView, name: str, next_offset: int) -> Iterator[tuple[Path, StoredBatch]]:
    """The batches of a log that have ``next_offset`` or more, with their files."""
    for place in view.followed.places.get(name, ()):
        try:
            with place.path.open("rb") as file:
                file.seek(place.position)
                data = file.read(place.size)
            header = parse_header(data)
        except (BatchError, FileNotFoundError):
            return  # the file was recycled meanwhile: the segments have it now
        if header.base_offset != place.base_offset:
            return  # as well, and something else was written to it
        if header.base_offset >= next_offset:
            yield place.path, StoredBatch(place.position, header, data)


FRAME_HEADING = f"{'LSN':>14}  {'KIND':<6}  {'EPOCH':>5}  {'BYTES':>9}  {'SYNCED':>14}  LOG"


def frames_of(path: Path) -> Iterator[tuple[dict[str, Any], StoredBatch | None]]:
    """The frames of one file that follow each other, as rows of JSON, with the batches that they hold.

    Raises:
        Refused: it is not in the journal of a data directory.
    """
    root, first_lsn = data_directory_of(path.parent), parse_journal_name(path.name)
    if root is None or first_lsn is None:
        raise Refused(f"{path} is not in a journal.", "Name a file of the form DATA_DIR/journal/<lsn>.wal.")
    return _frames(JournalView(root), first_lsn)


def _frames(view: JournalView, first_lsn: int) -> Iterator[tuple[dict[str, Any], StoredBatch | None]]:
    names = {state.log_id: state.name for state in view.checkpoint.logs} if view.checkpoint is not None else {}
    reader = view.reader()
    for frame in reader.frames(first_lsn):
        if reader.first_lsn != first_lsn:
            break
        if frame.kind == Kind.LOG:
            names[frame.log_id] = frame.log_name
        position = frame.lsn - first_lsn
        row: dict[str, Any] = {
            "lsn": frame.lsn,
            "position": position,
            "kind": Kind(frame.kind).name.lower() if frame.kind in set(Kind) else str(frame.kind),
            "epoch": frame.epoch,
            "bytes": len(frame.body),
            "synced_lsn": frame.synced_lsn,
            "log": names.get(frame.log_id, f"log {frame.log_id}") if frame.log_id else "",
        }
        batch = None
        if frame.kind == Kind.BATCH:
            batch = StoredBatch(position + HEADER_BYTES, parse_header(frame.body), frame.body)
            row |= {"base_offset": batch.header.base_offset, "last_offset": batch.header.last_offset}
        yield row, batch


def frame_line(row: dict[str, Any]) -> str:
    """A frame under `FRAME_HEADING`."""
    offsets = f" {row['base_offset']}–{row['last_offset']}" if "base_offset" in row else ""
    return (
        f"{row['lsn']:>14}  {row['kind']:<6}  {row['epoch']:>5}  {row['bytes']:>9}  {row['synced_lsn']:>14}  "
        f"{row['log']}{offsets}"
    ).rstrip()


def followed_journal(view: JournalView) -> JournalView | None:
    """The journal, followed from the checkpoint on; None where there is nothing to follow.

    It is damaged if its reader's ``synced_lsn``, up to which it was certainly on the disk, is beyond its ``end_lsn``.
    """
    found = _followed(view)
    for _ in range(_MOST_LOOKS if view.in_use else 0):
        if found is None or found.followed.reader.synced_lsn <= found.followed.reader.end_lsn:
            return found
        # Where a broker is writing, the end that was met is soon not the end any more; damage stays where it is.
        again = _followed(JournalView(view.data_dir))
        if again is not None and again.followed.reader.end_lsn == found.followed.reader.end_lsn:
            return again
        found = again
    if view.in_use and found is not None:
        found.followed.reader.synced_lsn = found.followed.reader.end_lsn
    return found


def _followed(view: JournalView) -> JournalView | None:
    if view.is_clean:
        return None
    for _ in view.followed.reader.frames_beyond():
        pass
    return view
