"""A cluster's internal logs as they would lie on a disk, made up: record batches v2, offsets, generations, events.

Groups come from `tests.pipeline.generator_groups`. What a member commits at one time is one batch, as a coordinator
writes it. All commits of a member have the same length, so a batch is encoded once and then copied and patched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.pipeline import tables
from ottla.pipeline.codec import decode, walk
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.crc import crc32c
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.protocol.offsets_topic import (
    GroupMemberValue,
    GroupValue,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)
from ottla.protocol.records import Record
from tests.support.batches import build_batch

if TYPE_CHECKING:
    import pyarrow as pa

Longs = npt.NDArray[np.int64]
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
_BASE_TIMESTAMP, _CRC, _AFTER_CRC = 27, 17, 21


class Member(NamedTuple):
    """A member of a generation; ``instance`` is its group.instance.id."""

    member_id: str
    client_id: str
    host: str
    instance: str | None = None


class Entry(NamedTuple):
    """A batch that is not yet in a log."""

    ts_ms: int
    records: int
    batch: bytes


@dataclass
class Topic:
    """The ends of a topic's partitions, second by second.

    Attributes:
        ends: log end offsets, ``[second, partition]``, from second 0 on.
        starts: log start offsets; None is 0 throughout.
    """

    name: str
    ends: Longs
    starts: Longs | None = None

    @property
    def partitions(self) -> int:
        return int(self.ends.shape[1])


@dataclass
class World:
    """All that was written.

    Attributes:
        seconds: how long it lasts.
        planted: group and kind of all that is wrong.
        suspects: who is to blame, by group and kind.
    """

    seconds: int
    rng: np.random.Generator
    version: int = 3
    entries: dict[int, list[Entry]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    planted: set[tuple[str, str]] = field(default_factory=set)
    suspects: dict[tuple[str, str], str] = field(default_factory=dict)

    # --- what groups write

    def write(self, group: str, ts_ms: int, *records: tuple[bytes, bytes | None]) -> None:
        """One batch into the group's partition of ``__consumer_offsets``."""
        batch = build_batch([Record(timestamp_ms=ts_ms, key=key, value=value) for key, value in records])
        self._entries(group).append(Entry(ts_ms, len(records), batch))

    def _entries(self, group: str) -> list[Entry]:
        return self.entries.setdefault(coordinator_partition(group), [])

    def commits(self, group: str, topic: str, partitions: Sequence[int], times_ms: Longs, offsets: Longs) -> None:
        """What one member commits: ``offsets[time, partition]``, a batch for each time."""
        if not len(times_ms) or not len(partitions):
            return
        template, places = _template(group, topic, partitions, self.version)
        rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(times_ms), 1))
        for column, (offset_at, time_at) in enumerate(places):
            _patch(rows, offset_at, offsets[:, column])
            _patch(rows, time_at, times_ms)
        _patch(rows, _BASE_TIMESTAMP, times_ms)
        _patch(rows, _BASE_TIMESTAMP + 8, times_ms)
        entries = self._entries(group)
        for row, ts_ms in zip(rows, times_ms.tolist(), strict=True):
            data = row.tobytes()
            crc = crc32c(data[_AFTER_CRC:]).to_bytes(4, "big")
            entries.append(Entry(ts_ms, len(partitions), data[:_CRC] + crc + data[_AFTER_CRC:]))

    def generation(
        self,
        group: str,
        ts_ms: int,
        number: int,
        owned: Sequence[tuple[Member, str, Sequence[int]]],
        protocol_type: str = "consumer",
    ) -> None:
        """A generation: who owns which partitions of which topic."""
        members = [_member(*one, opaque=protocol_type != "consumer") for one in owned]
        value = GroupValue(
            protocol_type=protocol_type,
            generation=number,
            protocol="range" if owned else None,
            leader=owned[0][0].member_id if owned else None,
            current_state_timestamp=ts_ms,
            members=members,
        )
        self.write(group, ts_ms, (group_key(group), encode_group_value(value)))

    def event(self, group: str, ts_ms: int, event: str, generation: int = -1, **more: Any) -> None:
        """A record of the event topic."""
        plain = {"v": 1, "ts_ms": ts_ms, "event": event, "group": group, "generation": generation}
        words = {"member": "", "client": "", "host": "", "reason": "", "cause": ""}
        self.events.append(plain | words | more)

    # --- what is made of it

    def logs(self) -> Iterator[tuple[str, int, bytes]]:
        """Topic, partition and log of the two internal topics."""
        for partition, entries in sorted(self.entries.items()):
            yield OFFSETS_TOPIC, partition, _log(entries)
        events = []
        for one in self.events:
            record = Record(timestamp_ms=one["ts_ms"], key=one["group"].encode(), value=json.dumps(one).encode())
            events.append(Entry(one["ts_ms"], 1, build_batch([record])))
        yield GROUP_EVENTS_TOPIC, 0, _log(events)

    def write_log_dir(self, folder: Path) -> None:
        """A log directory of Kafka's. Logs of users' topics hold their last record only."""
        for topic, partition, log in self.logs():
            _segment(folder / f"{topic}-{partition}", log)
        for topic in self.topics.values():
            for partition, end in enumerate(topic.ends[-1].tolist()):
                last = Record(timestamp_ms=START_MS + self.seconds * 1000, key=None, value=b"x")
                batch = build_batch([last], base_offset=end - 1) if end else b""
                _segment(folder / f"{topic.name}-{partition}", batch)

    def samples(self, every_s: int = 10) -> pa.Table:
        """``log_end_samples`` without cluster and date."""
        import pyarrow as pa

        at = np.arange(5, self.seconds, every_s)
        parts = []
        for topic in self.topics.values():
            width = topic.partitions
            starts = np.zeros_like(topic.ends) if topic.starts is None else topic.starts
            times = np.repeat((START_MS + at * 1000) * 1000, width)
            parts.append(
                pa.table(
                    {
                        "sample_ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                        "topic": pa.array([topic.name] * len(times)),
                        "partition": pa.array(np.tile(np.arange(width, dtype=np.int32), len(at))),
                        "log_start_offset": pa.array(starts[at].reshape(-1)),
                        "log_end_offset": pa.array(topic.ends[at].reshape(-1)),
                    }
                )
            )
        return pa.concat_tables(parts)

    def silver(self, *, events: bool = True) -> dict[str, pa.Table]:
        """The silver tables, without cluster and date, through the pipeline's own codec."""
        import pyarrow as pa

        kinds = {"commits": "offset_commits", "groups": "group_generations", "quarantine": "quarantine"}
        kinds["consumer_groups"] = "consumer_group_changes"
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in (*kinds.values(), "group_events")}
        for topic, partition, log in self.logs():
            chunk = walk(log, topic=topic, partition=partition)
            assert chunk.consumed == len(log) and not chunk.damage
            if topic == OFFSETS_TOPIC:
                for kind, table in kinds.items():
                    found[table].append(decode(kind, chunk))
            elif events:
                found["group_events"].append(decode("events", chunk))
        made = {
            name: pa.Table.from_batches(rows, tables.TABLES[name].arrow(whole=False)) for name, rows in found.items()
        }
        return made | {"log_end_samples": self.samples()}


def write_silver(lake: Path, silver: dict[str, pa.Table], cluster_id: str = "c1") -> None:
    """Write silver tables as the pipeline would, for one cluster, beside what is there."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for name, rows in silver.items():
        if not rows.num_rows:
            continue
        when = {"log_end_samples": "sample_ts", "record_times": "record_ts", "group_events": "ts"}.get(name, "log_ts")
        days = pc.cast(rows[when], pa.date32())
        rows = rows.add_column(0, "cluster_id", pa.array([cluster_id] * len(rows)))
        for day in pc.unique(days).to_pylist():
            folder = lake / "silver" / name / f"log_date={day}"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                rows.filter(pc.equal(days, pa.scalar(day))),
                folder / f"{cluster_id}-{len(list(folder.iterdir()))}.parquet",
            )


def _template(group: str, topic: str, partitions: Sequence[int], version: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A batch with marks, and where in it each offset and each commit time is."""
    offsets = [0x5A5A_5A5A_0000_0000 + one for one in range(len(partitions))]
    times = [0x6B6B_6B6B_0000_0000 + one for one in range(len(partitions))]
    records = []
    for partition, offset, time in zip(partitions, offsets, times, strict=True):
        value = OffsetValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=time)
        records.append(
            Record(timestamp_ms=0, key=offset_key(group, topic, partition), value=encode_offset_value(value, version))
        )
    batch = build_batch(records)
    return batch, [
        (batch.index(offset.to_bytes(8, "big")), batch.index(time.to_bytes(8, "big")))
        for offset, time in zip(offsets, times, strict=True)
    ]


def _patch(rows: npt.NDArray[np.uint8], at: int, numbers: Longs) -> None:
    rows[:, at : at + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _member(member: Member, topic: str, partitions: Sequence[int], *, opaque: bool) -> GroupMemberValue:
    assigned = [ConsumerTopicPartitions(topic=topic, partitions=list(partitions))] if partitions else []
    return GroupMemberValue(
        member_id=member.member_id,
        group_instance_id=member.instance,
        client_id=member.client_id,
        client_host=member.host,
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=b"\0\1opaque" if opaque else encode_subscription(Subscription(topics=[topic]), 1),
        assignment=b"\0\1opaque" if opaque else encode_assignment(Assignment(assigned_partitions=assigned), 1),
    )


def _log(entries: list[Entry]) -> bytes:
    """Batches in the order of their times, with offsets."""
    parts, offset = [], 0
    for entry in sorted(entries, key=lambda entry: entry.ts_ms):
        parts += [offset.to_bytes(8, "big"), entry.batch[8:]]
        offset += entry.records
    return b"".join(parts)


def _segment(folder: Path, log: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020}.log").write_bytes(log)
