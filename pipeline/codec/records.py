"""The records within batches: where each begins, and where its parts lie.

A record says how long it is, so a batch has to be hopped through. Batches do not depend on each other, so they are
hopped through in lock-step, all first records at once, then all second ones; what few batches remain after that (the
long ones) one by one. Nothing here trusts a number: places are held against the end of the record, the record's against
that of the batch, and what does not fit makes the batch bad.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ottla.pipeline.codec.chunk import Bytes, Headers, Longs, Mask
from ottla.pipeline.codec.numbers import varints
from ottla.protocol.compression import Buffer
from ottla.protocol.varints import read_varint

MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length and header count, a byte each."""

_NARROW = 48
"""Fewer batches than that are hopped through faster one by one."""


@dataclass(slots=True)
class Found:
    """Columns of the records of some batches; those of bad batches mean nothing.

    Attributes:
        batch: the number of each record's batch.
        bad: per batch: its bytes are not what its header says.
    """

    batch: Longs
    timestamp_delta: Longs
    offset_delta: Longs
    key_at: Longs
    key_size: Longs
    value_at: Longs
    value_size: Longs
    headers: Headers | None
    bad: Mask


def find(data: Bytes, body_at: Longs, body_end: Longs, counts: Longs) -> Found:
    """Find the records of batches.

    Args:
        data: with padding.
        body_at, body_end: where the records of each batch lie, decompressed.
        counts: how many; the caller has seen that so many can be there.
    """
    bad = np.zeros(len(counts), np.bool_)
    begin, end = _places(data, body_at, body_end, counts, bad)
    batch = np.repeat(np.arange(len(counts)), counts)
    wrong = np.zeros(len(batch), np.bool_)

    def field(at: Longs, most_bytes: int = 5) -> tuple[Longs, Longs]:
        number, after, no_varint = varints(data, at, most_bytes)
        if no_varint is not None:
            wrong[no_varint] = True
        return number, after

    def content(at: Longs) -> tuple[Longs, Longs, Longs]:
        size, at = field(at)
        behind = at + np.maximum(size, 0)
        over = behind > end
        if over.any():
            wrong[over] = True
            behind, at = np.minimum(behind, end), np.minimum(at, end)
        return size, at, behind

    timestamp_delta, at = field(begin + 1, 10)
    offset_delta, at = field(np.minimum(at, end))
    key_size, key_at, at = content(np.minimum(at, end))
    value_size, value_at, at = content(at)
    header_count, at = field(at)
    headers = None
    wrong |= header_count < 0
    if header_count.any():
        headers, at = _headers(data, np.where(wrong, 0, header_count), at, end, wrong)
    wrong |= at != end
    if wrong.any():
        bad[batch[wrong]] = True
    return Found(batch, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers, bad)


def _places(data: Bytes, body_at: Longs, body_end: Longs, counts: Longs, bad: Mask) -> tuple[Longs, Longs]:
    """The places behind each record's length, and the ends of records."""
    total = int(counts.sum())
    begin, end = np.zeros(total, np.int64), np.zeros(total, np.int64)
    if not total:
        return begin, end
    order = np.argsort(-counts, kind="stable")
    rows = (np.cumsum(counts) - counts)[order]
    at, limit, left = body_at[order], body_end[order], counts[order]
    step, width = 0, int(np.count_nonzero(left > 0))
    while width >= _NARROW:
        at, limit, rows = at[:width], limit[:width], rows[:width]
        size, first, no_varint = varints(data, at)
        at = first + size
        wrong = (size < MIN_RECORD_BYTES - 1) | (at > limit)
        if no_varint is not None:
            wrong |= no_varint
        if wrong.any():
            bad[order[:width][wrong]] = True
            first, at = np.where(wrong, limit, first), np.where(wrong, limit, at)
        begin[rows + step] = first
        end[rows + step] = at
        step += 1
        width = int(np.searchsorted(-left, -step))
    view = data.data
    for index in range(width):
        first_row, stop = int(rows[index]) + step, int(rows[index] + left[index])
        firsts, ends = _hop(view, int(at[index]), int(limit[index]), stop - first_row)
        begin[first_row : first_row + len(firsts)] = firsts
        end[first_row : first_row + len(ends)] = ends
    some = np.flatnonzero(counts)
    bad[some] |= end[np.cumsum(counts)[some] - 1] != body_end[some]
    return begin, end


def _hop(view: Buffer, at: int, limit: int, count: int) -> tuple[list[int], list[int]]:
    """Begin and end of the next records of one batch; fewer than ``count`` if they do not fit."""
    firsts, ends = [], []
    for _ in range(count):
        # The loop of `read_varint` stands here for lengths below 8192: a call costs more than all the rest.
        byte = view[at]
        if byte >= 0x80:
            more = view[at + 1]
            if more >= 0x80:
                try:
                    size, at = read_varint(view, at)
                except ValueError:
                    break
            else:
                size, at = (byte & 0x7F | more << 7) >> 1, at + 2
                if byte & 1:
                    break
        elif byte & 1:
            break
        else:
            size, at = byte >> 1, at + 1
        firsts.append(at)
        at += size
        if size < MIN_RECORD_BYTES - 1 or at > limit:
            firsts.pop()
            break
        ends.append(at)
    return firsts, ends


def _headers(data: Bytes, counts: Longs, at: Longs, end: Longs, wrong: Mask) -> tuple[Headers, Longs]:
    """The headers of records, and where each record's are over. ``counts`` is 0 where a record is wrong."""
    too_many = counts * 2 > end - at
    wrong |= too_many
    counts = np.where(too_many, 0, counts)
    parts = np.zeros((4, int(counts.sum())), np.int64)
    after = at.copy()
    order = np.argsort(-counts, kind="stable")
    order = order[: np.count_nonzero(counts)]
    rows, left, places, limit = (np.cumsum(counts) - counts)[order], counts[order], at[order], end[order]
    step, width = 0, len(order)
    while width >= _NARROW:
        rows, limit = rows[:width], limit[:width]
        key_size, key_at, no_key = varints(data, places[:width])
        broken = key_size < 0
        behind = np.minimum(key_at + np.maximum(key_size, 0), limit)
        broken |= behind - key_at != key_size
        value_size, value_at, no_value = varints(data, behind)
        behind = np.minimum(value_at + np.maximum(value_size, 0), limit)
        broken |= behind - value_at != np.maximum(value_size, 0)
        for no_varint in (no_key, no_value):
            if no_varint is not None:
                broken |= no_varint
        if broken.any():
            wrong[order[:width][broken]] = True
            key_size, value_size = np.where(broken, 0, key_size), np.where(broken, 0, value_size)
        parts[:, rows + step] = key_at, key_size, value_at, value_size
        places[:width] = behind
        step += 1
        width = int(np.searchsorted(-left, -step))
    view = data.data
    for index in range(width):
        place, stop = int(places[index]), int(limit[index])
        for row in range(int(rows[index]) + step, int(rows[index] + left[index])):
            found = _header(view, place, stop)
            if found is None:
                wrong[order[index]] = True
                break
            parts[:, row] = found[:4]
            place = found[4]
        places[index] = place
    after[order] = places
    return Headers(counts, *parts), after


def _header(view: Buffer, at: int, end: int) -> tuple[int, int, int, int, int] | None:
    """Places and sizes of one header's parts, and its end; None if it does not fit."""
    try:
        key_size, key_at = read_varint(view, at)
        if not 0 <= key_size <= end - key_at:
            return None
        value_size, value_at = read_varint(view, key_at + key_size)
        behind = value_at + max(value_size, 0)
        return None if behind > end else (key_at, key_size, value_at, value_size, behind)
    except (ValueError, IndexError):
        return None
