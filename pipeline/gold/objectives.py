"""Objectives: how far behind a group may be."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import translate
from types import MappingProxyType
from typing import NamedTuple

_NONE: Mapping[str, float] = MappingProxyType({})


class Objectives(NamedTuple):
    """The objectives of groups for their lag.

    Attributes:
        seconds: for every group, unless
        groups: names it: group ids, or patterns with ``*`` and ``?``, and seconds; the first that fits counts.
    """

    seconds: float = 120.0
    groups: Mapping[str, float] = _NONE

    def rows(self) -> list[tuple[int, str, float]]:
        """Rank, regular expression (as Java has it too) and seconds; the lowest rank that matches counts.

        Raises:
            ValueError: an objective is negative or no number.
        """
        named = {"every group": self.seconds, **self.groups}
        if wrong := {name: value for name, value in named.items() if not 0 <= value < float("inf")}:
            name, value = next(iter(wrong.items()))
            raise ValueError(f"the objective of {name} must be 0 or more seconds, not {value!r}")
        rows = [(rank, _regex(glob), float(value)) for rank, (glob, value) in enumerate(self.groups.items())]
        return [*rows, (len(rows), "", float(self.seconds))]


def _regex(glob: str) -> str:
    """Python says ``(?s:…)\\Z`` (``\\z`` from 3.14 on) for the end; Java's ``\\Z`` would let a line feed pass."""
    return "^" + translate(glob).removesuffix(r"\Z").removesuffix(r"\z") + r"\z"
