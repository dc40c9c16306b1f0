"""`ottla offsets decode`: what ``__consumer_offsets`` says, of a running broker or of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.common import lines_format_option, near, run
from ottla.cli.completion import DEFAULT_BOOTSTRAP, complete_groups
from ottla.cli.connecting import client_options, connecting_options, properties
from ottla.cli.internal_records import CONSUMER_GROUP, GROUP, OFFSET, OTHER_TYPES, described, in_words
from ottla.cli.log_rows import control_type, records_of
from ottla.cli.output import Refused, note, print_fields, print_json, say, when
from ottla.cli.segments import StoredBatch, Unreadable
from ottla.cli.stored_logs import StoredLog, stored_logs
from ottla.protocol.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.clients import Consumer, TopicPartition

_NO_PRODUCER = -1
_KNOWN_TYPES = frozenset({OFFSET, GROUP, *CONSUMER_GROUP, *OTHER_TYPES.values()})


class Entry(NamedTuple):
    """A record of the topic. ``marker`` is COMMIT or ABORT in the record that ends a transaction."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    producer_id: int = _NO_PRODUCER
    """Of a record that counts when this producer's transaction commits; -1 for one that counts at once."""
    marker: str = ""


@click.group("offsets")
def command() -> None:
    """Read the records of __consumer_offsets: committed offsets, classic groups and consumer groups."""


@command.command(short_help="Print __consumer_offsets as text or JSON.")
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    metavar="HOST:PORT[,…]",
    envvar="OTTLA_BOOTSTRAP_SERVERS",
    show_envvar=True,
    help=f"Read from a broker instead of files. [{DEFAULT_BOOTSTRAP} if there is no PATH]",
)
@connecting_options
@click.option("--latest", is_flag=True, help="Only what is in force: the last record of each key, none if deleted.")
@click.option(
    "--group",
    "-G",
    "groups",
    metavar="GROUP",
    multiple=True,
    shell_complete=complete_groups,
    help="Only records of this group.",
)
@lines_format_option
def decode(
    paths: tuple[Path, ...], bootstrap: str | None, latest: bool, groups: tuple[str, ...], output_format: str
) -> None:
    """Print what __consumer_offsets says, in the order of its records.

    PATH is a data directory, a directory of a partition, or a segment file, of Ottla or of any Kafka broker; without
    one a running broker is asked.
    """
    reading = _Reading()
    entries = (
        reading.checked(reading.files(paths))
        if paths
        else _of_broker(bootstrap or properties().get("bootstrap.servers", DEFAULT_BOOTSTRAP))
    )
    as_json = output_format == "json"
    if latest:
        rows = [row for row in in_force(entries) if _wanted(row, groups)]
        _print_state(rows, as_json)
    else:
        printed, seen = False, set[str]()
        for entry in entries:
            row = _row(entry)
            seen.add(row.get("group", ""))
            if _wanted(row, groups):
                printed = True
                if as_json:
                    print_json(row, indent=None)
                else:
                    say(*_line(row).split("\n"))
        if not printed:
            note(f"There is no record of {_either(groups, seen)}" if groups else "There are no records.")
    if reading.damaged:
        raise Refused(
            "Not everything could be read: " + "; ".join(reading.damaged) + ".",
            "`ottla log verify` checks every byte.",
        )
    if reading.strange:
        raise Refused(
            f"Not one record there is of {OFFSETS_TOPIC}.", "`ottla log dump` shows the records of any other topic."
        )


def _either(groups: Sequence[str], known: Iterable[str]) -> str:
    words = " or ".join(f"group {name!r}" for name in groups)
    meant = near(groups[0], known)
    return f"{words}; did you mean {meant!r}?" if meant else f"{words}."


# -- reading


class _Reading:
    """Reads files, and remembers which could not be read to their ends."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self._known = self._unknown = False

    @property
    def strange(self) -> bool:
        """There were records, none of which this topic could have."""
        return self._unknown and not self._known

    def checked(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The same entries; takes note of whether they are of the topic at all."""
        for entry in entries:
            if not self._known and not entry.marker:
                known = described(OFFSETS_TOPIC, entry.key, entry.value)["type"] in _KNOWN_TYPES
                self._known, self._unknown = known, not known
            yield entry

    def files(self, paths: Iterable[Path]) -> Iterator[Entry]:
        for path in paths:
            logs = stored_logs(path)
            # A data directory has other topics too; what was named itself is read whatever its name is.
            if path.is_dir() and logs[0].partition.path.absolute() != path.absolute():
                logs = [one for one in logs if one.partition.topic == OFFSETS_TOPIC]
            if not logs:
                raise Refused(f"There is no {OFFSETS_TOPIC} in {path}.", "Name a directory that has its partitions.")
            for log in logs:
                yield from self._log(log)

    def _log(self, log: StoredLog) -> Iterator[Entry]:
        for path, batches in log.parts():
            try:
                yield from _entries(log.partition.partition, batches)
            except Unreadable as error:
                self.damaged.append(f"{path}, {error}")


def _entries(partition: int, batches: Iterable[StoredBatch]) -> Iterator[Entry]:
    for batch in batches:
        batch.check_crc()
        header = batch.header
        producer_id = header.producer_id if header.is_transactional else _NO_PRODUCER
        for record in records_of(batch):
            marker = control_type(record) if header.is_control else ""
            yield Entry(partition, record.offset, record.timestamp_ms, record.key, record.value, producer_id, marker)


def _of_broker(bootstrap: str) -> list[Entry]:
    """Everything up to the present end. Only what is committed: a broker does not hand out markers."""

    async def read() -> list[Entry]:
        from ottla.clients import Consumer, TopicPartition

        async with Consumer(**client_options(bootstrap), isolation_level="read_committed") as consumer:
            partitions = await consumer.partitions_for_topic(OFFSETS_TOPIC) or ()
            places = [TopicPartition(OFFSETS_TOPIC, partition) for partition in sorted(partitions)]
            return await _read_all(consumer, places)

    return run(read(), bootstrap)


async def _read_all(consumer: Consumer, places: list[TopicPartition]) -> list[Entry]:
    consumer.assign(places)
    begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    left = {place for place in places if begins[place] < ends[place]}
    for place in left:
        consumer.seek(place, begins[place])
    found: list[Entry] = []
    while left:
        for place, records in (await consumer.getmany(*left, timeout_ms=200)).items():
            found += [Entry(place.partition, one.offset, one.timestamp, one.key, one.value) for one in records]
        left = {place for place in left if await consumer.position(place) < ends[place]}
    return sorted(found, key=lambda entry: (entry.partition, entry.offset))


# -- what is in force


def in_force(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """The records that compaction would leave, without tombstones, as `described` rows.

    Offsets of a transaction count from its commit marker on, and never if it is aborted or still open. As in brokers,
    one gives way to a record of the same key that was written after it, and a tombstone takes those with it that wait.
    """
    state: dict[tuple[int, bytes], Entry] = {}
    pending: dict[tuple[int, int], dict[bytes, Entry]] = {}

    def apply(entry: Entry) -> None:
        place = (entry.partition, entry.key or b"")
        if place in state and state[place].offset > entry.offset:
            return
        state.pop(place, None)
        if entry.value is not None:
            state[place] = entry

    for entry in entries:
        if entry.marker:
            waiting = pending.pop((entry.partition, entry.producer_id), {})
            for one in waiting.values() if entry.marker == "COMMIT" else ():
                apply(one)
        elif entry.producer_id != _NO_PRODUCER:
            pending.setdefault((entry.partition, entry.producer_id), {})[entry.key or b""] = entry
        else:
            apply(entry)
            if entry.value is None:
                for (partition, _), waiting in pending.items():
                    if partition == entry.partition:
                        waiting.pop(entry.key or b"", None)
    for entry in state.values():
        yield _row(entry)


def _row(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "log_partition": entry.partition,
        "log_offset": entry.offset,
        "timestamp": entry.timestamp_ms,
    }
    if entry.producer_id != _NO_PRODUCER:
        row["producer_id"] = entry.producer_id
    if entry.marker:
        return row | {"type": entry.marker}
    return row | described(OFFSETS_TOPIC, entry.key, entry.value)


def _wanted(row: dict[str, Any], groups: tuple[str, ...]) -> bool:
    return not groups or row.get("group") in groups


# -- printing


def _line(row: dict[str, Any]) -> str:
    words = in_words(row)
    if "producer_id" in row:
        is_end = row["type"] in ("COMMIT", "ABORT")
        producer = f"producer {row['producer_id']}"
        words = f"{row['type']} of {producer}" if is_end else f"{words} ({producer})"
    return f"{row['log_partition']:>2}  {row['log_offset']:>8}  {when(row['timestamp']):<24}  {words}"


def _print_state(rows: list[dict[str, Any]], as_json: bool) -> None:
    def place(row: dict[str, Any]) -> tuple[str, str, str, int]:
        return (row.get("group", ""), row["type"], row.get("topic", ""), row.get("partition", 0))

    rows.sort(key=place)
    if as_json:
        for row in rows:
            print_json(row, indent=None)
        return
    if not rows:
        note("There is nothing in force.")
        return
    for row in rows:
        if row["type"] != OFFSET:
            say(*in_words(row).split("\n"))
    if committed := [row for row in rows if row["type"] == OFFSET]:
        if len(committed) < len(rows):
            say()
        print_fields(
            ("group", "topic", "partition", "offset", "epoch", "committed", "metadata"),
            committed,
            *("group", "topic", "partition", "offset"),
            lambda row: row["leader_epoch"] if row["leader_epoch"] >= 0 else None,
            lambda row: when(row["commit_timestamp"]),
            lambda row: row["metadata"] or None,
        )
