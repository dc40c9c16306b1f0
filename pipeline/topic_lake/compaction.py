"""Few large files for the many small ones of a day that is over.

The new files are written aside, read back and counted; then the day's folder and the new one change places in one
step (`ottla.pipeline.topic_lake.swap`): whoever lists the folder then finds the one or the other. Until that step
nothing has happened, and after it all has: a run that was killed is begun anew, and what it left is removed.

A reader that has listed a day and has not opened all its files yet cannot find them any more after that step. Whoever
reads for long reads a snapshot (`ottla.pipeline.topic_lake.snapshot`), of which nothing ever changes.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.pipeline.topic_lake.folder import BAD, LakeError, Step, TopicFolder, no_step
from ottla.pipeline.topic_lake.snapshot import remove_old
from ottla.pipeline.topic_lake.swap import CannotSwap, swap
from ottla.pipeline.whole_files import sync

if TYPE_CHECKING:
    import pyarrow as pa

TARGET_BYTES = 128 << 20
MEMORY_BYTES = 256 << 20
"""Size of the rows that are sorted at a time; about three times as much is used."""

_LARGE = 0.75  # a file of this share of the target stays as it is
_ROWS_AT_A_TIME = 65_536


class Compacted(NamedTuple):
    """The result for a day: ``part`` is ``""`` for rows, ``_bad`` for bad ones.

    Attributes:
        skipped: why it was left as it is; empty if it was not.
    """

    part: str
    day: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    skipped: str = ""


class _Changed(Exception):
    """Files of the day went away while they were read."""


def compact(
    path: str | Path,
    *,
    before: date | None = None,
    target_bytes: int = TARGET_BYTES,
    memory_bytes: int = MEMORY_BYTES,
    readers_stopped: bool = False,
    told: Callable[[Compacted], None] | None = None,
    step: Step = no_step,
) -> list[Compacted]:
    """Rewrite the days of a topic's folder that are over. What is large enough stays as it is, so that a second run
    does nothing, and one after late rows little. A stream may write meanwhile.

    Args:
        path: the topic's folder.
        before: days before this one; by default today, in UTC.
        target_bytes: how large files become, about.
        memory_bytes: see `MEMORY_BYTES`.
        readers_stopped: nobody reads: where the file system cannot exchange folders in one step, do it in two.
        told: called with every day.
        step: tests crash there.

    Raises:
        LakeError: it is no topic's folder, somebody compacts it already, a file is damaged, or the file system cannot
            exchange two folders.
    """
    folder = TopicFolder(path, step)
    folder.check()
    limit = (before or datetime.now(UTC).date()).isoformat()
    done = []
    with folder.only("compaction"):
        _tidy(folder)
        for part in ("", BAD):
            for day in folder.days(part):
                # The day of times that have none is never over.
                if len(day) == len("date=2026-11-22") and day.removeprefix("date=") < limit:
                    done.append(_day(folder, part, day, target_bytes, memory_bytes, readers_stopped))
                    if told is not None:
                        told(done[-1])
    return done


def _tidy(folder: TopicFolder) -> None:
    """Finish what a writer that crashed has noted, and remove what a compaction that crashed has left."""
    with folder.changing():
        for left in folder.staging.glob("compact-*"):
            old, noted = left / "old", left / "day"
            # A crash between the two steps of --readers-stopped: the day's rows are there and nowhere else.
            if old.is_dir() and (left / "fresh").is_dir():
                home = folder.path / noted.read_text("utf-8")
                home.mkdir(exist_ok=True)
                for file in old.iterdir():
                    os.rename(file, home / file.name)
            shutil.rmtree(left)
    remove_old(folder)


def _day(
    folder: TopicFolder, part: str, day: str, target_bytes: int, memory_bytes: int, readers_stopped: bool
) -> Compacted:
    files = folder.files(part, day)
    sizes = {file: file.stat().st_size for file in files}
    small = [file for file in files if sizes[file] < _LARGE * target_bytes]
    total = sum(sizes.values())
    wanted = -(-sum(sizes[file] for file in small) // target_bytes)
    if len(small) <= max(wanted, 1):
        return Compacted(part, day, len(files), len(files), total, total, 0, "compact already")
    place = folder.staging / f"compact-{uuid.uuid4().hex[:8]}"
    fresh = place / "fresh"
    fresh.mkdir(parents=True)
    (place / "day").write_text(str(Path(part) / day), "utf-8")
    folder.step("begun")
    try:
        rows = _rewrite(small, fresh, target_bytes, memory_bytes)
        folder.step("written")
        with folder.changing():
            _link_others(folder, part, day, small, fresh)
            folder.step("linked")
            _exchange(folder, fresh, folder.path / part / day, place, readers_stopped)
            folder.step("swapped")
    except _Changed as changed:
        shutil.rmtree(place)
        return Compacted(part, day, len(files), len(files), total, total, 0, str(changed))
    shutil.rmtree(place)
    folder.step("removed")
    after = folder.files(part, day)
    return Compacted(part, day, len(files), len(after), total, sum(one.stat().st_size for one in after), rows)


def _link_others(folder: TopicFolder, part: str, day: str, replaced: list[Path], fresh: Path) -> None:
    """Large files, and those that a stream has added meanwhile, stand in the new folder under their own names."""
    now = folder.files(part, day)
    if gone := set(replaced) - set(now):
        raise _Changed(f"{min(gone).name} was removed meanwhile; the next run looks again")
    for file in set(now) - set(replaced):
        try:
            os.link(file, fresh / file.name)
        except OSError:
            shutil.copy2(file, fresh / file.name)
            sync(fresh / file.name)
    sync(fresh)


def _exchange(folder: TopicFolder, fresh: Path, home: Path, place: Path, readers_stopped: bool) -> None:
    try:
        swap(fresh, home)
    except CannotSwap as error:
        if not readers_stopped:
            raise LakeError(
                f"{home}: {error.strerror}. Readers would see a moment without the day's rows: stop them, and say "
                "--readers-stopped"
            ) from None
        os.rename(home, place / "old")
        folder.step("halfway")
        os.rename(fresh, home)
    sync(home.parent)


def _rewrite(files: list[Path], to: Path, target_bytes: int, memory_bytes: int) -> int:
    """Write the rows of the files, sorted by partition and offset as far as memory goes, and see that all are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(files)
    name = f"compact-{uuid.uuid4().hex[:8]}"
    before = _Count()
    written: list[Path] = []
    writer: Any = None
    try:
        for table in _sorted_tables(files, schema, memory_bytes):
            before.add(table)
            if writer is None:
                written.append(to / f"{name}-{len(written):04d}.parquet")
                file = written[-1].open("wb")
                writer = pq.ParquetWriter(file, schema, compression="zstd")
            writer.write_table(table, row_group_size=1 << 20)
            if file.tell() >= target_bytes:
                _close(writer, file)
                writer = None
    except (pa.ArrowInvalid, OSError) as error:
        raise LakeError(f"{files[0].parent} could not be rewritten: {error}") from error
    finally:
        if writer is not None:
            _close(writer, file)
    after = _Count()
    for one in written:
        for batch in pq.ParquetFile(one).iter_batches(_ROWS_AT_A_TIME, columns=["partition", "offset"]):
            after.add(pa.Table.from_batches([batch]))
    if before != after:
        raise LakeError(f"{files[0].parent}: {before} went in, and {after} came out; nothing was changed")
    return before.rows


def _close(writer: Any, file: Any) -> None:
    writer.close()
    file.flush()
    os.fsync(file.fileno())
    file.close()


@dataclass(repr=False)
class _Count:
    """Rows, and sums over partitions and offsets that tell whether they are the same ones."""

    rows: int = 0
    offsets: int = 0
    products: int = 0

    def add(self, table: pa.Table) -> None:
        import numpy as np

        partition = table["partition"].to_numpy().astype(np.uint64)
        offset = table["offset"].to_numpy().astype(np.uint64)
        self.rows += table.num_rows
        self.offsets = (self.offsets + int(offset.sum(dtype=np.uint64))) % 2**64
        mixed = (offset ^ (partition * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
        self.products = (self.products + int(mixed.sum(dtype=np.uint64))) % 2**64

    def __repr__(self) -> str:
        return f"{self.rows} rows"


def _schema(files: list[Path]) -> pa.Schema:
    """The schema of all files: a column that some lack, because the JSON schema grew, is NULL there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pa.unify_schemas([pq.read_schema(file) for file in reversed(files)])
    except pa.ArrowException as error:
        raise LakeError(f"{files[0].parent}: its files do not fit together: {error}") from error


def _sorted_tables(files: list[Path], schema: pa.Schema, memory_bytes: int) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[pa.Table] = []
    size = 0
    for file in files:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_ROWS_AT_A_TIME):
                held.append(pa.Table.from_batches([batch]))
                size += batch.nbytes
                if size >= memory_bytes:
                    yield _sorted_table(held, schema)
                    held, size = [], 0
    if held:
        yield _sorted_table(held, schema)


def _sorted_table(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """One table; columns that some lack are NULL there."""
    import pyarrow as pa

    whole = pa.concat_tables([schema.empty_table(), *tables], promote_options="default")
    return whole.sort_by([("partition", "ascending"), ("offset", "ascending")])
