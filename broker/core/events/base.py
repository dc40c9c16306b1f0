"""The base of all events."""

from __future__ import annotations

from msgspec import Struct

UNTOLD = frozenset(
    (
        "absent_heard_ms",
        "assignments",
        "at_ms",
        "cause",
        "commits",
        "deletions",
        "episode",
        "group_id",
        "leaving",
        "loaded",
        "moved_back",
        "pending",
        "producer_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "retention_ms",
        "session_timeout_ms",
        "settings",
        "shard",
        "topic_id",
        "topics",
        "wall_ms",
        "wanted",
    )
)
"""Fields that one line about an event leaves out: what every event has, and what a request says at length."""


THIS_ENTRY = -1
"""Stands for the number of the entry that an event is emitted in."""


class Event(Struct, kw_only=True, tag=True, tag_field="event", omit_defaults=True, gc=False):
    """Something that happened to a group.

    Attributes:
        group_id: the group; empty for events of a whole partition.
        cause: the number of the input that led to it, 0 if none did; set as it is emitted, unless it was given.
        at_ms, wall_ms: when, on the broker's monotonic clock and in Unix time; set as it is emitted.
    """

    group_id: str
    cause: int = THIS_ENTRY
    at_ms: int = 0
    wall_ms: int = 0

    def line(self) -> str | None:
        """The line in Kafka's wording, None where Kafka logs none."""
        return None

    def summary(self) -> str:
        """One line with the name and every field, for traces."""
        parts = [type(self).__name__]
        for name in self.__struct_fields__:
            if name not in UNTOLD:
                parts.append(f"{name}={_brief(getattr(self, name))}")
        return " ".join(parts)


def _brief(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_brief(item) for item in value) + "]"
    text = str(value)
    return repr(text) if isinstance(value, str) and (not text or " " in text) else text
