"""What can be made of records: one kind for each table, and ``raw``, the row of Spark's own Kafka connector."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ottla.pipeline import tables
from ottla.pipeline.codec.chunk import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

RAW = (
    tables.Column("key", "BINARY"),
    tables.Column("value", "BINARY"),
    tables.Column("topic", "STRING"),
    tables.Column("partition", "INT"),
    tables.Column("offset", "BIGINT"),
    tables.Column("timestamp", "TIMESTAMP"),
    tables.Column("timestampType", "INT"),
)
RAW_HEADERS = tables.Column("headers", "ARRAY<STRUCT<key STRING, value BINARY>>")
_TABLES = {
    "commits": tables.OFFSET_COMMITS,
    "groups": tables.GROUP_GENERATIONS,
    "events": tables.GROUP_EVENTS,
    "quarantine": tables.QUARANTINE,
    "log": tables.OFFSETS_LOG,
}
KINDS = ("raw", *_TABLES)
"""What `decode` knows."""


class UnknownKind(ValueError):
    """There is no such kind of rows; the message says which there are."""


def _columns(kind: str, headers: bool) -> tuple[tables.Column, ...]:
    if kind == "raw":
        return (*RAW, RAW_HEADERS) if headers else RAW
    if kind not in _TABLES:
        raise UnknownKind(f"no such kind of rows: {kind!r}; there are {', '.join(KINDS)}")
    return _TABLES[kind].columns


@cache
def schema(kind: str, *, headers: bool = False) -> pa.Schema:
    """What `decode` gives: the table's columns without ``cluster_id`` and the date.

    Args:
        kind: one of `KINDS`.
        headers: of ``raw`` only: with the column ``headers``.

    Raises:
        UnknownKind: it is none of them.
    """
    import pyarrow as pa

    return pa.schema([pa.field(one.name, tables.arrow_type(one.kind)) for one in _columns(kind, headers)])


def ddl(kind: str, *, headers: bool = False) -> str:
    """The same in Spark's words.

    Raises:
        UnknownKind: see `schema`.
    """
    return ", ".join(f"`{one.name}` {one.kind}" for one in _columns(kind, headers))


def decode(kind: str, chunk: Chunk, *, headers: bool = False) -> pa.RecordBatch:
    """The rows of one kind that the records of a chunk give, in their order.

    ``commits`` and ``groups`` take what is theirs and can be read; ``quarantine`` is all that they do not take, and
    what is damaged. Of ``__ottla_group_events``, by the topic of the chunk, it is what ``events`` does not take. ``raw`` and
    ``log`` take everything.

    Args:
        kind: one of `KINDS`.
        chunk: see `walk`.
        headers: of ``raw`` only: with the column ``headers``.

    Raises:
        UnknownKind: it is none of them.
    """
    import pyarrow as pa

    rows = []
    if kind in ("raw", "log"):
        for row in range(len(chunk)):
            place = {"key": chunk.key(row), "value": chunk.value(row)}
            ms = int(chunk.timestamps[row]) * 1000
            if kind == "log":
                at = {"log_partition": chunk.partition, "log_offset": int(chunk.offsets[row]), "log_ts": ms}
                rows.append(place | at)
            else:
                rows.append(
                    place
                    | {
                        "topic": chunk.topic,
                        "partition": chunk.partition,
                        "offset": int(chunk.offsets[row]),
                        "timestamp": ms,
                        "timestampType": int(chunk.append_time[row]),
                    }
                )
    return pa.RecordBatch.from_pylist(rows, schema=schema(kind, headers=headers))
