"""The kinds of rows that can be made of records: one for each table, and ``raw``, those of Spark's own connector."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import commits, consumer_groups, events, groups, plain, quarantine
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.quarantine import is_consumer_group, is_group, is_offset

RAW = tables.Table(
    "",
    "raw",
    (
        tables.Column("key", "BINARY"),
        tables.Column("value", "BINARY"),
        tables.Column("topic", "STRING"),
        tables.Column("partition", "INT"),
        tables.Column("offset", "BIGINT"),
        tables.Column("timestamp", "TIMESTAMP"),
        tables.Column("timestampType", "INT"),
    ),
    ("topic", "partition", "offset"),
    "Records as Spark's own Kafka connector gives them.",
)
_WITH_HEADERS = RAW._replace(
    columns=(*RAW.columns, tables.Column("headers", "ARRAY<STRUCT<key STRING, value BINARY>>"))
)
_TABLES = {
    "raw": RAW,
    "commits": tables.OFFSET_COMMITS,
    "groups": tables.GROUP_GENERATIONS,
    "consumer_groups": tables.CONSUMER_GROUP_CHANGES,
    "events": tables.GROUP_EVENTS,
    "quarantine": tables.QUARANTINE,
    "log": tables.OFFSETS_LOG,
}
KINDS = tuple(_TABLES)
"""The kinds that `decode` knows."""


class UnknownKind(ValueError):
    """There is no such kind of rows; the message says which there are."""


def table_of(kind: str, *, headers: bool = False) -> tables.Table:
    """The table whose rows `decode` gives, without ``cluster_id`` and the date.

    Args:
        kind: one of `KINDS`.
        headers: of ``raw`` only: with the column ``headers``.

    Raises:
        UnknownKind: it is none of them.
    """
    if kind not in _TABLES:
        raise UnknownKind(f"no such kind of rows: {kind!r}; there are {', '.join(KINDS)}")
    return _WITH_HEADERS if headers and kind == "raw" else _TABLES[kind]


@cache
def schema(kind: str, *, headers: bool = False) -> pa.Schema:
    """The schema of the rows that `decode` gives. Arguments and errors are those of `table_of`."""
    return table_of(kind, headers=headers).arrow(whole=False)


def decode(kind: str, chunk: Chunk, *, headers: bool = False) -> pa.RecordBatch:
    """The rows of one kind that the records of a chunk give, in their order.

    ``commits``, ``groups`` and ``consumer_groups`` take what is theirs and can be read; ``quarantine`` is all that they
    do not take, and what is damaged. Of ``__ottla_group_events`` (by the topic of the chunk) it is what ``events`` does
    not take. ``raw`` and ``log`` take everything.

    Args:
        chunk: see `walk`.
        kind, headers: see `table_of`.

    Raises:
        UnknownKind: it is none of them.
    """
    wanted = schema(kind, headers=headers)
    match kind:
        case "raw":
            return plain.raw(chunk, wanted)
        case "log":
            return plain.log(chunk)
        case "commits":
            return commits.rows(chunk.only(is_offset(chunk)))
        case "groups":
            return groups.rows(chunk.only(is_group(chunk)))
        case "consumer_groups":
            return consumer_groups.rows(chunk.only(is_consumer_group(chunk)))
        case "events":
            return events.rows(chunk)
    return quarantine.rows(chunk)
