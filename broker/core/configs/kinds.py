"""Types, sources and checks of settings that are kept for topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple


class ConfigType(IntEnum):
    """The type of a setting, as DescribeConfigs tells it (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value, as DescribeConfigs names it (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ResourceType(IntEnum):
    """A kind of thing that has settings, as requests name it."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Synonym(NamedTuple):
    """A place that gives a key its value; None for a value that is not shown."""

    name: str
    value: str | None
    source: ConfigSource


Check = Callable[[str], str | None]
"""Says what is wrong with a value, or None."""


def whole(low: int, high: int, *extra: int) -> Check:
    """Whole numbers from ``low`` to ``high``, and some others."""

    def check(text: str) -> str | None:
        try:
            value = int(text)
        except ValueError:
            return "not a whole number"
        return None if low <= value <= high or value in extra else f"allowed are {low} to {high}"

    return check


def ratio(text: str) -> str | None:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        return "not a number"
    return None if 0 <= value <= 1 else "allowed are 0 to 1"


def boolean(text: str) -> str | None:
    """``true`` or ``false``."""
    return None if text.lower() in ("true", "false") else "allowed are true and false"


def one_of(*choices: str) -> Check:
    """One of some words."""

    def check(text: str) -> str | None:
        return None if text in choices else f"allowed are {', '.join(choices)}"

    return check


def policies(text: str) -> str | None:
    """A ``cleanup.policy``; one that is named twice counts once."""
    return None if set(as_list(text)) <= {"delete", "compact"} else "allowed are delete, compact, or both"


def throttled(text: str) -> str | None:
    """``*``, ``none``, or partition:broker pairs (KIP-73)."""
    items = as_list(text)
    if items in (["*"], ["none"]):
        return None
    for item in items:
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            return "allowed are *, none, or a list of partition:broker"
    return None


def as_list(text: str) -> list[str]:
    """The items of a comma-separated value."""
    return [item.strip() for item in text.split(",") if item.strip()]
