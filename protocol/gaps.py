"""Bytes that are known but for some int64 numbers in them: how a message looks that is sent again and again.

Where the numbers stand is not worked out from a schema. The same message is encoded with two values that have no byte
in common, and the two results are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

LOW: Final = 0
HIGH: Final = -1
"""Two numbers whose eight bytes all differ."""

_WIDTH: Final = 8


def pieces_around(low: bytes, high: bytes) -> list[bytes]:
    """What stands before, between and behind the numbers.

    Args:
        low, high: the same message, with `LOW` and with `HIGH` in the place of each number.

    Raises:
        ValueError: they differ in something else.
    """
    if len(low) != len(high):
        raise ValueError(f"{len(low)} and {len(high)} bytes")
    found, begin, at = [], 0, 0
    while at < len(low):
        if low[at] == high[at]:
            at += 1
            continue
        if low[at : at + _WIDTH] != bytes(_WIDTH) or high[at : at + _WIDTH] != b"\xff" * _WIDTH:
            raise ValueError(f"something that is no int64 differs at {at}")
        found.append(low[begin:at])
        begin = at = at + _WIDTH
    return [*found, low[begin:]]


def layout_of(pieces: Sequence[bytes]) -> str:
    """Pieces with an int64 between each two, for `struct.Struct`."""
    return "q".join(f"{len(piece)}s" for piece in pieces)


class Gaps:
    """Writes a message of which all is known but two numbers.

    Args:
        low, high: as for `pieces_around`.

    Raises:
        ValueError: there are not two numbers, or something else differs.
    """

    __slots__ = ("_after", "_before", "_between", "_pack")

    def __init__(self, low: bytes, high: bytes) -> None:
        pieces = pieces_around(low, high)
        self._before, self._between, self._after = pieces
        self._pack = Struct(">" + layout_of(pieces)).pack

    def filled(self, first: int, second: int) -> bytes:
        """The message with these numbers."""
        return self._pack(self._before, first, self._between, second, self._after)
