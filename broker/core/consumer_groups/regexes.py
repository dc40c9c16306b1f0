"""Regexes that members subscribe with: when they are resolved, and to which topics (3.3).

Whether one is a regex is asked of `ottla.broker.core.pattern`; whoever joins with one that no other member uses hears
its `BadPattern` (R3.8, R3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.protocol.groups import utf16_order
from ottla.protocol.steps import Steps

LEAST_INTERVAL_MS = 10_000
"""So long the regexes of a group rest between two resolutions, whatever happens."""

AT_A_TIME = 100
"""Names of topics that are held against a regex in one step: a millisecond, mostly, and a second at the very most."""


class ResolvedRegex(NamedTuple):
    """What a regex came to.

    Attributes:
        topics: their names, sorted as Java does.
        version: of the metadata that it was resolved with.
        timestamp_ms: when its resolution began, in Unix time.
    """

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


def is_resolution_due(
    resolved: Mapping[str, ResolvedRegex],
    used: int,
    *,
    brings_new: bool,
    newest_topic_version: int,
    refresh_interval_ms: int,
    wall_ms: int,
) -> bool:
    """Whether a heartbeat starts a resolution of all regexes, if none is running (R3.11).

    The first of the resolved ones stands for all, as they are resolved together.

    Args:
        resolved: the group's resolved regexes.
        used: how many regexes its members use after the request.
        brings_new: the request brings a regex that nobody used.
        newest_topic_version: the version of the metadata at which a topic was last created (R3.19).
        refresh_interval_ms: ``group.consumer.regex.refresh.interval.ms``.
    """
    if not used and not brings_new:
        return False
    if not resolved:
        return True
    first = next(iter(resolved.values()))
    age_ms = wall_ms - first.timestamp_ms
    return age_ms > LEAST_INTERVAL_MS and (
        brings_new or used != len(resolved) or first.version < newest_topic_version or age_ms > refresh_interval_ms
    )


Visible = Callable[[list[str]], list[str]]
"""Those of some topics that may be seen."""


def resolve(
    regexes: Iterable[str], topic_names: Iterable[str], visible: Visible | None = None
) -> Steps[dict[str, tuple[str, ...]]]:
    """The topics that each regex matches, sorted as Java does. Reading and matching can be done in another thread.

    Args:
        regexes: what is none matches nothing: a log of another broker may have such a one.
        topic_names: of all topics, internal ones too (R3.5).
        visible: None if all of them may be seen.
    """
    found: dict[str, tuple[str, ...]] = {}
    names = sorted(topic_names, key=utf16_order)
    for regex in regexes:
        matched: list[str] = []
        try:
            pattern = yield partial(Pattern, regex)
        except BadPattern:
            pass
        else:
            for begin in range(0, len(names), AT_A_TIME):
                some = yield partial(_matching, pattern, names[begin : begin + AT_A_TIME])
                matched += some if visible is None else visible(some)
        found[regex] = tuple(matched)
    return found


def _matching(pattern: Pattern, names: list[str]) -> list[str]:
    return [name for name in names if pattern.matches(name)]
