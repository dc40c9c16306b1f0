"""The settings of a broker in layers: its own dynamic ones, those for all brokers, those it started with (KIP-226)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ottla.broker.core.configs.kinds import ConfigSource, Synonym
from ottla.broker.core.topics.keys import TOPIC_KEYS
from ottla.broker.setting_keys import ALIASES, of_listener
from ottla.broker.settings import FIELDS, BadSetting, Settings, as_text, parse_value

_NOTHING: Mapping[str, str] = {}
# What is not allowed for a topic is not for all topics either.
_OF_TOPICS = {key.broker_key: key for key in TOPIC_KEYS.values()}

_KEYS_AND_CERTIFICATES = (
    "ssl.keystore.", "ssl.truststore.", "ssl.key.password", "ssl.cipher.suites", "ssl.enabled.protocols"
)  # fmt: skip
"""What may be changed of the TLS of a listener while the broker runs."""


class BrokerConfigs:
    """The settings in force, and where each comes from. Read only.

    Keys that nobody knows are kept and shown without their values, as Kafka does: they may be a plugin's secrets. Those
    that Kafka knows and that mean nothing here are shown.

    Attributes:
        static: what the broker was started with.
        default: what was set for all brokers while it ran, own: for this one.
        settings: what is in force.
    """

    __slots__ = ("default", "own", "settings", "static")

    def __init__(
        self, static: Settings, *, default: Mapping[str, str] = _NOTHING, own: Mapping[str, str] = _NOTHING
    ) -> None:
        self.static = static
        self.default = default
        self.own = own
        values: dict[str, Any] = {}
        by_listener = dict(static.by_listener)
        for key, text in {**default, **own}.items():
            # What an earlier version took and this one does not must not keep the broker from starting.
            if invalid_setting(key, text) is not None:
                continue
            if key in FIELDS:
                values[FIELDS[key].name] = parse_value(key, text)
            elif (setting := of_listener(key)) is not None:
                by_listener[key.removeprefix("listener.name.").lower()] = parse_value(setting, text)
        if by_listener != static.by_listener:
            values["by_listener"] = by_listener
        self.settings = dataclasses.replace(static, **values) if values else static

    def synonyms(self, key: str) -> tuple[Synonym, ...]:
        """Every place that gives a key of ours a value; the first one counts."""
        found = []
        if (text := self.own.get(key)) is not None:
            found.append(Synonym(key, text, ConfigSource.DYNAMIC_BROKER_CONFIG))
        if (text := self.default.get(key)) is not None:
            found.append(Synonym(key, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
        field = FIELDS[key]
        if self.static.is_given(key):
            found.append(Synonym(key, as_text(getattr(self.static, field.name)), ConfigSource.STATIC_BROKER_CONFIG))
        found.append(Synonym(key, as_text(field.default), ConfigSource.DEFAULT_CONFIG))
        return tuple(found)


def is_read_only(key: str) -> bool:
    """Whether DescribeConfigs says of a key that it cannot be changed while the broker runs.

    A key of TLS is told to be changeable by its own name, and read-only with the name of a listener before it. So it is
    in Kafka, though it is the second one that can be changed.
    """
    return key not in FIELDS or not (FIELDS[key].metadata["dynamic"] or key.startswith(_KEYS_AND_CERTIFICATES))


def invalid_setting(key: str, text: str) -> str | None:
    """The fault of a dynamic value, or None. Keys that are not ours pass."""
    setting = key if key in FIELDS else of_listener(key)
    is_dynamic = key in FIELDS and FIELDS[key].metadata["dynamic"]
    if setting is not None and setting != key:
        is_dynamic = setting.startswith(_KEYS_AND_CERTIFICATES)
    if key in ALIASES or (setting is not None and not is_dynamic):
        return (
            f"{key} cannot be changed while the broker runs: restart it with --set {key}=VALUE, or set it in its file"
        )
    if setting is None:
        return None
    try:
        parse_value(setting, text)
    except BadSetting as error:
        return f"Invalid value {text} for configuration {key}: {error}"
    topic_key = _OF_TOPICS.get(key)
    if topic_key is not None and (problem := topic_key.check(text.strip())):
        return f"Invalid value {text} for configuration {key}: {problem}"
    return None
