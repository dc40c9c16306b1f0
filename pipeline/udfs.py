"""Functions for Spark that read records of ``__consumer_offsets``, wherever these come from.

For people who read the topic with Spark's own ``kafka`` format, or have its records in files. They take columns and
give a struct with the columns of a table (`ottla.pipeline.tables`) and ``error``, which says why a record cannot be
read, or that it is of another kind; the others are then NULL.

    from ottla.pipeline import decode_offset_commit

    records = spark.read.format("kafka").option("subscribe", "__consumer_offsets")….load()
    commits = (
        records.where("substring(key, 1, 2) <= X'0001'")          # the raw bytes, before anything is decoded
        .select("partition", "offset", decode_offset_commit("key", "value").alias("commit"))
        .select("partition", "offset", "commit.*")
    )
    commits.write.parquet("commits")
    spark.read.parquet("commits").where("error IS NULL AND group_id = 'g'")

Spark's ``kafka`` format does not list internal topics, so for that one it needs the setting
``spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true``.

**Filter on the raw bytes first.** A filter on what these functions give (``commit.group_id = 'g'``) is moved below the
select by Spark, which then runs the function twice, once for the filter and once for the columns. The first two bytes
of a key are the kind of the record: up to ``X'0001'`` an offset, ``X'0002'`` a group. What has to be asked of the
result, like ``error IS NULL`` above, is asked of a table that it was written to, or of a cached one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import commits, events, groups
from ottla.pipeline.codec.arrays import chunk_of
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.quarantine import is_consumer_group, is_group, is_offset, reason, reason_of_event

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_ERROR = tables.Column("error", "STRING", "why it cannot be read")
_LOG_COLUMNS = 3
"""``log_partition``, ``log_offset`` and ``log_ts`` are not in a key or value."""
COMMIT = (*tables.OFFSET_COMMITS.columns[_LOG_COLUMNS:], _ERROR)
GENERATION = (*tables.GROUP_GENERATIONS.columns[_LOG_COLUMNS:], _ERROR)
EVENT = (*tables.GROUP_EVENTS.columns, _ERROR)


def decode_offset_commit(key: Column | str, value: Column | str) -> Column:
    """A committed offset, from keys of types 0 and 1 and values of versions 0 to 4.

    Args:
        key, value: columns of binaries, or their names. A value of NULL is a tombstone.

    Returns:
        A struct of ``key_version, group_id, topic, partition, committed_offset, leader_epoch, metadata, commit_ts,
        expire_ts, value_version, is_tombstone, error``. See this module on filters.
    """
    return _udf(_commits, COMMIT)(key, value)  # type: ignore[no-any-return]


def decode_group_metadata(key: Column | str, value: Column | str) -> Column:
    """A generation of a classic group, from keys of type 2 and values of versions 0 to 4.

    Args:
        key, value: columns of binaries, or their names. A value of NULL is a tombstone.

    Returns:
        A struct of ``group_id, value_version, protocol_type, generation, protocol, leader_id, state_ts, is_tombstone,
        member_count, members, error``. See this module on filters.
    """
    return _udf(_generations, GENERATION)(key, value)  # type: ignore[no-any-return]


def decode_group_event(value: Column | str) -> Column:
    """An event of ``__ottla_group_events``.

    Args:
        value: a column of binaries, or its name.

    Returns:
        A struct of ``ts, group_id, generation, event, reason, member_id, client_id, client_host, duration_ms, error``.
        See this module on filters.
    """
    return _udf(_events, EVENT)(value)  # type: ignore[no-any-return]


def register_functions(spark: SparkSession) -> None:
    """Make the three known to SQL, by their names: ``SELECT decode_offset_commit(key, value).group_id FROM …``."""
    spark.udf.register("decode_offset_commit", _udf(_commits, COMMIT))
    spark.udf.register("decode_group_metadata", _udf(_generations, GENERATION))
    spark.udf.register("decode_group_event", _udf(_events, EVENT))


def _udf(function: Callable[..., pa.Array], fields: tuple[tables.Column, ...]) -> Any:
    """Made anew for each use: Spark's functions keep the context that they were first used in, which may be stopped."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    kind = "struct<" + ", ".join(f"`{one.name}`: {one.kind}" for one in fields) + ">"
    return arrow_udf(function, kind)


def _reason(chunk: Chunk, row: int) -> str | None:
    """Why a record can be read by neither function; None if it can by one."""
    if (error := reason(chunk, row)) is not None:
        return error
    key_type = int.from_bytes((chunk.key(row) or b"")[:2], "big")
    return f"key type {key_type}, of a consumer group" if is_consumer_group(chunk)[row] else None


def _commits(keys: pa.Array, values: pa.Array) -> pa.Array:
    chunk = chunk_of(keys, values)
    mine = np.flatnonzero(is_offset(chunk))
    found = commits.read(chunk.take(mine))
    return _aligned(chunk, mine[found.rows], commits.payload(found), COMMIT, "a group, not a committed offset")


def _generations(keys: pa.Array, values: pa.Array) -> pa.Array:
    chunk = chunk_of(keys, values)
    mine = np.flatnonzero(is_group(chunk))
    good, found = groups.read(chunk.take(mine))
    return _aligned(
        chunk,
        mine[np.array(good, np.int64)],
        groups.payload(found),
        GENERATION,
        "a committed offset, not a group",
    )


def _events(values: pa.Array) -> pa.Array:
    chunk = chunk_of(None, values)
    good, found = events.read(chunk)
    return _aligned(chunk, np.array(good, np.int64), events.payload(found), EVENT, "not readable", reason_of_event)


def _aligned(
    chunk: Chunk,
    rows: Any,
    parts: Sequence[pa.Array],
    fields: tuple[tables.Column, ...],
    otherwise: str,
    why: Callable[[Chunk, int], str | None] = _reason,
) -> pa.Array:
    """A struct for each record: those of ``rows`` have the parts, the others an error: ``why``, or ``otherwise``."""
    count = len(chunk)
    errors = pa.nulls(count, pa.string())
    if len(rows) < count:
        bad = np.ones(count, np.bool_)
        bad[rows] = False
        places = np.zeros(count, np.int64)
        places[rows] = np.arange(len(rows))
        taken = pa.array(places, mask=bad)
        parts = [part.take(taken) for part in parts]
        errors = pa.array([(why(chunk, row) or otherwise) if bad[row] else None for row in range(count)], pa.string())
    kinds = [pa.field(one.name, tables.arrow_type(one.kind)) for one in fields]
    return pa.StructArray.from_arrays([*parts, errors], fields=kinds)
