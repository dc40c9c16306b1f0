"""Chooses who must go when too many come, so that no address can keep the others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class Guest(Protocol):
    """Something that takes room; ``address`` is whose it is."""

    @property
    def address(self) -> str: ...


G = TypeVar("G", bound=Guest)


def first_to_go(guests: Iterable[Guest], those: Sequence[G]) -> G | None:
    """One of ``those``, of which the first have been there for longest: the first of whose address has most guests."""
    held = Counter(one.address for one in guests)
    return max(those, key=lambda one: held[one.address], default=None)
