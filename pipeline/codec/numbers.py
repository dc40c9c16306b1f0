"""Numbers out of bytes, many at once: big-endian ones at any place, and varints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.pipeline.codec.chunk import Bytes, Longs, Mask


def integers(data: Bytes, code: str, at: Longs) -> Longs:
    """The big-endian integers that begin at ``at``.

    They are read through a view in which numbers overlap, one at each byte: three times as fast as gathering bytes.

    Args:
        data: with bytes of padding, so that there is a whole number at each place.
        code: as in ``numpy.dtype``, e.g. ``i4``.
        at: places.
    """
    kind = np.dtype(">" + code)
    places = np.ndarray((len(data) - kind.itemsize + 1,), kind, data, strides=(1,))
    return places[at].astype(np.int64)


def little(data: Bytes, code: str, at: Longs) -> Any:
    """The same in the machine's order and type: bytes to be copied, not numbers."""
    kind = np.dtype("=" + code)
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data, strides=(1,))[at]


def short_uvarints(data: Bytes, at: Longs, most_bytes: int = 5) -> tuple[Longs, Longs, Mask | None]:
    """Unsigned varints, most of which take a byte.

    Args:
        data: with at least ten bytes of padding.
        at: where they begin.
        most_bytes: 5 for 32 bits, 10 for 64.

    Returns:
        The numbers (of 64 bits as if signed), the places behind them, and which are no varint: longer or larger.
        None if all are.
    """
    first = data[at]
    number = first.astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(first >= 0x80)
    if not len(more):
        return number.view(np.int64), after, None
    number[more] &= np.uint64(0x7F)
    bad = np.zeros(len(at), np.bool_)
    for index in range(1, most_bytes):
        byte = data[at[more] + index]
        number[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        after[more] += 1
        if index == most_bytes - 1:
            # Of the last byte only so many bits belong to the number.
            bad[more] = byte > (0x0F if most_bytes == 5 else 0x01)
        more = more[byte >= 0x80]
        if not len(more):
            break
    return number.view(np.int64), after, bad if bad.any() else None


def varints(data: Bytes, at: Longs, most_bytes: int = 5) -> tuple[Longs, Longs, Mask | None]:
    """The same for the signed numbers of records, which are zigzag (KIP-98)."""
    number, after, bad = short_uvarints(data, at, most_bytes)
    unsigned = number.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(number & 1), after, bad
