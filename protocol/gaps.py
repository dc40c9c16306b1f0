"""Bytes that are known but for some int64 numbers in them: how a message looks that is sent again and again.

Where the numbers stand is not worked out from a schema. The same message is encoded with two values that have no byte
in common, and the two results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

LOW: Final = 0
HIGH: Final = -1
"""Two numbers whose eight bytes all differ."""

_ZEROS, _ONES = bytes(8), b"\xff" * 8


def pieces_around(low: bytes, high: bytes) -> list[bytes]:
    """What stands before, between and behind the numbers.

    Args:
        low, high: the same message, with `LOW` and with `HIGH` in the place of each number.

    Raises:
        ValueError: they differ in something else.
    """
    found, begin, at = [], 0, 0
    while (at := high.find(_ONES, at)) >= 0:
        if low[at : at + len(_ZEROS)] == _ZEROS:
            found.append(low[begin:at])
            begin = at = at + len(_ZEROS)
        else:
            at += 1  # a byte before the number looks like one of it
    found.append(low[begin:])
    if low != _ZEROS.join(found) or high != _ONES.join(found):
        raise ValueError(f"something that is no int64 differs: {low.hex(' ')} and {high.hex(' ')}")
    return found


def layout_of(pieces: Sequence[bytes]) -> str:
    """Pieces with an int64 between each two, for `struct.Struct`."""
    return "q".join(f"{len(piece)}s" for piece in pieces)


@lru_cache(maxsize=1024)
def struct_of(layout: str) -> Struct:
    """What reads and writes a layout; messages of one kind mostly have the same one."""
    return Struct(layout)


def two_gaps(low: bytes, high: bytes) -> tuple[Callable[..., bytes], bytes, bytes, bytes]:
    """How to write a message of which all is known but two numbers: ``pack(before, first, between, second, after)``.

    Args:
        low, high: as for `pieces_around`.

    Returns:
        ``pack``, and what stands before, between and after.

    Raises:
        ValueError: there are not two numbers, or something else differs.
    """
    before, between, after = pieces = pieces_around(low, high)
    return struct_of(">" + layout_of(pieces)).pack, before, between, after
