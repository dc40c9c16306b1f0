"""`ottla log`: what lies in segment files, without a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ottla.cli.common import duration_option, lines_format_option
from ottla.cli.journal import FRAME_HEADING, frame_line, frames_of
from ottla.cli.log_rows import BATCH_HEADING, INTERNAL, batch_json, batch_line, record_json, record_line, records_of
from ottla.cli.log_tail import Follower
from ottla.cli.log_verify import verify
from ottla.cli.output import Refused, note, print_json, say
from ottla.cli.segment_indexes import TRANSACTION_INDEX, read_offset_index, read_time_index, read_transaction_index
from ottla.cli.segments import PartitionFiles, StoredBatch, Unreadable
from ottla.cli.stored_logs import StoredLog, stored_logs
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.stored.journal import JournalView, data_directory_of
from ottla.protocol.stored.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, WAL_SUFFIX, parse_directory_name

paths_argument = click.argument(
    "paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
max_messages_option = click.option(
    "--max-messages", "-c", metavar="N", type=click.IntRange(min=1), help="Stop after N records."
)
decode_option = click.option(
    "--decode/--no-decode",
    default=None,
    help="Print the records of __consumer_offsets and __transaction_state in words, or not. [in words]",
)


@click.group("log")
def command() -> None:
    """Look into segment files: Ottla's, or those of any Kafka broker. No broker is needed, and one may be running.

    PATH is a data directory, the directory of a partition, or a single file.
    """


@dataclass(frozen=True)
class Wish:
    """The options of printing. ``decode`` is None to go by the name of the directory."""

    with_records: bool
    decode: bool | None
    offset: int | None
    max_messages: int | None
    as_json: bool

    def decode_as(self, topic: str) -> str | None:
        """The internal topic that records are to be read as; asked to, those of a directory without a topic's name."""
        if self.decode is False:
            return None
        if topic in INTERNAL:
            return topic
        return OFFSETS_TOPIC if self.decode and not topic else None


class Enough(Exception):
    """As many records as wanted were printed."""


def _must_exist(path: Path) -> None:
    """Raises a usage error; where the journal alone has records of the partition it says how to see them."""
    if path.exists():
        return
    root = data_directory_of(path)
    if root is not None and path.name in JournalView(root).followed.places:
        raise Refused(
            f"{path} is not there yet: the records of {path.name} are in the journal. Print them with:",
            f"ottla log dump {root} --print-data-log",
        )
    raise click.BadParameter(f"{path} does not exist.", param_hint="PATH…")


@command.command(short_help="Print batches, records and index entries.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--print-data-log", "with_records", is_flag=True, help="Print the records too, not only the batches.")
@decode_option
@click.option("--offset", type=click.IntRange(min=0), help="Begin with the batch that has this offset.")
@max_messages_option
@lines_format_option
def dump(
    paths: tuple[Path, ...],
    with_records: bool,
    decode: bool | None,
    offset: int | None,
    max_messages: int | None,
    output_format: str,
) -> None:
    """Print the batches of PATH, segment by segment. What is damaged is named, and the exit code is 1."""
    wish = Wish(with_records or decode is True, decode, offset, max_messages, output_format == "json")
    printer = _Printer(wish)
    try:
        for path in paths:
            _must_exist(path)
            if path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX):
                _print_index(path, wish)
                continue
            if path.suffix == WAL_SUFFIX:
                printer.print_journal(path)
                continue
            for log in stored_logs(path):
                printer.print_log(log)
    except Enough:
        pass
    if printer.damaged:
        raise Refused(
            f"{printer.damaged} of {printer.seen} files cannot be read to their ends.",
            "`ottla log verify` checks every byte.",
        )


class _Printer:
    """Prints segments and files of the journal, and counts what has been printed. All raises `Enough`."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.left = wish.max_messages
        self.seen = self.damaged = 0

    def print_log(self, log: StoredLog) -> None:
        partition = log.partition
        for path, batches in log.parts(self.wish.offset):
            where = "  (in the journal, not yet in a segment)" if path.suffix == WAL_SUFFIX else ""
            with self._file(path, f"{partition.name}  {path}{where}", BATCH_HEADING):
                for batch in batches:
                    row = {"topic": partition.topic, "partition": partition.partition, "file": str(path)}
                    row |= batch_json(batch) | {"in_journal": path.suffix == WAL_SUFFIX}
                    self._print(row, batch_line(batch), partition.topic, batch)

    def print_journal(self, path: Path) -> None:
        """Raises `Refused` for a file that is not in a journal."""
        frames = frames_of(path)
        with self._file(path, str(path), FRAME_HEADING):
            for row, batch in frames:
                if batch is None:
                    self._print_line(row, frame_line(row))
                else:
                    tp = parse_directory_name(row["log"])
                    self._print(row, frame_line(row), "" if tp is None else tp.topic, batch)

    @contextmanager
    def _file(self, path: Path, title: str, heading: str) -> Iterator[None]:
        """The heading of a file, and a note where it cannot be read on."""
        self.seen += 1
        if not self.wish.as_json:
            say(title, bold=True)
            say(f"  {heading}")
        try:
            yield
        except Unreadable as error:
            self.damaged += 1
            note(f"{path}, {error}")

    def _print(self, row: dict[str, Any], line: str, topic: str, batch: StoredBatch) -> None:
        """A batch, with its records if they are wanted."""
        wish = self.wish
        records = list(records_of(batch)) if wish.with_records else []
        if wish.offset is not None:
            records = [record for record in records if record.offset >= wish.offset]
        count = len(records) if wish.with_records else batch.header.record_count
        if self.left is not None:
            records = records[: self.left]
        decode_as = wish.decode_as(topic)
        if wish.as_json and wish.with_records:
            row["records"] = [record_json(record, batch, decode_as) for record in records]
        self._print_line(row, line)
        if not wish.as_json:
            for record in records:
                say(*f"    | {record_line(record, batch, decode_as)}".split("\n"))
        if self.left is not None:
            self.left -= count
            if self.left <= 0:
                raise Enough

    def _print_line(self, row: dict[str, Any], line: str) -> None:
        if self.wish.as_json:
            print_json(row, indent=None)
        else:
            say(f"  {line}")


def _print_index(path: Path, wish: Wish) -> None:
    """The entries of an index file."""
    read: dict[str, Callable[[Path], Sequence[Any]]] = {
        INDEX_SUFFIX: read_offset_index,
        TIME_INDEX_SUFFIX: read_time_index,
        TRANSACTION_INDEX: read_transaction_index,
    }
    try:
        entries = read[path.suffix](path)
    except ValueError as error:
        raise Refused(f"{path} is no index: {error}.") from None
    if not wish.as_json:
        say(str(path), bold=True)
    for entry in entries[: wish.max_messages]:
        row = entry._asdict()
        if wish.as_json:
            print_json(row, indent=None)
        else:
            say("  " + "  ".join(f"{name} {row[name]}" for name in row))


command.add_command(verify)


# -- following


@command.command(short_help="Print records as they are written.")
@paths_argument
@decode_option
@click.option("--from-beginning", is_flag=True, help="Print what is there already, too.")
@max_messages_option
@duration_option("--interval", shortest="1ms", default="200ms", help="How often to look.")
@lines_format_option
def tail(
    paths: tuple[Path, ...],
    decode: bool | None,
    from_beginning: bool,
    max_messages: int | None,
    interval: float,
    output_format: str,
) -> None:
    """Print the records that are written to PATH from now on, until Ctrl-C."""
    wish = Wish(True, decode, None, max_messages, output_format == "json")
    partitions = [log.partition for path in paths for log in stored_logs(path)]
    followers = [(partition, Follower(partition, from_beginning=from_beginning)) for partition in partitions]
    try:
        follow(followers, wish, lambda: time.sleep(interval))
    except (Enough, KeyboardInterrupt):
        return
    except Unreadable as error:
        raise Refused(f"The log cannot be read on: {error}.", "`ottla log verify` checks every byte.") from None


def follow(followers: Sequence[tuple[PartitionFiles, Follower]], wish: Wish, wait: Callable[[], None]) -> None:
    """Print what the followers find; ``wait`` is called when there is nothing new. Raises `Enough` or `Unreadable`."""
    left = wish.max_messages
    while True:
        found = False
        for partition, follower in followers:
            for batch in follower.poll():
                found = True
                for record in records_of(batch):
                    _print_tailed(partition, batch, record, wish)
                    if left is not None:
                        left -= 1
                        if not left:
                            raise Enough
        if not found:
            wait()


def _print_tailed(partition: PartitionFiles, batch: StoredBatch, record: Any, wish: Wish) -> None:
    decode_as = wish.decode_as(partition.topic)
    if wish.as_json:
        row = {"topic": partition.topic, "partition": partition.partition, **record_json(record, batch, decode_as)}
        print_json(row, indent=None)
    else:
        say(*f"{partition.name}  {record_line(record, batch, decode_as)}".split("\n"))
