"""Changes of settings: what AlterConfigs and IncrementalAlterConfigs ask for, and the catalog that comes of it.

AlterConfigs (KIP-133) says what a resource has from now on and forgets everything else; IncrementalAlterConfigs
(KIP-339) changes single keys. Each resource is changed as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from ottla.broker.core.configs.brokers import invalid_setting
from ottla.broker.core.configs.groups import invalid_group_configs
from ottla.broker.core.configs.kinds import ConfigType, ResourceType, as_list
from ottla.broker.core.refusal import Refusal, bad_request
from ottla.broker.core.topics.catalog import Catalog, TopicEntry, invalid_name
from ottla.broker.core.topics.configs import invalid
from ottla.broker.core.topics.keys import TOPIC_KEYS
from ottla.broker.setting_keys import of_listener
from ottla.broker.settings import FIELDS, Settings, as_text, type_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.steps import Steps

ALL_BROKERS = ""
"""The name of the settings that hold for every broker."""


class Operation(IntEnum):
    """The operation on a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One key and what is to be done to it; ``operation`` as it came, maybe one that there is not."""

    name: str
    value: str | None
    operation: int = Operation.SET


class Alteration(NamedTuple):
    """The changes of one resource. ``replaces``: what is not named is forgotten."""

    resource_type: int
    resource_name: str
    changes: Sequence[Change]
    replaces: bool = False


def names_keys(alteration: Alteration) -> bool:
    """Whether the keys and certificates of a listener may be others afterwards, or files of the same names new ones."""
    is_named = alteration.replaces or any(of_listener(change.name) for change in alteration.changes)
    return alteration.resource_type == ResourceType.BROKER and is_named


_Configs = dict[str, str]
_AllConfigs = dict[str, Mapping[str, str]]


AT_ONCE = 200
"""Alterations that are planned without a pause."""


def plan(
    catalog: Catalog, alterations: Sequence[Alteration], settings: Settings, node_id: int
) -> Steps[tuple[Catalog, list[Refusal | None]]]:
    """Carry out every alteration that is allowed, with turns for others where there are many.

    Args:
        settings: those in force; APPEND and SUBTRACT of a key that is not set begin with them.

    Returns:
        The catalog as it is then, and for each alteration why it cannot be made, or None.
    """
    times = Counter(alteration[:2] for alteration in alterations)
    refusals: list[Refusal | None] = []
    topics: dict[str, TopicEntry] = {}
    brokers, groups = dict(catalog.broker_configs), dict(catalog.group_configs)
    for number, alteration in enumerate(alterations, 1):
        outcome: Refusal | None
        if times[alteration[:2]] > 1:
            outcome = bad_request("A resource may be named once only")
        elif alteration.resource_type == ResourceType.TOPIC:
            outcome = _plan_topic(catalog, alteration, settings, topics)
        elif alteration.resource_type == ResourceType.BROKER:
            outcome = _plan_broker(brokers, alteration, settings, node_id)
        elif alteration.resource_type == ResourceType.GROUP:
            outcome = _plan_group(groups, alteration, settings)
        else:
            outcome = bad_request(f"Resources of type {alteration.resource_type} cannot be changed here")
        refusals.append(outcome)
        if not number % AT_ONCE:
            yield None
    if topics:
        catalog = catalog.with_topics(topics.values())
    return replace(catalog, broker_configs=brokers, group_configs=groups), refusals


def _plan_topic(
    catalog: Catalog, alteration: Alteration, settings: Settings, changed: dict[str, TopicEntry]
) -> Refusal | None:
    name = alteration.resource_name
    entry = catalog.topics.get(name)

    def list_of(key: str) -> str | None:
        found = TOPIC_KEYS.get(key)
        if found is None or found.type is not ConfigType.LIST:
            return None
        attribute = found.broker_attribute
        return as_text(getattr(settings, attribute)) if attribute else found.default

    configs = altered(entry.configs if entry else {}, alteration, list_of)
    if isinstance(configs, Refusal):
        return configs
    if not name:
        return bad_request("Topics have no settings in common")
    if problem := invalid_name(name):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if problem := invalid(configs.items()):
        return Refusal(ErrorCode.INVALID_CONFIG, problem)
    if entry is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
    changed[name] = entry._replace(configs=configs)
    return None


def _plan_broker(all_configs: _AllConfigs, alteration: Alteration, settings: Settings, node_id: int) -> Refusal | None:
    name = alteration.resource_name
    if name != ALL_BROKERS and name != str(node_id):
        return bad_request(f"This is broker {node_id}; the settings of broker '{name}' cannot be changed here")

    def list_of(key: str) -> str | None:
        is_list = key in FIELDS and type_of(key) == "list"
        return as_text(getattr(settings, FIELDS[key].name)) if is_list else None

    configs = altered(all_configs.get(name, {}), alteration, list_of)
    if isinstance(configs, Refusal):
        return configs
    if name == ALL_BROKERS and any(of_listener(change.name) for change in alteration.changes):
        return bad_request("Settings of a listener are those of one broker: name it, as --entity-name does")
    for change in alteration.changes:
        value = configs.get(change.name)
        if value is not None and (problem := invalid_setting(change.name, value)):
            return bad_request(problem)
    _put(all_configs, name, configs)
    return None


def _plan_group(all_configs: _AllConfigs, alteration: Alteration, settings: Settings) -> Refusal | None:
    name = alteration.resource_name
    if not name:
        return bad_request("Groups have no settings in common")
    configs = altered(all_configs.get(name, {}), alteration, lambda key: None)
    if isinstance(configs, Refusal):
        return configs
    if problem := invalid_group_configs(configs, settings):
        return Refusal(ErrorCode.INVALID_CONFIG, problem)
    _put(all_configs, name, configs)
    return None


def _put(all_configs: _AllConfigs, name: str, changed: Mapping[str, str]) -> None:
    """Settings that were changed last come last."""
    all_configs.pop(name, None)
    if changed:
        all_configs[name] = changed


def own_fault(alteration: Alteration) -> Refusal | None:
    """The fault of an alteration that can be seen without looking at what is to be altered."""
    names = [change.name for change in alteration.changes]
    if len(set(names)) != len(names):
        return bad_request("A key may be named once only")
    for change in alteration.changes:
        if change.value is None and change.operation != Operation.DELETE:
            return bad_request(f"{change.name} needs a value")
    return None


def altered(
    present: Mapping[str, str], alteration: Alteration, list_of: Callable[[str], str | None]
) -> _Configs | Refusal:
    """The settings that a resource has after an alteration; nothing is checked but the operations.

    Args:
        list_of: the items in force of a key that is a list, None for any other key.
    """
    if fault := own_fault(alteration):
        return fault
    configs = {} if alteration.replaces else dict(present)
    for name, value, operation in alteration.changes:
        if operation == Operation.DELETE or value is None:
            configs.pop(name, None)
        elif operation == Operation.SET:
            configs[name] = value.strip() if list_of(name) is None else _listed("", value, append=True)
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            items = list_of(name)
            if items is None:
                text = f"{name} is no list: nothing can be added to it or taken from it"
                return Refusal(ErrorCode.INVALID_CONFIG, text)
            configs[name] = _listed(configs.get(name, items), value, append=operation == Operation.APPEND)
        else:
            return bad_request(f"There is no operation {operation}")
    return configs


def _listed(present: str, value: str, *, append: bool) -> str:
    items, others = as_list(present), as_list(value)
    if append:
        return ",".join([*items, *(item for item in dict.fromkeys(others) if item not in items)])
    return ",".join(item for item in items if item not in others)
