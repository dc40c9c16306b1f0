"""The keys of settings besides their names: Kafka's older spellings, and keys for one listener or mechanism."""

from __future__ import annotations

from typing import Final

from ottla.broker.settings import FIELDS

ALIASES: Final[dict[str, tuple[str, int]]] = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
"""Kafka's older or finer-grained spellings of settings that we hold in one unit."""

OF_LISTENER: Final = "listener.name."
"""Begins the keys for one listener."""

MECHANISMS: Final[tuple[str, ...]] = FIELDS["sasl.enabled.mechanisms"].metadata["choices"]
"""What ``listener.name.<listener>.<mechanism>.<key>`` may name, in lower case."""


def of_listener(key: str) -> str | None:
    """The key of a setting that is for one listener, or a mechanism of it; None if it is not such a key.

    ``listener.name.internal.plain.sasl.jaas.config`` is one: its setting is ``sasl.jaas.config``.
    """
    if not key.startswith(OF_LISTENER):
        return None
    setting = key.removeprefix(OF_LISTENER).partition(".")[2]
    mechanism, _, rest = setting.partition(".")
    if mechanism.upper() in MECHANISMS:
        setting = rest
    return setting if setting in FIELDS and FIELDS[setting].metadata["by_listener"] else None


def bare_key(key: str) -> str:
    """A key without the listener, and the mechanism, that it is for."""
    if key.startswith(OF_LISTENER):
        key = key.removeprefix(OF_LISTENER).partition(".")[2]
        mechanism, _, rest = key.partition(".")
        return rest if mechanism.upper() in (*MECHANISMS, "GSSAPI") else key
    return key
