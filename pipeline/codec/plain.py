"""Records as they are: the row of Spark's own Kafka connector, and that of ``offsets_log``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns
from ottla.pipeline.codec.chunk import Chunk, Headers


def raw(chunk: Chunk, schema: pa.Schema) -> pa.RecordBatch:
    """The connector's rows; with headers if the schema has them."""
    parts = [
        columns.binary(chunk.data, chunk.key_at, chunk.key_size),
        columns.binary(chunk.data, chunk.value_at, chunk.value_size),
        pa.repeat(chunk.topic, len(chunk)),
        pa.repeat(pa.scalar(chunk.partition, pa.int32()), len(chunk)),
        columns.numbers(pa.int64(), chunk.offsets),
        columns.times(chunk.timestamps, unknown=False),
        columns.numbers(pa.int32(), chunk.append_time.astype(np.int64)),
    ]
    if "headers" in schema.names:
        parts.append(_headers(chunk, schema.field("headers").type))
    return pa.RecordBatch.from_arrays(parts, schema=schema)


def _headers(chunk: Chunk, kind: pa.DataType) -> pa.Array:
    """A list for each record; null where there are none, as the connector has it."""
    if chunk.headers is None:
        return pa.nulls(len(chunk), kind)
    counts, *parts = chunk.headers
    keys, values = _names(chunk, chunk.headers), columns.binary(chunk.data, *parts[2:])
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.Array.from_buffers(kind, len(chunk), [columns.bits(counts > 0), pa.py_buffer(ends)], children=[pairs])


def _names(chunk: Chunk, headers: Headers) -> pa.Array:
    """The names of headers; bytes that are not UTF-8 are replaced, as Java does it."""
    try:
        return columns.strings(chunk.data, headers.key_at, headers.key_size)
    except columns.NotText:
        names = columns.binary(chunk.data, headers.key_at, headers.key_size).to_pylist()
        return pa.array([name.decode(errors="replace") for name in names], pa.string())


def log(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``offsets_log``."""
    return pa.RecordBatch.from_arrays(
        [
            *columns.log_place(chunk),
            columns.binary(chunk.data, chunk.key_at, chunk.key_size),
            columns.binary(chunk.data, chunk.value_at, chunk.value_size),
        ],
        schema=tables.OFFSETS_LOG.arrow(whole=False),
    )
