"""`ottla log verify`: every byte of segments and indexes held against their own checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from ottla.cli.common import Answer, formatted
from ottla.cli.journal import followed_journal, journal_batches, with_journal
from ottla.cli.log_rows import records_of
from ottla.cli.output import Cell, Refused, Styled, note, print_table
from ottla.cli.segment_indexes import Outline, check_indexes
from ottla.cli.segments import PartitionFiles, Unreadable, base_offset_of, find_partitions, read_batches
from ottla.cli.stored_logs import of_all_nodes
from ottla.protocol.batch import HEADER_SIZE, BatchError, parse_header
from ottla.protocol.stored.files import in_use
from ottla.protocol.stored.journal import JournalView, Trusted, data_directory_of
from ottla.protocol.stored.names import JOURNAL_NAME


@dataclass
class Verdict:
    """The result of checking one segment."""

    partition: PartitionFiles
    path: Path
    batches: int = 0
    records: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    faults: list[tuple[Path, int, str]] = field(default_factory=list)
    """File, first bad byte, what is wrong."""
    remark: str = ""
    in_journal: int | None = None
    """The number of records behind this segment that are in the journal alone; None but for the last segment."""

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "file": str(self.path),
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "ok": not self.faults,
            "faults": [{"file": str(path), "position": at, "reason": reason} for path, at, reason in self.faults],
            "remark": self.remark,
            "records_in_journal": self.in_journal,
        }


@click.command("verify", short_help="Check CRCs, offsets and indexes.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--records", "deep", is_flag=True, help="Decompress and parse the records of each batch, too.")
@formatted
def verify(paths: tuple[Path, ...], deep: bool) -> Answer:
    """Check the segments of PATH: CRCs, rising offsets, and whether the indexes agree. Exit code 1 if they do not."""
    verdicts: list[Verdict] = []
    for path in paths:
        verdicts += verify_path(path, deep=deep)
    failure = None
    if faulty := [verdict for verdict in verdicts if verdict.faults]:
        path, at, reason = faulty[0].faults[0]
        failure = Refused(
            f"{len(faulty)} of {len(verdicts)} segments are damaged; the first bad byte is {path}:{at} ({reason}).",
            "Keep a copy of the directory before you start a broker on it; `ottla recover` says what can be saved.",
        )
    return Answer([verdict.as_json() for verdict in verdicts], partial(_print, verdicts), failure)


def _print(verdicts: list[Verdict]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for verdict in verdicts:
        offsets = None if verdict.first_offset is None else f"{verdict.first_offset}–{verdict.last_offset}"
        counts = (verdict.batches, verdict.records, verdict.bytes, verdict.in_journal)
        result = Styled("DAMAGED", "bold red") if verdict.faults else Styled("ok", "green")
        rows.append((verdict.partition.name, verdict.path.name, offsets, *counts, result))
    if not rows:
        note("There are no segments yet.")
        return
    print_table(("partition", "segment", "offsets", "batches", "records", "bytes", "in journal", "result"), rows)
    for verdict in verdicts:
        if verdict.remark:
            note(f"{verdict.path}: {verdict.remark}")
        for path, at, reason in verdict.faults:
            note(f"{path}, byte {at}: {reason}")


def verify_path(path: Path, *, deep: bool = False) -> list[Verdict]:
    """The segments below a path and, of a whole data directory, the journal; of one of several nodes, those of all."""
    _must_be_a_segment(path)
    return of_all_nodes(path, lambda one: _verify_one(one, deep=deep))


def _verify_one(path: Path, *, deep: bool) -> list[Verdict]:
    root = data_directory_of(path)
    journal = None if root is None else JournalView(root)
    verdicts: list[Verdict] = []
    if journal is not None and path.absolute() == root and (found := _verify_journal(journal)) is not None:
        verdicts.append(found)
    try:
        partitions = find_partitions(path)
    except Refused:
        if not verdicts:
            raise
        partitions = []
    if journal is not None and path.absolute() == root:
        partitions = with_journal(partitions, journal)
    for partition in partitions:
        trusted = None if journal is None else journal.trusted(partition.path.name)
        of_partition = verify_partition(partition, trusted, deep=deep)
        if journal is not None and path.is_dir():
            _count_in_journal(journal, partition, of_partition)
        verdicts += of_partition
    return verdicts


def _count_in_journal(journal: JournalView, partition: PartitionFiles, verdicts: list[Verdict]) -> None:
    """Note how many records of a partition the journal holds beyond what its segments have."""
    ends = [verdict.last_offset + 1 for verdict in verdicts if verdict.last_offset is not None]
    batches = journal_batches(journal, partition.path.name, max(ends, default=0))
    count = sum(batch.header.record_count for _, batch in batches)
    if count and not verdicts:
        verdicts.append(Verdict(partition, partition.path, remark="it has no segment yet"))
    if count:
        verdicts[-1].in_journal = count


def _must_be_a_segment(path: Path) -> None:
    """Raises `Refused` for a file that neither its name nor its content makes a segment."""
    if not path.is_file() or base_offset_of(path) is not None:
        return
    with path.open("rb") as file:
        start = file.read(HEADER_SIZE)
    try:
        parse_header(start)
    except BatchError:
        raise Refused(
            f"{path} is no segment.", "Name a data directory, a partition's directory, or a .log file of one."
        ) from None


def _verify_journal(journal: JournalView) -> Verdict | None:
    found = followed_journal(journal)
    if found is None or found.checkpoint is None:
        return None
    reader, begin = found.followed.reader, found.checkpoint.lsn
    path = Path(reader.paths[reader.first_lsn]) if reader.first_lsn >= 0 else journal.data_dir / JOURNAL_NAME
    verdict = Verdict(PartitionFiles(path.parent, "", 0, ()), path, batches=found.followed.frame_count)
    verdict.remark = f"whole frames from lsn {begin} to {reader.end_lsn}"
    verdict.bytes = reader.end_lsn - begin
    if reader.end_lsn < reader.synced_lsn:
        reason = f"no frame at lsn {reader.end_lsn}, and what was acknowledged reaches to lsn {reader.synced_lsn}"
        verdict.faults.append((path, reader.end_lsn - max(reader.first_lsn, 0), reason))
    return verdict


def verify_partition(partition: PartitionFiles, trusted: Trusted | None = None, *, deep: bool = False) -> list[Verdict]:
    """The segments of a partition, each for itself and in their order. What is not ``trusted`` is in the journal."""
    verdicts: list[Verdict] = []
    for number, path in enumerate(partition.segments):
        verdict = Verdict(partition, path)
        base = base_offset_of(path) or 0
        if trusted is not None and base > trusted.last_base:
            verdict.remark = "begun after the last checkpoint: a broker that starts makes it anew from the journal"
        else:
            is_last = number == len(partition.segments) - 1
            ceiling = None if is_last else base_offset_of(partition.segments[number + 1])
            end = None if trusted is None else trusted.end_of(base)
            _verify_segment(verdict, end, is_last=is_last, ceiling=ceiling, deep=deep)
        verdicts.append(verdict)
    return verdicts


def _verify_segment(verdict: Verdict, upto: int | None, *, is_last: bool, ceiling: int | None, deep: bool) -> None:
    path = verdict.path
    is_written = is_last and upto is None and in_use(path)
    outline = Outline()
    least = base_offset_of(path) or 0
    end = 0
    try:
        for batch in read_batches(path, end=upto):
            batch.check_crc()
            if deep:
                for _ in records_of(batch):
                    pass
            header = batch.header
            if header.base_offset < least:
                raise Unreadable(batch.position, f"offset {header.base_offset} where at least {least} is due")
            if ceiling is not None and header.last_offset >= ceiling:
                raise Unreadable(batch.position, f"offset {header.last_offset}; the next segment begins at {ceiling}")
            outline.add(batch.position, header.base_offset, header.last_offset, header.max_timestamp)
            least = header.last_offset + 1
            end = batch.position + header.size
            verdict.batches += 1
            verdict.records += header.record_count
            verdict.first_offset = header.base_offset if verdict.first_offset is None else verdict.first_offset
            verdict.last_offset = header.last_offset
    except Unreadable as error:
        if error.unfinished and is_written:
            verdict.remark = f"a batch is being written at byte {error.position}"
        else:
            is_torn = error.unfinished and is_last
            more = ": an unfinished write, which a broker cuts off when it starts" if is_torn else ""
            verdict.faults.append((path, error.position, error.reason + more))
    else:
        left = path.stat().st_size - end
        if upto is not None and end < upto:
            verdict.faults.append((path, end, f"{upto - end:,} bytes that the checkpoint vouches for are missing"))
        elif upto is not None and left:
            verdict.remark = f"{left:,} bytes from byte {end} on come from the journal when a broker starts"
        elif left and is_last:
            verdict.remark = f"{left:,} zero bytes from byte {end} on: space filled in advance"
        elif left:
            verdict.faults.append((path, end, f"{left:,} zero bytes up to the end of the file"))
    verdict.bytes = end
    if not verdict.faults:
        verdict.faults += check_indexes(path, outline, growing_from=end if is_written or upto is not None else None)
