"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration, own_fault
from ottla.broker.core.configs.idle import idle_type
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.configs.loggers import ROOT, kafkas_level, planned_level
from ottla.broker.core.refusal import Refusal, bad_request, code_and_message
from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.handlers.services import Services
from ottla.broker.setting_keys import of_listener
from ottla.broker.settings import FIELDS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import ResourceOutcome

RESOURCES: Final[Mapping[int, tuple[Resource, ErrorCode]]] = {
    ResourceType.TOPIC: (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ResourceType.BROKER: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ResourceType.BROKER_LOGGER: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ResourceType.CLIENT_METRICS: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
"""What is asked for the settings of something, and what is answered to those who may not."""
HIDDEN: Final = "[hidden]"
"""Stands for a value that is a secret, as in Kafka's logs."""


async def answers(
    alterations: Sequence[Alteration], ctx: RequestContext, services: Services, *, validate_only: bool
) -> list[ResourceOutcome]:
    """Carry the alterations out; a row for each."""
    times = Counter(each[:2] for each in alterations)
    denied = [_denied(each, times[each[:2]], ctx, services) for each in alterations]
    stored = [
        each
        for each, refusal in zip(alterations, denied, strict=True)
        if each.resource_type != ResourceType.BROKER_LOGGER and refusal is None
    ]
    catalogs: list[Catalog] = []
    outcomes = iter(
        await services.topics.alter_configs(
            stored, validate_only=validate_only, report=lambda *both: catalogs.extend(both)
        )
    )
    refusals: list[Refusal | None] = []
    level: Mapping[str, str] = {}
    for alteration, refusal in zip(alterations, denied, strict=True):
        if refusal is not None:
            refusals.append(refusal)
        elif alteration.resource_type != ResourceType.BROKER_LOGGER:
            refusals.append(next(outcomes))
        elif times[alteration[:2]] > 1:
            refusals.append(bad_request("A resource may be named once only"))
        else:
            level = _levels(services)
            refusals.append(_change_level(alteration, services, validate_only=validate_only))
        if refusals[-1] is None and not validate_only:
            if alteration.resource_type == ResourceType.BROKER_LOGGER:
                values = _values(alteration, level, _levels(services))
            else:
                values = _values(alteration, *(_configs_of(alteration, catalog) for catalog in catalogs))
            kind = ResourceType(alteration.resource_type).name
            services.audit.tell("config_altered", ctx, resource=kind, name=alteration.resource_name, **values)
    return [
        _row(alteration, *code_and_message(refusal)) for alteration, refusal in zip(alterations, refusals, strict=True)
    ]


def _denied(alteration: Alteration, times: int, ctx: RequestContext, services: Services) -> Refusal | None:
    """Why somebody may not alter something; None also where he hears of a fault of the request itself, as in Kafka."""
    kind, name = alteration[:2]
    if services.authorizer is None or times > 1 or own_fault(alteration) or kind not in RESOURCES:
        return None
    if alteration.replaces and kind == ResourceType.BROKER_LOGGER:  # levels are not replaced, whoever asks
        return None
    resource, error = RESOURCES[kind]
    of = name if resource is not Resource.CLUSTER else CLUSTER_NAME
    if services.permits(ctx, AclOperation.ALTER_CONFIGS, resource, of):
        return None
    return Refusal(error, error.text)


def _configs_of(alteration: Alteration, catalog: Catalog) -> Mapping[str, str]:
    """The settings that a resource has of its own."""
    kind, name = alteration[:2]
    if kind == ResourceType.TOPIC:
        return catalog.topics[name].configs
    return (catalog.group_configs if kind == ResourceType.GROUP else catalog.broker_configs).get(name, {})


def _values(alteration: Alteration, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    """The keys of an alteration, with their values before and after it: None where one had none of its own."""
    keys = [change.name for change in alteration.changes]
    if alteration.replaces:
        keys += [key for key in before if key not in keys]

    def shown(configs: Mapping[str, str]) -> dict[str, str | None]:
        hides = alteration.resource_type == ResourceType.BROKER
        return {key: HIDDEN if hides and key in configs and _is_secret(key) else configs.get(key) for key in keys}

    return {"keys": keys, "before": shown(before), "after": shown(after)}


def _is_secret(key: str) -> bool:
    """Whether nobody is shown the value of a key of brokers: a secret, or one that neither we nor Kafka know."""
    setting = key if key in FIELDS else of_listener(key)
    return idle_type(key) is None if setting is None else bool(FIELDS[setting].metadata["sensitive"])


def failures(alterations: Iterable[Alteration], code: int) -> list[ResourceOutcome]:
    """The rows when we have a bug."""
    return [_row(alteration, code, None) for alteration in alterations]


def _row(alteration: Alteration, code: int, message: str | None) -> ResourceOutcome:
    return ResourceOutcome(
        error_code=code,
        error_message=message,
        resource_type=alteration.resource_type,
        resource_name=alteration.resource_name,
    )


def _levels(services: Services) -> Mapping[str, str]:
    return {} if services.logger is None else {ROOT: kafkas_level(services.logger.level)}


def _change_level(alteration: Alteration, services: Services, *, validate_only: bool) -> Refusal | None:
    """The level of the log is kept by nobody: it holds until the broker ends."""
    logger = services.logger
    if logger is None:
        return bad_request("This broker has no logger whose level could be changed")
    level = planned_level(alteration, logger.level, services.cluster.me)
    if isinstance(level, Refusal):
        return level
    if not validate_only:
        logger.level = level
    return None
