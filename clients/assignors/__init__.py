"""Assignors: how a group's leader divides partitions among the members. The names are Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.clients.assignors.base import Assignor, MemberSubscription, RebalanceProtocol
from ottla.clients.assignors.cooperative_sticky import CooperativeStickyAssignor
from ottla.clients.assignors.even import RangeAssignor, RoundRobinAssignor
from ottla.clients.assignors.sticky import StickyAssignor
from ottla.clients.errors import OptionError

ASSIGNORS: dict[str, type[Assignor]] = {
    one.name: one for one in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


def make_assignors(strategy: str | Assignor | Sequence[str | Assignor]) -> list[Assignor]:
    """Assignors from the option ``partition_assignment_strategy``: names or `Assignor` objects, in order of preference.

    Raises:
        OptionError: an unknown name, none at all, or one twice.
    """
    given = strategy if isinstance(strategy, Iterable) and not isinstance(strategy, str) else [strategy]
    allowed = f"one or more of {', '.join(ASSIGNORS)}, or Assignor objects"
    made: dict[str, Assignor] = {}
    for item in given:
        if isinstance(item, str):
            if item not in ASSIGNORS:
                raise OptionError(f"partition_assignment_strategy={strategy!r}: allowed are {allowed}")
            item = ASSIGNORS[item]()
        if not isinstance(item, Assignor) or item.name in made:
            raise OptionError(f"partition_assignment_strategy={strategy!r}: allowed are {allowed}, each once")
        made[item.name] = item
    if not made:
        raise OptionError(f"partition_assignment_strategy={strategy!r}: allowed are {allowed}")
    return list(made.values())


__all__ = [
    "ASSIGNORS",
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "make_assignors",
]
