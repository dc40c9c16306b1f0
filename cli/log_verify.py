"""`ottla log verify`: every byte of segments and indexes held against their own checks."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ottla.cli.common import format_option
from ottla.cli.log_rows import records_of
from ottla.cli.output import Cell, Refused, Styled, note, print_json, print_table
from ottla.cli.segment_indexes import Outline, check_indexes
from ottla.cli.segments import PartitionFiles, Unreadable, base_offset_of, find_partitions, read_batches


@dataclass
class Verdict:
    """What was found in one segment."""

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
        }


@click.command("verify", short_help="Check CRCs, offsets and indexes.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--records", "deep", is_flag=True, help="Decompress and parse the records of each batch, too.")
@format_option
def verify(paths: tuple[Path, ...], deep: bool, output_format: str) -> None:
    """Check the segments of PATH: CRCs, rising offsets, and whether the indexes agree. Exit code 1 if they do not."""
    verdicts = []
    for path in paths:
        for partition in find_partitions(path):
            verdicts += verify_partition(partition, deep=deep)
    if output_format == "json":
        print_json([verdict.as_json() for verdict in verdicts])
    else:
        _print(verdicts)
    faulty = [verdict for verdict in verdicts if verdict.faults]
    if faulty:
        path, at, reason = faulty[0].faults[0]
        raise Refused(
            f"{len(faulty)} of {len(verdicts)} segments are damaged; the first bad byte is {path}:{at} ({reason}).",
            "Keep a copy of the directory before you start a broker on it; `ottla recover` says what can be saved.",
        )


def _print(verdicts: list[Verdict]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for verdict in verdicts:
        offsets = None if verdict.first_offset is None else f"{verdict.first_offset}–{verdict.last_offset}"
        result = Styled("DAMAGED", "bold red") if verdict.faults else Styled("ok", "green")
        rows.append(
            (
                verdict.partition.name,
                verdict.path.name,
                offsets,
                verdict.batches,
                verdict.records,
                verdict.bytes,
                result,
            )
        )
    if not rows:
        note("There are no segments yet.")
        return
    print_table(("partition", "segment", "offsets", "batches", "records", "bytes", "result"), rows)
    for verdict in verdicts:
        if verdict.remark:
            note(f"{verdict.path}: {verdict.remark}")
        for path, at, reason in verdict.faults:
            click.secho(f"{path}, byte {at}: {reason}", err=True)


def verify_partition(partition: PartitionFiles, *, deep: bool = False) -> list[Verdict]:
    """The segments of a partition, each for itself and in their order."""
    verdicts: list[Verdict] = []
    for number, path in enumerate(partition.segments):
        verdict = Verdict(partition, path)
        is_last = number == len(partition.segments) - 1
        ceiling = None if is_last else base_offset_of(partition.segments[number + 1])
        _verify_segment(verdict, is_last=is_last, ceiling=ceiling, deep=deep)
        verdicts.append(verdict)
    return verdicts


def _verify_segment(verdict: Verdict, *, is_last: bool, ceiling: int | None, deep: bool) -> None:
    path = verdict.path
    is_growing = is_last and in_use(path)
    outline = Outline()
    least = base_offset_of(path) or 0
    end = 0
    try:
        for batch in read_batches(path):
            batch.check_crc()
            if deep:
                records_of(batch)
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
        _judge(verdict, error, is_last, is_growing)
    else:
        if end < (size := path.stat().st_size):
            _judge_zeros(verdict, end, size - end, is_last)
    verdict.bytes = end
    if not verdict.faults:
        verdict.faults += check_indexes(path, outline, growing_from=end if is_growing else None)


def _judge(verdict: Verdict, error: Unreadable, is_last: bool, is_growing: bool) -> None:
    if error.unfinished and is_growing:
        verdict.remark = f"a batch is being written at byte {error.position}"
        return
    reason = error.reason
    if error.unfinished and is_last:
        reason += ": an unfinished write, which a broker cuts off when it starts"
    verdict.faults.append((verdict.path, error.position, reason))


def _judge_zeros(verdict: Verdict, position: int, count: int, is_last: bool) -> None:
    if is_last:
        verdict.remark = f"{count:,} zero bytes from byte {position} on: space filled in advance"
    else:
        verdict.faults.append((verdict.path, position, f"{count:,} zero bytes up to the end of the file"))


def in_use(path: Path) -> bool:
    """Whether a broker has the data directory open that a segment belongs to."""
    for directory in path.absolute().parents[:3]:
        for name, lock in (("LOCK", fcntl.flock), (".lock", fcntl.lockf)):
            try:
                handle = os.open(directory / name, os.O_RDWR)
            except OSError:
                continue
            try:
                lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            finally:
                os.close(handle)
    return False
