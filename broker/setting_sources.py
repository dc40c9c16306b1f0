"""Where settings come from: properties files, the environment, ``--set``; and Kafka's older spellings of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.settings import FIELDS, BadSetting, Settings, parse_value

NOT_SETTINGS = frozenset(
    {
        "OTTLA_AIOKAFKA_TREE",
        "OTTLA_BOOTSTRAP_SERVERS",
        "OTTLA_DIFFERENTIAL_CACHE",
        "OTTLA_INTEROP_CACHE",
        "OTTLA_SEED",
        "OTTLA_SIM_SEEDS",
        "OTTLA_TESTS",
    }
)
"""Environment variables that the command-line tools and the tests read."""

# Kafka's older or finer-grained spellings of settings that we hold in one unit.
ALIASES: dict[str, tuple[str, int]] = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}


def parse_properties(text: str) -> dict[str, str]:
    """Read the lines of a properties file: ``key=value``, ``#`` and ``!`` begin comments, ``\\`` continues a line."""
    pairs: dict[str, str] = {}
    logical = ""
    for raw in text.splitlines():
        line = logical + raw.strip()
        logical = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            logical = line[:-1]
            continue
        cut = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=len(line))
        pairs[line[:cut].strip()] = line[cut + 1 :].strip()
    return pairs


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among environment variables.

    Names that are no setting are left out if they begin with KAFKA_ (other tools share that prefix) and kept, to be
    warned about, if they begin with OTTLA_; but for those that other commands of ours read.
    """
    pairs: dict[str, str] = {}
    for prefix in ("KAFKA_", "OTTLA_"):
        for name, value in environment.items():
            if not name.startswith(prefix) or name in NOT_SETTINGS:
                continue
            key = name.removeprefix(prefix).lower().replace("_", ".")
            if key not in FIELDS and f"ottla.{key}" in FIELDS:
                key = f"ottla.{key}"
            if prefix == "OTTLA_" or key in FIELDS or key in ALIASES:
                pairs[key] = value
    return pairs


class Loaded(NamedTuple):
    """Checked settings, the keys that were not known, and those that were given and have no effect yet."""

    settings: Settings
    unknown: list[str]
    without_effect: list[str]


def load(*sources: Mapping[str, str] | Iterable[tuple[str, str]]) -> Loaded:
    """Merge sources (later ones win) and check every value.

    Raises:
        BadSetting: one line that names the key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for source in sources:
        for key, text in dict(source).items():
            target, factor = ALIASES.get(key, (key, 1))
            if target not in FIELDS:
                unknown.append(key)
            elif factor == 1:
                values[target] = parse_value(target, text)
            else:
                try:
                    number = int(text)
                except ValueError:
                    raise BadSetting(f"{key}={text!r}: not a whole number") from None
                values[target] = parse_value(target, str(number * factor if number >= 0 else number))
    if "," in values.get("log.dirs", ""):
        raise BadSetting(f"log.dirs={values['log.dirs']!r}: allowed is one directory")
    settings = Settings(given=frozenset(values), **{FIELDS[key].name: value for key, value in values.items()})
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        raise BadSetting(
            f"group.min.session.timeout.ms={settings.group_min_session_timeout_ms}: must not exceed "
            f"group.max.session.timeout.ms={settings.group_max_session_timeout_ms}"
        )
    return Loaded(settings, unknown, [key for key in values if not FIELDS[key].metadata["effective"]])
