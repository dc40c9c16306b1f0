"""What can be made of records: one kind for each table, and ``raw``, the row of Spark's own Kafka connector."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import commits, events, groups, plain, quarantine
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.quarantine import is_group, is_offset

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
        raise UnknownKind(_unknown(kind))
    return _TABLES[kind].columns


def _unknown(kind: str) -> str:
    return f"no such kind of rows: {kind!r}; there are {', '.join(KINDS)}"


@cache
def schema(kind: str, *, headers: bool = False) -> pa.Schema:
    """What `decode` gives: the table's columns without ``cluster_id`` and the date.

    Args:
        kind: one of `KINDS`.
        headers: of ``raw`` only: with the column ``headers``.

    Raises:
        UnknownKind: it is none of them.
    """
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
    what is damaged. Of ``__ottla_group_events`` (by the topic of the chunk) it is what ``events`` does not take.
    ``raw`` and ``log`` take everything.

    Args:
        kind: one of `KINDS`.
        chunk: see `walk`.
        headers: of ``raw`` only: with the column ``headers``.

    Raises:
        UnknownKind: it is none of them.
    """
    match kind:
        case "raw":
            return plain.raw(chunk, schema(kind, headers=headers))
        case "log":
            return plain.log(chunk)
        case "commits":
            return commits.rows(chunk.only(is_offset(chunk)))
        case "groups":
            return groups.rows(chunk.only(is_group(chunk)))
        case "events":
            return events.rows(chunk)
        case "quarantine":
            return quarantine.rows(chunk)
    raise UnknownKind(_unknown(kind))
