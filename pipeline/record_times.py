"""The age of each partition's first unread record, asked of a running cluster: ``silver.record_times``.

Samples of where logs end tell the age of what came after the first of them. Only the records themselves tell the age of
what was unread before.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.clients.commits import offset_fetch_request, read_offsets
from ottla.clients.errors import KafkaError, check
from ottla.pipeline.parquet_files import dataset
from ottla.pipeline.source.cluster import Cluster
from ottla.pipeline.source.logs import Span
from ottla.pipeline.tables import RECORD_TIMES
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.source.options import Options

MOST_PLACES = 10_000
"""The most records that a run looks at."""
KNOWN_DAYS = 7
"""Gold reads a day more of silver tables: within that nothing is asked twice."""
_FETCH_BYTES = 1 << 16
_MOST_HOLES = 100
"""The record at an offset may be the marker of a transaction, or compacted away: one of the next does as well."""
_GROUPS_AT_ONCE = 100


Sample = Callable[[Sequence["Place"], int], list["Place"]]
"""As `random.sample`."""


class Place(NamedTuple):
    """The position of a group in a partition."""

    tp: TopicPartition
    offset: int


def look_up(options: Options, lake: Lake, cluster_id: str, sample: Sample = random.sample) -> int:
    """Add what is not known yet to the lake, only while `Lake.writing`. Gives the number of rows.

    Args:
        options: of the running cluster.
        sample: draws so many of what is new, if that is too much for one run: some of it may never have an age, and
            must not stand before all others run after run.

    Raises:
        SourceError: the cluster does not answer, or does not let its groups be read.
    """
    now = datetime.now(UTC)
    # A record of some KiB is wanted, and not the megabytes behind it.
    with contextlib.closing(Cluster(replace(options, fetch_bytes=_FETCH_BYTES))) as cluster:
        new = unknown(lake, now, unread(cluster))
        found = times(cluster, new if len(new) <= MOST_PLACES else sample(new, MOST_PLACES))
    # A producer's clock may be wrong, or say nothing (-1): a time to come tells no age.
    rows = [(one, at_ms) for one, at_ms in found.items() if 0 <= at_ms <= now.timestamp() * 1000]
    if rows:
        _write(lake, cluster_id, now, rows)
    return len(rows)


def unread(cluster: Cluster) -> set[Place]:
    """The positions of groups that have records left to read."""
    standing = cluster.patiently("read committed offsets", lambda: _committed(cluster))
    cluster.topics({one.tp.topic for one in standing})
    bounds = cluster.bounds(cluster.led(sorted({one.tp for one in standing})))
    return {one for one in standing if one.tp in bounds and one.offset < bounds[one.tp].end}


def _committed(cluster: Cluster) -> set[Place]:
    """The committed offsets of all groups, asked of their coordinators: the leaders of the log's partitions."""
    topic = cluster.topics((OFFSETS_TOPIC,)).get(OFFSETS_TOPIC)
    led = cluster.by_leader([TopicPartition(OFFSETS_TOPIC, one) for one in topic.partitions] if topic else [])
    found: set[Place] = set()
    for connection in map(cluster.connection, led):
        listed = connection.call(ListGroupsRequest())
        check(listed.error_code, f"list the groups of {connection.name}")
        names = iter([group.group_id for group in listed.groups])
        while some := list(islice(names, _GROUPS_AT_ONCE)):
            # From version 10 on topics have ids instead of names.
            asked = [connection.send(offset_fetch_request(name, None), low=2, high=9) for name in some]
            for answer in map(connection.receive, asked):
                with contextlib.suppress(KafkaError):  # a group that may not be read, or is in a transaction
                    places = read_offsets(answer).items()
                    found |= {Place(tp, one.offset) for tp, one in places if one is not None}
    return found


def times(cluster: Cluster, places: Sequence[Place]) -> dict[Place, int]:
    """The time (Unix ms) of the first record at or after each place, where there is one nearby."""
    bounds = cluster.bounds(sorted({one.tp for one in places})) if places else {}
    left = sorted(places, reverse=True)
    found: dict[Place, int] = {}
    while left:
        # A partition is read at one place at a time.
        turn = {one.tp: one for one in left}
        left = [one for one in left if turn[one.tp] != one]
        spans = []
        for tp, one in turn.items():
            start = max(one.offset, bounds[tp].start) if tp in bounds else one.offset
            spans.append(Span(tp, start, min(start + _MOST_HOLES, bounds[tp].end) if tp in bounds else start))
        for chunk in cluster.chunks(spans, lambda tp, reason: None, lambda tp, damage: None):
            if len(chunk.timestamps):
                place = turn[TopicPartition(chunk.topic, chunk.partition)]
                found.setdefault(place, int(chunk.timestamps[0]))
    return found


def unknown(lake: Lake, now: datetime, places: Collection[Place]) -> list[Place]:
    """Those places, in order, of which the lake has no time. What it has is streamed, and none of it is kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = ["topic", "partition", "record_offset"]
    schema = pa.schema([RECORD_TIMES.arrow().field(name) for name in names])
    columns = [[one.tp.topic for one in places], [one.tp.partition for one in places], [one.offset for one in places]]
    recent = pc.field("log_date") >= (now - timedelta(days=KNOWN_DAYS)).date()
    known = dataset(lake.where(RECORD_TIMES.name), RECORD_TIMES).filter(recent)
    new = known.join(pa.table(columns, schema=schema), names, join_type="right anti").to_table().to_pylist()
    return sorted(Place(TopicPartition(row["topic"], row["partition"]), row["record_offset"]) for row in new)


def _write(lake: Lake, cluster_id: str, now: datetime, rows: Iterable[tuple[Place, int]]) -> None:
    """Write a file of its own, which is Parquet like a backfill's, whatever streams write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(lake.backfilled(RECORD_TIMES.name)) / f"log_date={now:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    values = [(cluster_id, one.tp.topic, one.tp.partition, one.offset, at_ms * 1000) for one, at_ms in rows]
    schema = RECORD_TIMES.arrow()
    fields = [schema.field(index) for index in range(len(schema) - 1)]  # the day is the folder's name
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), fields, strict=True)]
    file = folder / f"{time.time_ns()}.parquet"
    new = file.with_name(f".{file.name}")
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), new, compression="zstd")
    os.replace(new, file)
