"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration, own_fault
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.configs.loggers import planned_level
from ottla.broker.core.refusal import Refusal, bad_request, code_and_message
from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.handlers.services import Services
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
    outcomes = iter(await services.topics.alter_configs(stored, validate_only=validate_only))
    refusals: list[Refusal | None] = []
    for alteration, refusal in zip(alterations, denied, strict=True):
        if refusal is not None:
            refusals.append(refusal)
        elif alteration.resource_type != ResourceType.BROKER_LOGGER:
            refusals.append(next(outcomes))
        elif times[alteration[:2]] > 1:
            refusals.append(bad_request("A resource may be named once only"))
        else:
            refusals.append(_change_level(alteration, services, validate_only=validate_only))
        if refusals[-1] is None and not validate_only:
            keys = [change.name for change in alteration.changes]  # values may be secrets
            kind = ResourceType(alteration.resource_type).name
            services.audit.tell("config_altered", ctx, resource=kind, name=alteration.resource_name, keys=keys)
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
