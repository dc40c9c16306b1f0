"""Committed offsets, keys 0 and 1 and values 0 to 4, all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns
from ottla.pipeline.codec.chunk import Bytes, Chunk, Longs, Mask
from ottla.pipeline.codec.numbers import integers, short_uvarints
from ottla.pipeline.codec.scalar import Unreadable, whole_value
from ottla.protocol.offsets_topic import OffsetValue

_NEWEST_VALUE = _FLEXIBLE = 4
_WITH_EXPIRY = 1
_WITH_EPOCH = 3
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tag, number 0, sixteen bytes (KIP-848)."""


class Texts(NamedTuple):
    """Places of texts; one that does not fit is empty and stands at the end of what it should fit into."""

    at: Longs
    size: Longs
    end: Longs
    fits: Mask


class Values(NamedTuple):
    """The fields of values, valid where ``good``. An epoch or a time of -1 is none."""

    good: Mask
    version: Longs
    offset: Longs
    leader_epoch: Longs
    metadata: Texts
    commit_ms: Longs
    expire_ms: Longs

    def take(self, rows: Longs | slice) -> Values:
        """The same of some rows, without where the metadata lie."""
        return Values._make(part if isinstance(part, Texts) else part[rows] for part in self)


class Commits(NamedTuple):
    """Commits that can be read.

    Attributes:
        rows: their numbers in the chunk; what is missing cannot be read.
        there: they have values, so they are no tombstones.
    """

    rows: Longs
    there: Mask
    key_version: Longs
    group_id: pa.Array
    topic: pa.Array
    partition: Longs
    metadata: pa.Array
    values: Values


def read(chunk: Chunk) -> Commits:
    """Read records that each have a key of at least two bytes, which begins with 0 or 1."""
    data = chunk.data
    key_end = chunk.key_at + chunk.key_size
    group = _texts(data, chunk.key_at + 2, key_end)
    topic = _texts(data, group.end, key_end)
    there = chunk.value_size >= 0
    values = _values(chunk)
    good = group.fits & topic.fits & (topic.end + 4 == key_end) & (values.good | ~there)
    rows = np.flatnonzero(good)
    while True:
        take = slice(None) if len(rows) == len(chunk) else rows
        try:
            return Commits(
                rows,
                there[take],
                integers(data, "i2", chunk.key_at[take]),
                columns.strings(data, group.at[take], group.size[take]),
                columns.strings(data, topic.at[take], topic.size[take]),
                integers(data, "i4", topic.end[take]),
                columns.strings(data, values.metadata.at[take], np.where(there, values.metadata.size, -1)[take]),
                values.take(take),
            )
        except columns.NotText as error:
            rows = np.delete(rows, error.rows)


def _texts(data: Bytes, at: Longs, end: Longs) -> Texts:
    """Texts that begin with a length of two bytes."""
    return _fitting(at + 2, integers(data, "i2", at), end)


def _fitting(at: Longs, size: Longs, end: Longs) -> Texts:
    behind = at + size
    fits = (size >= 0) & (behind <= end)
    if not fits.all():
        at, behind = np.where(fits, at, end), np.where(fits, behind, end)
        size = behind - at
    return Texts(at, size, behind, fits)


def _values(chunk: Chunk) -> Values:
    data, at = chunk.data, chunk.value_at
    end = at + np.maximum(chunk.value_size, 0)
    version = integers(data, "i2", at)
    newer = version >= _WITH_EPOCH
    flexible = version == _FLEXIBLE
    size_at = at + 10 + 4 * newer
    metadata = _metadata(data, np.minimum(size_at, end), end, flexible)
    good = (chunk.value_size >= 2) & (version >= 0) & (version <= _NEWEST_VALUE) & (size_at < end) & metadata.fits
    commit_end = metadata.end + 8
    expiring = version == _WITH_EXPIRY
    whole = commit_end + 8 * expiring == end
    if flexible.any():
        whole = np.where(flexible, _tags_end(chunk, commit_end, end, good & flexible), whole)
    return Values(
        good & whole,
        version,
        integers(data, "i8", at + 2),
        np.where(newer, integers(data, "i4", at + 10), -1),
        metadata,
        integers(data, "i8", metadata.end),
        np.where(expiring, integers(data, "i8", np.minimum(commit_end, end)), -1),
    )


def _metadata(data: Bytes, at: Longs, end: Longs, flexible: Mask) -> Texts:
    if not flexible.any():
        return _texts(data, at, end)
    size, begin, no_varint = short_uvarints(data, at)
    if no_varint is not None:
        size = np.where(no_varint, 0, size)
    return _fitting(np.where(flexible, begin, at + 2), np.where(flexible, size - 1, integers(data, "i2", at)), end)


def _tags_end(chunk: Chunk, at: Longs, end: Longs, asked: Mask) -> Mask:
    """Tell which tagged fields at ``at`` are sound and reach to the end.

    None of them, or the id of the topic, is what anybody writes; others are read one record after the other.
    """
    data, left = chunk.data, end - at
    at = np.minimum(at, end)
    first = data[at]
    sound: Mask = (left == 1) & (first == 0)
    known = (left == 19) & (first == _TOPIC_ID_TAG[0])
    known &= (data[at + 1] == _TOPIC_ID_TAG[1]) & (data[at + 2] == _TOPIC_ID_TAG[2])
    sound |= known
    for row in np.flatnonzero(asked & ~sound & (left > 0)).tolist():
        try:
            whole_value(OffsetValue, chunk.value(row) or b"")
        except Unreadable:
            continue
        sound[row] = True
    return sound


def rows(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``offset_commits`` of records as `read` wants them; those that cannot be read are left out."""
    commits = read(chunk)
    if len(commits.rows) < len(chunk):
        chunk = chunk.take(commits.rows)
    return pa.RecordBatch.from_arrays(
        [*columns.log_place(chunk), *payload(commits)], schema=tables.OFFSET_COMMITS.arrow(whole=False)
    )


def payload(commits: Commits) -> list[pa.Array]:
    """The columns of ``offset_commits`` but for the first three, which say where in the log the record is."""
    there, values = commits.there, commits.values
    return [
        columns.numbers(pa.int16(), commits.key_version),
        commits.group_id,
        commits.topic,
        columns.numbers(pa.int32(), commits.partition),
        columns.numbers(pa.int64(), values.offset, there),
        columns.numbers(pa.int32(), values.leader_epoch, there),
        commits.metadata,
        columns.times(values.commit_ms, there),
        columns.times(values.expire_ms, there),
        columns.numbers(pa.int16(), values.version, there),
        pa.array(~there),
    ]
