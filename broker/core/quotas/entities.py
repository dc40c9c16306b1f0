"""Quotas: the entities that have them, their kinds, and their changes (KIP-546).

An entity is one or two parts, each a type and a name; a part without a name stands for everybody of its type who has
nothing of their own. A quota is a number under one of a few keys.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.broker.core.refusal import Refusal, bad_request
from ottla.broker.settings import INT32_MAX, INT64_MAX

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""Parts in the order of their types; each type once."""

Quotas = Mapping[Entity, Mapping[str, float]]
"""The quotas that are set, by entity. Read only."""

_ORDER = {IP: 0, CLIENT_ID: 1, USER: 2}
_FRACTION = 1e-6
"""The error that a whole number may have."""

_OF_CLIENTS: Mapping[str, int | None] = {
    PRODUCER_BYTE_RATE: INT64_MAX,
    CONSUMER_BYTE_RATE: INT64_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Mapping[str, int | None] = {CONNECTION_CREATION_RATE: INT32_MAX}
"""The keys, and the largest value of those that are whole numbers."""


class QuotaChange(NamedTuple):
    """The change of one entity: keys with their new values, None to remove one."""

    entity: Entity
    values: Sequence[tuple[str, float | None]]


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity of parts as they come; of two parts of a type the last one counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: (_ORDER.get(part[0], len(_ORDER)), part[0])))


def plan(
    quotas: Quotas, changes: Iterable[QuotaChange], addresses: Collection[str]
) -> tuple[Quotas, Mapping[Entity, Refusal | None]]:
    """Carry out every change that is allowed.

    Args:
        addresses: those names of ``ip`` entities that stand for an address.

    Returns:
        The quotas as they are then, and for each entity why it cannot be changed, or None.
    """
    changed = dict(quotas)
    refusals: dict[Entity, Refusal | None] = {}
    for entity, values in changes:
        if entity in refusals:
            refusals[entity] = bad_request("An entity may be named once only")
            continue
        refusals[entity] = refusal = _invalid(entity, values, addresses)
        if refusal is None:
            _apply(changed, entity, values)
    return changed, refusals


def _apply(
    quotas: dict[Entity, Mapping[str, float]], entity: Entity, values: Sequence[tuple[str, float | None]]
) -> None:
    changed = {**quotas.get(entity, {}), **dict(values)}
    if row := {key: value for key, value in changed.items() if value is not None}:
        quotas[entity] = row
    else:
        quotas.pop(entity, None)


def _invalid(entity: Entity, values: Sequence[tuple[str, float | None]], addresses: Collection[str]) -> Refusal | None:
    keys = [key for key, _ in values]
    if len(set(keys)) != len(keys):
        return bad_request("A key may be named once only")
    if problem := _invalid_entity(entity, addresses):
        return bad_request(problem)
    allowed = _OF_ADDRESSES if dict(entity).keys() == {IP} else _OF_CLIENTS
    for key, value in values:
        if value is not None and (problem := _invalid_value(key, value, allowed)):
            return bad_request(problem)
    return None


def _invalid_entity(entity: Entity, addresses: Collection[str]) -> str | None:
    if not entity:
        return "An entity needs at least one part"
    for kind, name in entity:
        if kind not in _ORDER:
            return f"There are no quotas for entities of type '{kind}'"
        if name == "":
            return f"The name of a {kind} may not be empty"
    names = dict(entity)
    if IP in names:
        if len(names) > 1:
            return "An ip stands alone: it cannot be joined with a user or a client-id"
        if (name := names[IP]) is not None and name not in addresses:
            return f"'{name}' is neither an address nor the name of a host"
    return None


def _invalid_value(key: str, value: float, allowed: Mapping[str, int | None]) -> str | None:
    if key not in allowed:
        return f"This entity has no quota '{key}'"
    if not value > 0:  # NaN, too
        return f"{key} must be greater than 0"
    if (most := allowed[key]) is not None:
        if value > float(most):
            return f"{key} may be {most} at most"
        if abs(math.fmod(value, 1.0)) > _FRACTION:
            return f"{key} must be a whole number"
    return None


# ------------------------------------------------------------------------------------------------------------- stored


def quotas_state(quotas: Quotas) -> list[dict[str, Any]]:
    """The quotas as JSON has them."""
    return [{"entity": dict(entity), "values": dict(values)} for entity, values in quotas.items()]


def quotas_from_state(state: Iterable[Mapping[str, Any]]) -> Quotas:
    """Read what `quotas_state` gave. What was stored once and can be no quota, as NaN, is left out."""
    quotas: dict[Entity, Mapping[str, float]] = {}
    for row in state:
        values = {key: float(value) for key, value in row["values"].items()}
        if kept := {key: value for key, value in values.items() if _is_quota(key, value)}:
            quotas[entity_of(row["entity"].items())] = kept
    return quotas


def _is_quota(key: str, value: float) -> bool:
    most = _OF_CLIENTS.get(key, _OF_ADDRESSES.get(key))
    return value > 0 and (most is None or value <= float(most))
