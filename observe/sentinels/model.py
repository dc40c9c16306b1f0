"""Findings and alarms of the sentinels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from ottla.observe.why.plain import runs

SENTINELS: Mapping[str, str] = {
    "two_believers": "two members believe to own the same partition: both consume it, or commit for it",
    "topic_without_owner": "a topic that members subscribe to has partitions that nobody was assigned, or is not there",
    "fenced_commit": "a member that is not in the present generation tries to commit",
    "offset_jump": "a committed offset moved back, or is past the end of the partition",
    "old_barrier": "the group waits for its members for long",
    "idle_partition": "a partition with lag stands still while others of the group move",
    "mixed_subscriptions": "the members of a group do not all subscribe to the same topics",
    "rebalance_storm": "the group rebalances again and again",
    "refused_member": "members are turned away again and again",
    "flapping_member": "one member leaves and comes back again and again",
    "zombie": "the group waits with a member whose connection is gone",
}
"""Every sentinel, and what it means."""


class Alarm(Struct, omit_defaults=True):
    """Something that is wrong with a group.

    Attributes:
        sentinel: one of `SENTINELS`; subject: the topic that it is about, or empty.
        since_ms: when it was raised; last_ms: when it was seen last; cleared_ms: when it was over, 0 while it stands;
            all in Unix time.
        times: how often it happened, for what happens rather than lasts.
        text: one sentence; facts: the same for machines.
    """

    sentinel: str
    group_id: str
    subject: str
    since_ms: int
    last_ms: int
    text: str
    facts: dict[str, str] = {}
    times: int = 1
    cleared_ms: int = 0


class Finding(NamedTuple):
    """Something that a look at a group found. It becomes an alarm once it has been found for ``after_ms``."""

    sentinel: str
    subject: str
    text: str
    facts: dict[str, str]
    after_ms: int = 0


class Now(NamedTuple):
    """The present moment: monotonic, and in Unix time."""

    ms: int
    wall_ms: int


MOST_NAMED = 10
_MADE_ID = re.compile(r"(.*-[0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.DOTALL)


def short(member_id: str) -> str:
    """A member id for a sentence: of the UUID that brokers end them with, the first eight characters."""
    made = _MADE_ID.fullmatch(member_id)
    return made[1] if made else member_id


def named(items: list[str]) -> str:
    """The first of many, and how many more there are."""
    more = len(items) - MOST_NAMED
    return ", ".join(items[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def ranges(assignment: Mapping[str, list[int]]) -> str:
    """Partitions in few words: ``orders 0-3, 7``. The numbers of a topic are in order."""
    return named([f"{topic} {_of_topic(partitions)}" for topic, partitions in assignment.items() if partitions])


def _of_topic(partitions: list[int]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs(partitions))
