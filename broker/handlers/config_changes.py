"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ottla.broker.core.configs.alterations import Alteration
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.configs.loggers import planned_level
from ottla.broker.core.topics.catalog import Refusal
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode

Answer = tuple[int, str | None, int, str]
"""Error code, message, resource type, resource name."""


async def answers(alterations: Sequence[Alteration], services: Services, *, validate_only: bool) -> Iterable[Answer]:
    """Carry the alterations out; a row for each."""
    stored = [each for each in alterations if each.resource_type != ResourceType.BROKER_LOGGER]
    outcomes = iter(await services.topics.alter_configs(stored, validate_only=validate_only))
    times = Counter(each[:2] for each in alterations)
    refusals: list[Refusal | None] = []
    for alteration in alterations:
        if alteration.resource_type != ResourceType.BROKER_LOGGER:
            refusals.append(next(outcomes))
        elif times[alteration[:2]] > 1:
            refusals.append(Refusal(ErrorCode.INVALID_REQUEST, "A resource may be named once only"))
        else:
            refusals.append(_change_level(alteration, services, validate_only=validate_only))
    return [
        (
            refusal.error_code if refusal else ErrorCode.NONE,
            refusal.message if refusal else None,
            alteration.resource_type,
            alteration.resource_name,
        )
        for alteration, refusal in zip(alterations, refusals, strict=True)
    ]


def _change_level(alteration: Alteration, services: Services, *, validate_only: bool) -> Refusal | None:
    """The level of the log is kept by nobody: it holds until the broker ends."""
    logger = services.logger
    if logger is None:
        return Refusal(ErrorCode.INVALID_REQUEST, "This broker has no logger whose level could be changed")
    level = planned_level(alteration, logger.level, services.node.node_id)
    if isinstance(level, Refusal):
        return level
    if not validate_only:
        logger.level = level
    return None
