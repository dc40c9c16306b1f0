"""The bodies that cost a decoder most for their size, written from a message's own layout.

Costly are many small things: the arrays of a message, each in turn, are filled with items as short as can be, with
nothing or one item in every array within, and the tag sections with tags that nobody knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ottla.protocol.primitives import ArrayLeaf, Fixed, Leaf, Sized, UuidLeaf, uvarint_bytes
from ottla.protocol.structs import StructLeaf

TAG = b"\x7f\x00"
"""A tag that no message has, and nothing in it."""

MORE_THAN_ARE_REMEMBERED = 5_000
"""So many different ids that decoders make each anew."""


def costly_bodies(layout: Any, items: int) -> Iterator[tuple[str, bytes]]:
    """Bodies of a message that hold so many items, by what is repeated in them.

    Of those with an item in every inner array some more than ``items`` would be one item too many: they have fewer.
    """
    for array in _arrays(layout.leaf):
        for inner in (0, 1):
            each = 1 + inner * sum(1 for _ in _arrays(array.item))
            if inner and each == 1:
                continue
            above = sum(1 for outer in _arrays(layout.leaf) if outer is not array and _holds(outer, array))
            count = (items - above) // each
            yield f"{_path(layout.leaf, array)}/{inner}", _Writer(array, count, inner).write(layout.leaf)
    if layout.flexible:
        yield "tags", _Writer(None, 0, 0).write(layout.leaf)[:-1] + tags(items)


def tags(count: int) -> bytes:
    """A section of so many tags."""
    return uvarint_bytes(count) + TAG * count


class _Writer:
    """Writes a message with ``count`` items in one array, one in those that hold it and ``inner`` in those within."""

    def __init__(self, filled: ArrayLeaf | None, count: int, inner: int) -> None:
        self.filled = filled
        self.count = count
        self.inner = inner
        self.numbers = itertools.count(1)

    def write(self, leaf: Leaf) -> bytes:
        match leaf:
            case Fixed():
                return bytes(leaf.minimum)
            case UuidLeaf():
                return next(self.numbers).to_bytes(16, "big")
            case Sized():
                return uvarint_bytes(1) if leaf.compact else bytes(leaf.minimum)
            case ArrayLeaf():
                count = self.count if leaf is self.filled else int(_holds(leaf, self.filled)) or self._within(leaf)
                size = uvarint_bytes(count + 1) if leaf.compact else count.to_bytes(4, "big")
                if not any(isinstance(part, UuidLeaf) for part in _parts(leaf.item)):
                    return size + self.write(leaf.item) * count
                items = [self.write(leaf.item) for _ in range(min(count, MORE_THAN_ARE_REMEMBERED))]
                return size + b"".join(itertools.islice(itertools.cycle(items), count))
            case StructLeaf():
                marker = b"\x01" if leaf.nullable else b""
                fields = b"".join(self.write(field) for _, field in leaf.fields)
                return marker + fields + (b"\0" if leaf.flexible else b"")
        raise TypeError(f"no bytes for {leaf!r}")

    def _within(self, leaf: ArrayLeaf) -> int:
        return self.inner if self.filled is not None and _holds(self.filled, leaf) else 0


def _parts(leaf: Leaf) -> Iterator[Leaf]:
    """A leaf and everything in it but what is tagged."""
    yield leaf
    if isinstance(leaf, ArrayLeaf):
        yield from _parts(leaf.item)
    elif isinstance(leaf, StructLeaf):
        for _, field in leaf.fields:
            yield from _parts(field)


def _arrays(leaf: Leaf) -> Iterator[ArrayLeaf]:
    return (part for part in _parts(leaf) if isinstance(part, ArrayLeaf))


def _holds(outer: Leaf, inner: Leaf | None) -> bool:
    return any(part is inner for part in _parts(outer) if part is not outer)


def _path(leaf: Leaf, wanted: Leaf) -> str:
    if isinstance(leaf, StructLeaf):
        for name, field in leaf.fields:
            if field is wanted or _holds(field, wanted):
                below = "" if field is wanted else _path(field, wanted)
                return f"{name}.{below}" if below else name
    return _path(leaf.item, wanted) if isinstance(leaf, ArrayLeaf) else ""
